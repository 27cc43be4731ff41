//! The folder target: data that somebody else has removed is missed, never taken for zeros.

use clio_core::Errno;
use clio_core::target::Op;
use clio_core::units::{Extent, Fid};
use clio_targets::conformance::{Client, pattern, pretend_reboot};
use clio_targets::{DamageKind, DirOptions, DirTarget};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FID: Fid = Fid { seq: 0x300, oid: 5, ver: 1 };
const SIZE: u64 = 40_960;

fn open(path: &Path) -> (Arc<DirTarget>, Client) {
    let options = DirOptions { create: true, ..DirOptions::default() };
    let target = Arc::new(DirTarget::open(path, &options).unwrap());
    let client = Client::connect(target.clone());
    (target, client)
}

/// A store with one object of ten blocks, closed.
fn store() -> (tempfile::TempDir, Vec<u8>) {
    let tmp = tempfile::tempdir().unwrap();
    let data = pattern(1, SIZE as usize);
    open(tmp.path()).1.write(FID, 0, &data).unwrap();
    (tmp, data)
}

/// All files below `root` whose name tells that they are the object's.
fn files(root: &Path) -> Vec<PathBuf> {
    let folders = ["objects", "made"].map(|f| fs::read_dir(root.join(f)));
    let files = folders.into_iter().flatten().flatten().flat_map(|f| fs::read_dir(f.unwrap().path()).unwrap());
    files.map(|e| e.unwrap().path()).collect()
}

fn data_file(root: &Path) -> PathBuf {
    let is_data = |p: &PathBuf| p.starts_with(root.join("objects")) && p.extension().is_none();
    files(root).into_iter().find(is_data).unwrap()
}

fn lose_whole(root: &Path) {
    let objects = files(root).into_iter().filter(|p| p.starts_with(root.join("objects")));
    objects.for_each(|p| fs::remove_file(p).unwrap());
}

fn seek(client: &Client, offset: u64, hole: bool) -> Result<u64, Errno> {
    client.seek(FID, offset, hole).map_err(|e| e.errno())
}

#[test]
fn an_object_that_is_gone_whole_is_missed() {
    let (tmp, _) = store();
    lose_whole(tmp.path());
    let (target, client) = open(tmp.path());
    let report = target.store().verify(FID).unwrap();
    assert_eq!(report.damage[0].kind, DamageKind::Object);
    assert!(report.damage[0].detail.contains("missing"), "{report:?}");
    assert_eq!(client.read(FID, 0, 10).unwrap_err().errno(), Errno::EBADMSG);
    assert_eq!(client.getattr(FID).unwrap_err().errno(), Errno::EBADMSG);
    assert_eq!(client.write(FID, 0, b"new").unwrap_err().errno(), Errno::EBADMSG, "no new one takes its place");
    client.call(Op::Destroy(FID)).unwrap();
    assert_eq!(files(tmp.path()), Vec::<PathBuf>::new());
    client.write(FID, 0, b"new").unwrap();
    assert_eq!(client.read(FID, 0, 3).unwrap().0, b"new");
}

#[test]
fn what_was_destroyed_or_never_made_is_not_missed() {
    let (tmp, _) = store();
    {
        let (target, client) = open(tmp.path());
        client.call(Op::Destroy(FID)).unwrap();
        assert_eq!(files(tmp.path()), Vec::<PathBuf>::new());
        assert_eq!(target.store().verify(FID).unwrap_err().errno(), Errno::ENOENT);
    }
    assert_eq!(open(tmp.path()).1.read(FID, 0, 10).unwrap(), (vec![0; 10], 0));
}

#[test]
fn a_new_object_that_a_machine_crash_took_is_not_missed() {
    for by_flush in [false, true] {
        let (tmp, _) = store();
        lose_whole(tmp.path());
        pretend_reboot(tmp.path()).unwrap();
        {
            let (target, client) = open(tmp.path());
            match by_flush {
                true => target.store().flush().unwrap(),
                false => assert_eq!(client.read(FID, 0, 10).unwrap(), (vec![0; 10], 0)),
            }
        }
        assert_eq!(files(tmp.path()), Vec::<PathBuf>::new());
        open(tmp.path()).1.write(FID, 0, b"new").unwrap();
    }
}

#[test]
fn targets_of_earlier_versions_get_traces_for_what_they_make() {
    let (tmp, data) = store();
    fs::remove_dir_all(tmp.path().join("made")).unwrap();
    let other = Fid { ver: 2, ..FID };
    {
        let (_, client) = open(tmp.path());
        assert!(client.read(FID, 0, SIZE as usize).unwrap().0 == data);
        client.write(other, 0, b"x").unwrap();
    }
    lose_whole(tmp.path());
    assert_eq!(open(tmp.path()).1.read(other, 0, 1).unwrap_err().errno(), Errno::EBADMSG);
}

#[test]
fn a_target_that_lost_its_header_is_not_made_anew() {
    let (tmp, data) = store();
    let header = tmp.path().join("target");
    let kept = fs::read(&header).unwrap();
    fs::remove_file(&header).unwrap();
    let e = DirTarget::open(tmp.path(), &DirOptions { create: true, ..DirOptions::default() }).unwrap_err();
    assert_eq!(e.errno(), Errno::EBADMSG);
    assert!(e.to_string().contains("restore"), "{e}");
    fs::write(&header, kept).unwrap();
    assert!(open(tmp.path()).1.read(FID, 0, SIZE as usize).unwrap().0 == data);
}

#[test]
fn blocks_cut_off_or_punched_out_by_others_are_data_still() {
    let cut = |f: &fs::File, from: u64, to: u64| {
        if to == SIZE {
            return f.set_len(from).unwrap();
        }
        let mode = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(f, mode, from, to - from).unwrap();
    };
    for (from, to) in [(8192, SIZE), (0, SIZE), (0, 12_288), (4096, 8192), (36_864, SIZE)] {
        let (tmp, _) = store();
        cut(&OpenOptions::new().write(true).open(data_file(tmp.path())).unwrap(), from, to);
        let (_, client) = open(tmp.path());
        for at in [0, 1, 4095, 4096, from, from + 1, SIZE - 1] {
            assert_eq!(seek(&client, at, false), Ok(at), "{from}..{to}, data from {at}");
            assert_eq!(seek(&client, at, true), Ok(SIZE), "{from}..{to}, hole from {at}");
        }
        assert_eq!(seek(&client, SIZE, false), Err(Errno::ENXIO));
        assert_eq!(client.read(FID, from, 10).unwrap_err().errno(), Errno::EBADMSG);
    }
}

/// Real holes stay holes: those never written, those punched, and one at the end.
#[test]
fn holes_are_told_from_losses() {
    const BLOCKS: u64 = 1000;
    let (tmp, _) = store();
    let (_, client) = open(tmp.path());
    let far = BLOCKS * 4096;
    client.write(FID, far, b"far").unwrap();
    client.truncate(FID, far + 100_000).unwrap();
    client.punch(FID, Extent::new(4096, 12_288), 1).unwrap();
    assert_eq!(seek(&client, 0, true), Ok(4096));
    assert_eq!(seek(&client, 4096, false), Ok(12_288));
    assert_eq!(seek(&client, 12_288, true), Ok(SIZE));
    assert_eq!(seek(&client, SIZE, false), Ok(far));
    assert_eq!(seek(&client, far, true), Ok(far + 4096));
    assert_eq!(seek(&client, far + 4096, false), Err(Errno::ENXIO));
}

#[test]
fn an_object_in_the_wrong_folder_is_told_of() {
    let (tmp, data) = store();
    let (right, sums) = (data_file(tmp.path()), data_file(tmp.path()).with_extension("sum"));
    let wrong = tmp.path().join("objects/00").join(right.file_name().unwrap());
    assert_ne!(right, wrong);
    fs::rename(&right, &wrong).unwrap();
    {
        let (target, client) = open(tmp.path());
        let told: Vec<_> = target.store().objects().map(|o| o.unwrap_err().to_string()).collect();
        assert_eq!(told.len(), 1, "it counts as none: {told:?}");
        let right = right.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert!(told[0].contains(&format!("belongs in the folder '{right}'; move it there")), "{told:?}");
        assert_eq!(client.read(FID, 0, 10).unwrap_err().errno(), Errno::EBADMSG);
        assert_eq!(target.store().lost().collect::<Vec<_>>(), [FID, FID], "by its checksums, and by its trace");
    }
    fs::rename(&sums, wrong.with_extension("sum")).unwrap();
    assert_eq!(open(tmp.path()).0.store().objects().filter(Result::is_err).count(), 2);
    fs::rename(&wrong, &right).unwrap();
    fs::rename(wrong.with_extension("sum"), &sums).unwrap();
    let (target, client) = open(tmp.path());
    assert!(client.read(FID, 0, SIZE as usize).unwrap().0 == data);
    assert_eq!(target.store().lost().count(), 0);
}
