//! The folder target: what it refuses to open, and what damage it finds.

use clio_core::Errno;
use clio_core::target::{Op, Reply};
use clio_core::units::{Fid, TargetIndex};
use clio_targets::conformance::{Client, pattern, pretend_reboot};
use clio_targets::{DamageKind, DirOptions, DirTarget};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FID: Fid = Fid { seq: 0x300, oid: 5, ver: 1 };

fn options() -> DirOptions {
    DirOptions { create: true, ..DirOptions::default() }
}

fn open(path: &Path) -> (Arc<DirTarget>, Client) {
    let target = Arc::new(DirTarget::open(path, &options()).unwrap());
    let client = Client::connect(target.clone());
    (target, client)
}

#[track_caller]
fn refused(path: &Path, options: &DirOptions, errno: Errno, hint: &str) {
    let e = DirTarget::open(path, options).unwrap_err();
    assert_eq!(e.errno(), errno, "{e}");
    assert!(e.to_string().contains(hint), "{e}");
    assert!(e.to_string().contains(path.to_str().unwrap()), "{e}");
}

/// The files of the only object of a store: data, checksums.
fn files(root: &Path) -> (PathBuf, PathBuf) {
    let folders = fs::read_dir(root.join("objects")).unwrap();
    let all = folders.flat_map(|f| fs::read_dir(f.unwrap().path()).unwrap()).map(|e| e.unwrap().path());
    let (sums, data): (Vec<_>, Vec<_>) = all.partition(|p| p.extension().is_some());
    assert_eq!((data.len(), sums.len()), (1, 1));
    (data[0].clone(), sums[0].clone())
}

fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

#[test]
fn folders_that_hold_no_target() {
    let tmp = tempfile::tempdir().unwrap();
    let closed = DirOptions::default();
    refused(&tmp.path().join("missing"), &closed, Errno::ENOENT, "clio format");
    refused(tmp.path(), &closed, Errno::ENOENT, "clio format");
    assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0, "a refused open leaves nothing behind");
    fs::write(tmp.path().join("thesis.txt"), "x").unwrap();
    refused(tmp.path(), &options(), Errno::ENOTEMPTY, "empty folder");
    refused(&tmp.path().join("thesis.txt"), &options(), Errno::ENOTDIR, "folder");
    open(&tmp.path().join("a/b/c"));
}

#[test]
fn one_process_at_a_time() {
    let tmp = tempfile::tempdir().unwrap();
    let (target, client) = open(tmp.path());
    refused(tmp.path(), &options(), Errno::EBUSY, "cliod");
    refused(tmp.path(), &options(), Errno::EBUSY, &std::process::id().to_string());
    client.write(FID, 0, b"kept").unwrap();
    drop((client, target));
    assert_eq!(open(tmp.path()).1.read(FID, 0, 4).unwrap().0, b"kept");
}

#[test]
fn folders_of_other_targets_and_stores() {
    let tmp = tempfile::tempdir().unwrap();
    let uuid = open(tmp.path()).0.store().uuid();
    assert_eq!(open(tmp.path()).0.store().uuid(), uuid, "a target keeps its name");
    let second = DirOptions { index: TargetIndex(1), ..options() };
    refused(tmp.path(), &second, Errno::EINVAL, "in their order");
    let other = clio_targets::Uuid([9; 16]);
    refused(tmp.path(), &DirOptions { uuid: Some(other), ..options() }, Errno::EINVAL, "another store");
    DirTarget::open(tmp.path(), &DirOptions { uuid: Some(uuid), create: false, ..options() }).unwrap();
}

#[test]
fn newer_damaged_and_foreign_headers() {
    let tmp = tempfile::tempdir().unwrap();
    drop(open(tmp.path()));
    let header = tmp.path().join("target");
    let good = fs::read(&header).unwrap();
    let mut newer = good.clone();
    newer[8] = 2;
    fs::write(&header, newer).unwrap();
    refused(tmp.path(), &options(), Errno::EPROTO, "newer Clio");
    fs::write(&header, &good[..50]).unwrap();
    refused(tmp.path(), &options(), Errno::EBADMSG, "cut short");
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    fs::write(&header, damaged).unwrap();
    refused(tmp.path(), &options(), Errno::EBADMSG, "damaged");
    fs::write(&header, vec![b'x'; 128]).unwrap();
    refused(tmp.path(), &options(), Errno::EBADMSG, "not a store header");
    fs::write(&header, good).unwrap();
    open(tmp.path());
}

#[test]
fn a_flipped_bit_is_found_and_never_served() {
    let tmp = tempfile::tempdir().unwrap();
    let data = pattern(1, 50_000);
    {
        let (_, client) = open(tmp.path());
        client.write(FID, 0, &data).unwrap();
        client.call(Op::Sync(FID)).unwrap();
    }
    flip(&files(tmp.path()).0, 20_000);
    let (target, client) = open(tmp.path());
    let report = target.store().verify(FID).unwrap();
    assert_eq!((report.size, report.damaged, report.unjudged), (50_000, 1, 0));
    assert_eq!((report.damage[0].offset, report.damage[0].kind), (16_384, DamageKind::Checksum));
    for (at, len) in [(0u64, 50_000usize), (20_000, 1), (16_384, 4096), (20_479, 1), (16_000, 1000)] {
        let e = client.read(FID, at, len).unwrap_err();
        assert_eq!(e.errno(), Errno::EBADMSG);
        assert!(e.to_string().contains("offset 16384") && e.to_string().contains("0x300"), "{e}");
    }
    assert!(client.read(FID, 0, 16_384).unwrap().0 == data[..16_384], "the rest is served");
    assert!(client.read(FID, 20_480, 29_520).unwrap().0 == data[20_480..]);
    let e = client.write(FID, 16_400, b"part").unwrap_err();
    assert_eq!(e.errno(), Errno::EBADMSG, "damage isn't given a new checksum");
    client.write(FID, 16_384, &data[16_384..20_480]).unwrap();
    assert!(client.read(FID, 0, 50_000).unwrap().0 == data, "writing the whole block repairs it");
    assert!(target.store().verify(FID).unwrap().is_clean());
}

#[test]
fn damage_in_a_hole_or_of_a_checksum() {
    let tmp = tempfile::tempdir().unwrap();
    {
        let (_, client) = open(tmp.path());
        client.write(FID, 100_000, &pattern(2, 5000)).unwrap();
    }
    let (data, sums) = files(tmp.path());
    flip(&data, 5);
    flip(&sums, 4096 + (102_400 / 4096) * 4);
    let (target, client) = open(tmp.path());
    let report = target.store().verify(FID).unwrap();
    let found: Vec<u64> = report.damage.iter().map(|d| d.offset).collect();
    assert_eq!(found, [0, 102_400]);
    assert_eq!(client.read(FID, 0, 10).unwrap_err().errno(), Errno::EBADMSG);
    assert_eq!(client.read(FID, 104_000, 10).unwrap_err().errno(), Errno::EBADMSG);
    client.read(FID, 50_000, 100).unwrap();
}

#[test]
fn files_of_another_length() {
    let tmp = tempfile::tempdir().unwrap();
    {
        let (_, client) = open(tmp.path());
        client.write(FID, 0, &pattern(3, 50_000)).unwrap();
    }
    let data = files(tmp.path()).0;
    let resize = |len| OpenOptions::new().write(true).open(&data).unwrap().set_len(len).unwrap();
    resize(30_000);
    {
        let (target, client) = open(tmp.path());
        let report = target.store().verify(FID).unwrap();
        assert_eq!(report.size, 50_000);
        assert_eq!((report.damage[0].offset, report.damage[0].kind), (28_672, DamageKind::Short));
        assert_eq!(report.damaged, 6);
        assert_eq!(client.read(FID, 0, 50_000).unwrap_err().errno(), Errno::EBADMSG);
        assert_eq!(client.read(FID, 49_000, 10).unwrap_err().errno(), Errno::EBADMSG);
        client.read(FID, 0, 28_672).unwrap();
    }
    resize(60_000);
    let (target, client) = open(tmp.path());
    assert_eq!(target.store().verify(FID).unwrap().damage[0].kind, DamageKind::Object);
    assert_eq!(client.read(FID, 0, 10).unwrap_err().errno(), Errno::EBADMSG);
    client.call(Op::Destroy(FID)).unwrap();
    assert_eq!(client.read(FID, 0, 10).unwrap(), (vec![0; 10], 0), "what is damaged can be removed");
}

#[test]
fn side_files_missing_damaged_or_swapped() {
    let tmp = tempfile::tempdir().unwrap();
    {
        let (_, client) = open(tmp.path());
        client.write(FID, 0, b"data").unwrap();
    }
    let (_, sums) = files(tmp.path());
    let good = fs::read(&sums).unwrap();
    let found = |content: Option<&[u8]>, what: &str| {
        match content {
            Some(bytes) => fs::write(&sums, bytes).unwrap(),
            None => fs::remove_file(&sums).unwrap(),
        }
        let (target, client) = open(tmp.path());
        let report = target.store().verify(FID).unwrap();
        assert_eq!(report.damage[0].kind, DamageKind::Object);
        assert!(report.damage[0].detail.contains(what), "{report:?}");
        assert_eq!(client.read(FID, 0, 4).unwrap_err().errno(), Errno::EBADMSG);
        assert_eq!(client.write(FID, 0, b"more").unwrap_err().errno(), Errno::EBADMSG);
    };
    found(Some(&good[..100]), "cut short");
    found(Some(&vec![0; 5000]), "not a checksum file");
    let mut bad = good.clone();
    bad[40] ^= 1;
    found(Some(&bad), "damaged");
    found(None, "missing");
    fs::write(&sums, &good).unwrap();
    assert_eq!(open(tmp.path()).1.read(FID, 0, 4).unwrap().0, b"data");
}

#[test]
fn foreign_files_among_the_objects_are_told() {
    let tmp = tempfile::tempdir().unwrap();
    let (target, client) = open(tmp.path());
    client.write(FID, 0, b"x").unwrap();
    fs::write(tmp.path().join("objects/00/notes.txt"), "x").unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = target.store().objects().partition(Result::is_ok);
    assert_eq!(good.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [FID]);
    assert_eq!(bad.len(), 1);
    assert!(bad[0].as_ref().unwrap_err().to_string().contains("notes.txt"));
}

#[test]
fn attributes_survive_reopening_and_flush_keeps_everything() {
    let tmp = tempfile::tempdir().unwrap();
    let data = pattern(4, 3 << 20);
    {
        let (target, client) = open(tmp.path());
        client.write(FID, 12_345, &data).unwrap();
        let attr = clio_core::attr::Attr { mtime: 99, uid: 7, ..Default::default() };
        let mask = clio_core::attr::AttrMask::MTIME | clio_core::attr::AttrMask::UID;
        client.call(Op::SetAttr { fid: FID, attr, mask }).unwrap();
        target.store().flush().unwrap();
        client.truncate(FID, 3_000_000).unwrap();
    }
    let (target, client) = open(tmp.path());
    let attr = client.getattr(FID).unwrap();
    assert_eq!((attr.size, attr.mtime, attr.uid), (3_000_000, 99, 7));
    assert!(client.read(FID, 12_345, 2_900_000).unwrap().0 == data[..2_900_000]);
    assert_eq!(target.store().verify(FID).unwrap().unjudged, 0);
}

#[test]
fn a_machine_crash_is_no_damage() {
    let tmp = tempfile::tempdir().unwrap();
    let data = pattern(5, 100_000);
    {
        let (_, client) = open(tmp.path());
        client.write(FID, 0, &data).unwrap();
    }
    // The data has reached the disk, of the checksums only the header, and that from before.
    let sums = files(tmp.path()).1;
    let lose_sums = || OpenOptions::new().write(true).open(&sums).unwrap().set_len(4096).unwrap();
    lose_sums();
    assert!(!open(tmp.path()).0.store().verify(FID).unwrap().is_clean(), "without a crash, that is damage");
    pretend_reboot(tmp.path()).unwrap();
    {
        let (target, client) = open(tmp.path());
        let report = target.store().verify(FID).unwrap();
        assert!(report.is_clean() && report.unjudged == 25, "{report:?}");
        assert!(client.read(FID, 0, 100_000).unwrap().0 == data);
    }
    // What was computed then is lost in the next crash.
    lose_sums();
    pretend_reboot(tmp.path()).unwrap();
    {
        let (target, client) = open(tmp.path());
        let report = target.store().verify(FID).unwrap();
        assert!(report.is_clean() && report.unjudged == 25, "{report:?}");
        assert!(client.read(FID, 0, 100_000).unwrap().0 == data);
        target.store().flush().unwrap();
    }
    flip(&files(tmp.path()).0, 9);
    assert!(!open(tmp.path()).0.store().verify(FID).unwrap().is_clean(), "from then on it is judged again");
    // After a flush, another boot excuses nothing.
    pretend_reboot(tmp.path()).unwrap();
    assert!(!open(tmp.path()).0.store().verify(FID).unwrap().is_clean());
    lose_sums();
    fs::write(&sums, "").unwrap();
    assert!(!open(tmp.path()).0.store().verify(FID).unwrap().is_clean());
}

#[test]
fn a_write_that_the_file_system_refuses_leaves_the_object_whole() {
    let tmp = tempfile::tempdir().unwrap();
    let (target, client) = open(tmp.path());
    client.write(FID, 0, b"whole").unwrap();
    // Beyond what ext4 can hold; where it can, there is nothing to see.
    match client.write(FID, 20 << 40, &pattern(6, 9000)) {
        Ok(lvb) => assert_eq!(lvb.size, (20 << 40) + 9000),
        Err(e) => {
            assert_eq!(e.errno(), Errno::EFBIG);
            assert_eq!(client.getattr(FID).unwrap().size, 5);
        }
    }
    assert!(target.store().verify(FID).unwrap().is_clean());
    assert_eq!(client.read(FID, 0, 8).unwrap().0, b"whole\0\0\0");
    client.write(FID, 5, b"r").unwrap();
    assert!(target.store().verify(FID).unwrap().is_clean());
}

#[test]
fn the_last_space_of_the_disk_is_left_to_names() {
    let tmp = tempfile::tempdir().unwrap();
    {
        let (_target, client) = open(tmp.path());
        client.write(FID, 0, &pattern(1, 20_000)).unwrap();
        client.truncate(FID, 1 << 20).unwrap();
    }
    // All that is free is to be kept free.
    let options = DirOptions { keep_free: Some(u64::MAX), ..DirOptions::default() };
    let target = Arc::new(DirTarget::open(tmp.path(), &options).unwrap());
    let client = Client::connect(target.clone());
    assert!(matches!(client.call(Op::StatFs), Ok(Reply::StatFs { free: 0, total: 1.., .. })));
    let full = |offset, len| {
        let e = client.write(FID, offset, &pattern(2, len)).unwrap_err();
        assert!(e.errno() == Errno::ENOSPC && e.detail().contains("kept for names"), "{e}");
    };
    full(1 << 20, 10);
    full((1 << 20) - 5, 10);
    full(500_000, 4096);
    client.write(FID, 100, &pattern(3, 10_000)).unwrap();
    assert_eq!(client.read(FID, 100, 10_000).unwrap().0, pattern(3, 10_000), "written over what has its space");
    client.truncate(FID, 10).unwrap();
    assert!(target.store().verify(FID).unwrap().is_clean());
}

#[test]
fn targets_on_one_disk_share_its_space() {
    let space = |sharers| {
        let tmp = tempfile::tempdir().unwrap();
        let options = DirOptions { create: true, sharers, ..DirOptions::default() };
        let client = Client::connect(Arc::new(DirTarget::open(tmp.path(), &options).unwrap()));
        match client.call(Op::StatFs) {
            Ok(Reply::StatFs { total, .. }) => total,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(space(4), space(1) / 4);
}

#[test]
fn objects_set_aside_twice_are_both_kept() {
    let tmp = tempfile::tempdir().unwrap();
    let mut kept = Vec::new();
    for n in 1..=3 {
        let (target, client) = open(tmp.path());
        client.write(FID, 0, &pattern(n, 5000)).unwrap();
        kept.push((target.store().set_aside(FID).unwrap().unwrap(), pattern(n, 5000)));
        assert_eq!(target.store().set_aside(FID).unwrap_err().errno(), Errno::ENOENT);
    }
    for (path, data) in kept {
        assert_eq!(fs::read(&path).unwrap(), data, "{path:?}");
        let sums = path.file_name().unwrap().to_str().unwrap().to_owned() + ".sum";
        assert!(path.with_file_name(sums).exists(), "{path:?}");
    }
}
