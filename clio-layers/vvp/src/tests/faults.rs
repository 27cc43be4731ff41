//! Pages of a mapping.

use super::{Setup, Stack, read};
use crate::{FileFlags, VvpFile};
use clio_core::Errno;
use clio_core::env::{Env, EnvTags};
use clio_core::units::Extent;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn stack() -> (Stack, VvpFile) {
    let s = Stack::new(Setup::default());
    let f = s.file();
    (s, f)
}

#[test]
fn beyond_the_end_there_is_no_page() {
    let (s, f) = stack();
    s.store.set_content(&[7; 5000]);
    for write in [false, true] {
        assert_eq!(f.fault(8192, write).expect_err("beyond").errno(), Errno::EFAULT);
        assert_eq!(f.fault(1 << 40, write).expect_err("far beyond").errno(), Errno::EFAULT);
        assert_eq!(f.fault(u64::MAX, write).expect_err("no offset").errno(), Errno::EINVAL);
    }
    assert_eq!(f.attr().expect("attr").size, 5000, "a fault makes no file longer");
}

#[test]
fn the_last_page_is_zeros_from_the_end_on() {
    let (s, f) = stack();
    s.store.set_content(&[7; 5000]);
    let page = f.fault(4999, false).expect("fault");
    assert_eq!(page.extent(), Extent::new(4096, 5000));
    let mut bytes = [0xA5; 4096];
    assert!(page.load(0, &mut bytes));
    assert!(bytes[..904].iter().all(|b| *b == 7) && bytes[904..].iter().all(|b| *b == 0));
    assert!(!page.store(0, &[1]), "faulted in for reading");
    let page = f.fault(4096, true).expect("fault");
    assert!(page.store(900, &[1; 10]), "what goes beyond the end is dropped");
    assert!(page.store(2000, &[1; 10]));
    f.fsync().expect("fsync");
    let content = s.store.content();
    assert_eq!((content.len(), &content[4096 + 896..]), (5000, &[7, 7, 7, 7, 1, 1, 1, 1][..]));
}

#[test]
fn a_hole_reads_as_zeros() {
    let (s, f) = stack();
    f.truncate(100_000).expect("truncate");
    s.cancel_locks();
    s.store.holes.store(true, Relaxed);
    let page = f.fault(50_000, false).expect("fault");
    let mut bytes = [0xA5; 4096];
    assert!(page.is_hole() && page.load(0, &mut bytes));
    assert_eq!((bytes, s.store.reads.load(Relaxed)), ([0; 4096], 0));
    s.store.holes.store(false, Relaxed);
    // Written to, it is one no more.
    let page = f.fault(50_000, true).expect("fault");
    assert!(!page.is_hole() && page.store(848, &[3; 100]));
    assert_eq!(read(&f, 50_000, 200), [[3; 100], [0; 100]].concat());
    f.fsync().expect("fsync");
    assert_eq!(s.store.content()[50_000..50_100], [3; 100]);
}

#[test]
fn a_store_is_seen_and_written_out_and_a_page_taken_away_is_noticed() {
    let (s, f) = stack();
    s.store.set_content(&[7; 20_000]);
    let reading = f.fault(4096, false).expect("fault");
    let before = f.attr().expect("attr").mtime;
    let page = f.fault(4096, true).expect("fault");
    assert!(f.attr().expect("attr").mtime > before, "a write fault dates the file");
    assert!(page.store(10, &[9; 20]));
    let mut bytes = [0; 40];
    assert!(reading.load(0, &mut bytes), "both are the same page");
    assert_eq!(bytes, [[7; 10], [9; 10], [9; 10], [7; 10]].concat()[..]);
    assert_eq!(read(&f, 4096, 40), bytes);
    s.cancel_locks();
    assert_eq!(s.store.content()[4096..4136], bytes, "another client's lock gets it all");
    assert!(!page.store(0, &[1]) && !page.load(0, &mut bytes), "and the page is gone");
    assert!(f.fault(4096, true).expect("again").store(0, &[1]));
}

#[test]
fn a_write_fault_that_can_be_neither_staged_nor_written_fails() {
    let (s, f) = stack();
    s.store.set_content(&[7; 20_000]);
    s.store.refuse_commits.store(true, Relaxed);
    s.store.capacity.store(1, Relaxed);
    assert_eq!(f.fault(4096, true).expect_err("full").errno(), Errno::ENOSPC);
    s.store.capacity.store(u64::MAX, Relaxed);
    assert_eq!(read(&f, 0, 30_000), [7; 20_000]);
}

/// A write whose buffer is a mapping of the same file: its pages are faulted in while the write goes on, under its locks.
#[test]
fn a_fault_within_a_write_of_the_same_file() {
    for direct in [false, true] {
        let (s, f) = stack();
        let f = Arc::new(f);
        s.store.set_content(&[7; 200_000]);
        let mapped = f.clone();
        s.store.nest(move || {
            let env = Env::get(EnvTags::IO);
            // Below, within and beyond what is being written.
            for (offset, write) in [(0, false), (4096, true), (70_000, false), (130_000, true)] {
                let page = mapped.fault(offset, write).expect("fault");
                let mut byte = [0];
                assert!(page.load(0, &mut byte) && (!write || page.store(0, &byte)), "at {offset}");
            }
            drop(env);
        });
        let writer = s.open(FileFlags { direct, ..FileFlags::default() });
        // Over folios, so that it has its range alone.
        assert_eq!(writer.write_at(&[8; 60_000], 50_000).expect("write"), 60_000);
        assert_eq!(s.store.nested(), 1, "faults came in between");
        let all = read(&f, 0, 300_000);
        assert!(all[..50_000].iter().chain(&all[110_000..]).all(|b| *b == 7));
        assert!(all[50_000..110_000].iter().all(|b| *b == 8));
        f.fsync().expect("fsync");
        assert_eq!(s.store.content(), all);
    }
}
