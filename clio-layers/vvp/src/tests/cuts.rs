//! Truncates and punches that fail: what was to go, and could not be written out any more, is told.

use super::{Setup, Stack, read};
use crate::VvpFile;
use clio_core::{Errno, Result};
use std::sync::atomic::Ordering::Relaxed;

/// A stack whose cuts fail, and a file of 20000 bytes, `dirty` or written out.
fn failing(dirty: bool) -> (Stack, VvpFile) {
    let s = Stack::new(Setup::default());
    let f = s.file();
    f.write_at(&[5; 20_000], 0).expect("write");
    if !dirty {
        f.fsync().expect("fsync");
    }
    s.store.fail_punch.store(true, Relaxed);
    (s, f)
}

#[track_caller]
fn assert_told_once(s: &Stack, f: &VvpFile, cut: impl FnOnce(&VvpFile) -> Result<()>) {
    let other = s.file();
    assert_eq!(cut(f).expect_err("it fails").errno(), Errno::EIO);
    for file in [f, &other] {
        assert_eq!(file.fsync().expect_err("data was lost").errno(), Errno::EIO);
        file.fsync().expect("told once");
    }
}

#[test]
fn dirty_data_lost_to_a_truncate_that_failed_is_told() {
    let (s, f) = failing(true);
    assert_told_once(&s, &f, |f| f.truncate(100));
    assert_eq!(f.attr().expect("attr").size, 20_000);
    assert_eq!(read(&f, 0, 100), [5; 100]);
}

#[test]
fn dirty_data_lost_to_a_punch_that_failed_is_told() {
    let (s, f) = failing(true);
    assert_told_once(&s, &f, |f| f.punch(0, 16_384));
    assert_eq!(read(&f, 16_384, 100), [5; 100]);
}

#[test]
fn a_cut_that_fails_and_loses_nothing_is_told_to_its_caller_alone() {
    for punch in [false, true] {
        let (s, f) = failing(false);
        let cut = if punch { f.punch(0, 8192) } else { f.truncate(100) };
        assert_eq!(cut.expect_err("it fails").errno(), Errno::EIO);
        f.fsync().expect("nothing was lost");
        assert_eq!(read(&f, 0, 30_000), [5; 20_000]);
        assert_eq!(s.store.content(), [5; 20_000]);
    }
}

#[test]
fn a_punch_that_fails_before_it_begins_leaves_dirty_data_to_be_written() {
    let s = Stack::new(Setup::default());
    let f = s.file();
    f.write_at(&[5; 20_000], 0).expect("write");
    // The block at the edge can't be written out, so that nothing is punched.
    s.store.capacity.store(4096, Relaxed);
    assert_eq!(f.punch(8192, 5000).expect_err("full").errno(), Errno::ENOSPC);
    s.store.capacity.store(u64::MAX, Relaxed);
    assert_eq!(f.fsync().expect_err("the edge was lost").errno(), Errno::ENOSPC);
    f.fsync().expect("told once");
    assert_eq!(s.store.content()[8192..12_288], [5; 4096], "the whole block within is there");
}
