//! Stores in folders, on a disk that gets full.

use crate::{fill, forget};
use clio::{Client, Errno};
use clio_tests::{content, left_out, narrow, pattern, read_write};
use std::process::Command;

/// A folder on a file system of its own, of 8 MiB; none if this process may not mount one, which is said.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Option<Disk> {
        let dir = tempfile::tempdir().expect("folder");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(dir.path()).output();
        if mount.is_ok_and(|o| o.status.success()) {
            return Some(Disk(dir));
        }
        left_out("no right to mount a small file system");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_under_a_folder() {
    let Some(disk) = Disk::new() else { return };
    let mut folder = disk.0.path().join("store");
    // The store's names need room too, so that only the target is on the small disk.
    let names = tempfile::tempdir().expect("folder");
    std::os::unix::fs::symlink(&folder, names.path().join("target-0000")).expect("link");
    std::fs::create_dir(&folder).expect("folder");
    folder = names.path().to_path_buf();
    let client = Client::open(&format!("dir:{}?targets=1", folder.display())).expect("open");
    let file = client.open_with("/f", read_write().layout(narrow(1))).expect("open");
    let mut safe = 0;
    let e = loop {
        let end = fill(&file, 1, safe, safe + (1 << 20));
        match file.sync_all() {
            Err(e) => break Some(e.errno()),
            Ok(()) if end < safe + (1 << 20) => break None,
            Ok(()) => safe = end,
        }
        assert!(safe < 64 << 20, "more than the disk holds");
    };
    assert!(matches!(e, None | Some(Errno::ENOSPC)), "{e:?}");
    file.sync_all().expect("told once");
    client.drop_caches().expect("drop");
    let mut got = vec![0; safe as usize];
    file.read_exact_at(&mut got, 0).expect("read");
    assert!(got == pattern(1, 0, safe as usize), "what fsync has acknowledged is there");
    file.set_len(1 << 20).expect("truncate");
    file.write_all_at(&pattern(2, 0, 1 << 20), 0).expect("write");
    file.sync_all().expect("there is room again");
    file.close().expect("close");
    client.drop_caches().expect("drop");
    assert!(content(&client, "/f") == pattern(2, 0, 1 << 20));
    assert!(client.check(false).expect("check").is_clean());
}

/// Names and data on one small disk: when data has filled it, names can still be made, and removed, by the client that met
/// the full disk and by the next.
#[test]
fn a_full_disk_under_a_whole_store() {
    let Some(disk) = Disk::new() else { return };
    let uri = format!("dir:{}", disk.0.path().join("store").display());
    let client = Client::open(&uri).expect("open");
    let file = client.create("/f").expect("create");
    let full = |piece: usize| {
        let end = file.metadata().expect("stat").len();
        let data = vec![1; piece];
        (0..(64 << 20) / piece as u64)
            .any(|n| file.write_all_at(&data, end + n * piece as u64).and_then(|()| file.sync_all()).is_err())
    };
    for piece in [1 << 20, 64 << 10, 4 << 10] {
        assert!(full(piece), "8 MiB are not enough for 64");
        forget(&client);
    }
    for n in 0..50 {
        client.mkdir(format!("/d{n}")).expect("names have room");
    }
    client.sync().expect("sync");
    client.remove_file("/f").expect("remove");
    file.close().expect("close");
    drop(client);
    let client = Client::open(&uri).expect("open again");
    let again = client.create("/g").expect("create");
    again.write_all_at(&[2; 4 << 20], 0).expect("write");
    again.sync_all().expect("there is room again");
    assert!(client.check(false).expect("check").is_clean());
}
