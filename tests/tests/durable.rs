//! What is said to be durable is on disk, and not only in the system's page cache: a kill can't tell the difference, a crash
//! of the machine would.

use clio::{Client, File, Layout, OpenOptions};
use clio_tests::page_cache::{can_be_judged, not_on_disk};
use clio_tests::{narrow, pattern, read_write};
use std::path::PathBuf;

struct Bed {
    dir: tempfile::TempDir,
    client: Client,
}

impl Bed {
    /// A store of two targets on a disk; `None`, with a word why, where the system doesn't tell what is on it.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("tempdir");
        if !can_be_judged(dir.path()) {
            eprintln!("left out: this system doesn't tell what of a file is on disk (cachestat, Linux 6.5; no tmpfs)");
            return None;
        }
        let client = Client::open(&format!("dir:{}?targets=2", dir.path().join("store").display())).expect("open");
        Some(Self { dir, client })
    }

    fn file(&self, path: &str, options: OpenOptions) -> File {
        self.client.open_with(path, options.layout(narrow(2))).expect("open")
    }

    /// The files that would not survive. Lock files hold nothing that matters, and what tells of the store's parts may
    /// tell of those of an earlier time.
    fn would_be_lost(&self) -> Vec<PathBuf> {
        let mut lost = not_on_disk(&self.dir.path().join("store")).expect("cachestat");
        lost.retain(|path| !path.ends_with("lock") && !path.ends_with("clio-parts.json"));
        lost
    }
}

#[test]
fn a_new_store_is_on_disk() {
    let Some(bed) = Bed::new() else { return };
    assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new());
}

#[test]
fn what_fsync_has_returned_for_is_on_disk() {
    let Some(bed) = Bed::new() else { return };
    for only_data in [false, true] {
        let file = bed.file(&format!("/f{only_data}"), read_write());
        file.write_all_at(&pattern(1, 0, 1 << 20), 12_345).expect("write");
        file.flush_data().expect("written out");
        assert!(!bed.would_be_lost().is_empty(), "this test can fail");
        if only_data { file.sync_data() } else { file.sync_all() }.expect("sync");
        assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new(), "only data: {only_data}");
    }
}

#[test]
fn synchronous_writes_are_on_disk() {
    let Some(bed) = Bed::new() else { return };
    let file = bed.file("/f", read_write().dsync(true));
    for at in [0, 1 << 20, 100] {
        file.write_all_at(&pattern(2, at, 200_000), at).expect("write");
        assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new(), "at {at}");
    }
    file.append(b"end").expect("append");
    assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new());
    // Each part of this layout is chosen by the first write to it.
    let growing = Layout::composite().until(128 << 10).stripe_count(1).to_eof().stripe_count(2);
    let file = bed.client.open_with("/g", read_write().dsync(true).layout(growing)).expect("open");
    for at in [0, 1 << 20] {
        file.write_all_at(b"part", at).expect("write");
        assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new(), "part at {at}");
    }
    file.append(b"end").expect("append");
    assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new());
}

#[test]
fn what_a_sync_of_the_store_has_returned_for_is_on_disk() {
    let Some(bed) = Bed::new() else { return };
    for i in 0..20 {
        let file = bed.file(&format!("/f{i}"), read_write());
        file.write_all_at(&pattern(i, 0, 10_000), 0).expect("write");
    }
    bed.client.mkdir("/d").expect("mkdir");
    bed.client.rename("/f0", "/d/f0").expect("rename");
    bed.client.sync().expect("sync");
    assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new());
    bed.client.remove_file("/d/f0").expect("remove");
    assert!(!bed.would_be_lost().is_empty(), "names are not made durable one by one");
    bed.client.sync().expect("sync");
    assert_eq!(bed.would_be_lost(), Vec::<PathBuf>::new());
}
