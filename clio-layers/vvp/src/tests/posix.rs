//! One rule a test.

use super::{Setup, Stack, read};
use crate::{FileFlags, VvpFile};
use clio_core::Errno;
use clio_core::env::{Env, EnvTags};
use clio_core::units::MAX_FILE_SIZE;
use std::sync::atomic::Ordering::Relaxed;

fn stack() -> Stack {
    Stack::new(Setup::default())
}

fn errno<T: std::fmt::Debug>(r: clio_core::Result<T>) -> Errno {
    r.expect_err("an error").errno()
}

#[test]
fn cached_reads_and_writes_make_no_transfer() {
    let s = stack();
    let f = s.file();
    f.write_at(&[1; 4096], 0).expect("slow");
    for n in 1..16 {
        f.write_at(&[n; 4096], u64::from(n) * 4096).expect("through the window");
    }
    let before = (s.store.reads.load(Relaxed), s.store.writes.load(Relaxed), s.object.locks().len());
    for n in 1..16 {
        assert_eq!(read(&f, u64::from(n) * 4096, 4096), [n; 4096]);
    }
    assert_eq!(before, (0, 0, 1));
    assert_eq!(s.store.reads.load(Relaxed) + s.store.writes.load(Relaxed), 0);
    f.fsync().expect("fsync");
    assert_eq!(s.store.content().len(), 65536);
}

#[test]
fn offsets_and_lengths_at_the_edges() {
    let s = stack();
    let f = s.file();
    assert_eq!(f.write_at(&[], 10).expect("nothing"), 0);
    assert_eq!(f.read_at(&mut [], 10).expect("nothing"), 0);
    assert_eq!(f.read_at(&mut [0; 10], 0).expect("empty file"), 0);
    assert_eq!(errno(f.write_at(&[1], MAX_FILE_SIZE)), Errno::EFBIG);
    assert_eq!(errno(f.write_at(&[1], MAX_FILE_SIZE + 1)), Errno::EINVAL);
    assert_eq!(errno(f.read_at(&mut [1], u64::MAX)), Errno::EINVAL);
    assert_eq!(f.read_at(&mut [1], MAX_FILE_SIZE).expect("beyond"), 0);
    assert_eq!(errno(f.truncate(1 << 63)), Errno::EINVAL);
    assert_eq!(errno(f.punch(u64::MAX, 1)), Errno::EINVAL);
    assert_eq!(f.attr().expect("attr").size, 0);
}

#[test]
fn a_write_ends_at_the_largest_offset() {
    let s = stack();
    s.store.open_windows.store(false, Relaxed);
    let f = s.file();
    assert_eq!(f.write_at(&[7; 10], MAX_FILE_SIZE - 3).expect("short"), 3);
    assert_eq!(f.attr().expect("attr").size, MAX_FILE_SIZE);
    assert_eq!(read(&f, MAX_FILE_SIZE - 3, 10), [7; 3]);
    assert_eq!(errno(f.append(&[1])), Errno::EFBIG);
    // The model store can't hold it: forget it.
    f.truncate(0).expect("truncate");
}

#[test]
fn appends_go_to_the_end_that_the_lock_tells() {
    let s = stack();
    s.store.set_content(&[9; 100]);
    let f = s.open(FileFlags { append: true, ..FileFlags::default() });
    assert_eq!(f.append(b"ab").expect("append"), (2, 100));
    assert_eq!(f.write_at(b"cd", 0).expect("O_APPEND"), 2);
    assert_eq!(read(&f, 99, 10), b"\x09abcd");
    // A cached write beyond the end is not overwritten.
    let g = s.file();
    g.write_at(b"z", 200).expect("write");
    assert_eq!(f.append(b"e").expect("append"), (1, 201));
}

#[test]
fn truncated_data_never_comes_back() {
    let s = stack();
    let f = s.file();
    f.write_at(&[5; 20_000], 0).expect("write");
    for size in [10_000u64, 4096, 100] {
        f.truncate(size).expect("down");
        assert_eq!(read(&f, 0, 30_000).len() as u64, size);
        f.truncate(20_000).expect("up");
        let all = read(&f, 0, 30_000);
        assert!(all[..size as usize].iter().all(|b| *b == 5) && all[size as usize..].iter().all(|b| *b == 0));
        assert_eq!(all.len(), 20_000);
    }
    assert!(s.store.windows_told.load(Relaxed) > 0, "who opened a window is told that it closed");
}

#[test]
fn a_truncate_that_fails_leaves_the_size() {
    let s = stack();
    let f = s.file();
    f.write_at(&[5; 5000], 0).expect("write");
    f.fsync().expect("fsync");
    s.store.fail_punch.store(true, Relaxed);
    assert_eq!(errno(f.truncate(10)), Errno::EIO);
    assert_eq!(read(&f, 0, 9000), [5; 5000]);
}

#[test]
fn direct_io_is_coherent_with_the_cache() {
    let s = stack();
    let (f, d) = (s.file(), s.open(FileFlags { direct: true, ..FileFlags::default() }));
    f.write_at(&[1; 10_000], 0).expect("cached");
    assert_eq!(read(&d, 3, 20_000), [1; 9997], "dirty data is written out first");
    d.write_at(&[2; 5001], 4000).expect("unaligned");
    assert_eq!(s.store.content()[4000..9001], [2; 5001]);
    let all = read(&f, 0, 10_000);
    assert!(all[..4000].iter().all(|b| *b == 1) && all[4000..9001].iter().all(|b| *b == 2) && all[9001] == 1);
    d.write_at(&[3], 50_000).expect("extends");
    assert_eq!(f.attr().expect("attr").size, 50_001);
    assert_eq!(read(&f, 49_999, 10), [0, 3]);
}

#[test]
fn cached_writes_are_kept_off_what_is_cut_or_written_directly() {
    let s = stack();
    let (f, d) = (s.file(), s.open(FileFlags { direct: true, ..FileFlags::default() }));
    f.write_at(&[1; 50_000], 0).expect("cached");
    s.store.intrude.store(true, Relaxed);
    d.write_at(&[2; 3000], 21_000).expect("direct");
    f.punch(9000, 12_000).expect("punch");
    f.truncate(40_001).expect("down");
    f.truncate(45_001).expect("up");
    assert_eq!((s.store.intrusions.load(Relaxed), s.store.intruded.load(Relaxed)), (8, 0));
    let all = read(&f, 0, 60_000);
    assert!(all.len() == 45_001 && !all.contains(&0xEE));
}

#[test]
fn what_no_target_holds_reads_as_zeros_and_isnt_cached() {
    let s = stack();
    s.store.set_content(&[4; 10_000]);
    s.store.holes.store(true, Relaxed);
    let f = s.file();
    assert_eq!(read(&f, 100, 20_000), [0; 9900]);
    assert!(s.object.pages().is_empty() && s.store.reads.load(Relaxed) == 0);
}

#[test]
fn dsync_writes_are_durable_when_they_return() {
    let s = stack();
    let f = s.open(FileFlags { dsync: true, ..FileFlags::default() });
    f.write_at(&[1; 100], 5).expect("write");
    assert_eq!((s.store.syncs.load(Relaxed), s.store.content().len()), (1, 105));
    f.append(&[2; 10]).expect("append");
    assert_eq!((s.store.syncs.load(Relaxed), s.store.content().len()), (2, 115));
}

#[test]
fn a_full_store_ends_a_write_after_what_fitted() {
    let s = stack();
    s.store.refuse_commits.store(true, Relaxed);
    s.store.capacity.store(64 << 10, Relaxed);
    let f = s.file();
    assert_eq!(f.write_at(&[1; 64 << 10], 0).expect("fits"), 64 << 10);
    assert_eq!(errno(f.write_at(&[1; 4096], 64 << 10)), Errno::ENOSPC);
    f.fsync().expect("the caller was told: nothing is latched");
}

#[test]
fn errors_of_write_behind_are_reported_once_for_each_file() {
    let s = stack();
    let (a, b) = (s.file(), s.file());
    a.write_at(&[1; 4096], 0).expect("acknowledged");
    s.store.capacity.store(100, Relaxed);
    s.store.write_back(&s.object);
    let late = s.file();
    assert_eq!(errno(a.fsync()), Errno::ENOSPC);
    a.fsync().expect("told before");
    assert_eq!(errno(b.close()), Errno::ENOSPC);
    b.close().expect("told before");
    late.close().expect("opened after");
}

#[test]
fn while_an_error_is_pending_writes_go_out_at_once() {
    let s = stack();
    let f = s.file();
    f.write_at(&[1; 4096], 0).expect("acknowledged");
    s.store.capacity.store(100, Relaxed);
    s.store.write_back(&s.object);
    assert_eq!(errno(f.write_at(&[1; 4096], 0)), Errno::ENOSPC);
    s.store.capacity.store(u64::MAX, Relaxed);
    f.write_at(&[2; 4096], 0).expect("written");
    assert_eq!(s.store.content(), [2; 4096]);
    assert_eq!(errno(f.fsync()), Errno::ENOSPC);
}

#[test]
fn a_failed_read_is_an_error_and_can_be_repeated() {
    let s = stack();
    s.store.set_content(&[4; 10_000]);
    let f = s.file();
    s.store.fail_reads.store(true, Relaxed);
    assert_eq!(errno(f.read_at(&mut [0; 100], 0)), Errno::EIO);
    s.store.fail_reads.store(false, Relaxed);
    assert_eq!(read(&f, 0, 100), [4; 100]);
}

#[test]
fn small_writes_read_nothing_until_they_are_read() {
    let s = stack();
    s.store.set_content(&[4; 8192]);
    let f = s.file();
    f.write_at(b"hello", 1000).expect("write");
    assert_eq!(s.store.reads.load(Relaxed), 0);
    assert_eq!(read(&f, 998, 9), b"\x04\x04hello\x04\x04");
    assert_eq!(s.store.writes.load(Relaxed), 1, "what was written goes out before the block is read");
}

#[test]
fn more_scattered_writes_than_a_block_keeps_track_of() {
    let s = stack();
    s.store.set_content(&[0; 4096]);
    let f = s.file();
    for n in 0..200u64 {
        f.write_at(&[n as u8 + 1], n * 20).expect("write");
    }
    f.fsync().expect("fsync");
    let stored = s.store.content();
    assert!((0..200).all(|n| stored[n * 20] == n as u8 + 1 && stored[n * 20 + 1] == 0));
}

#[test]
fn an_io_larger_than_the_cache_ends() {
    let s = Stack::new(Setup { cache_bytes: 256 << 10, memory_bytes: 4 << 20, ..Setup::default() });
    let f = s.file();
    let data: Vec<u8> = (0..8_000_000u32).map(|n| (n / 4096) as u8).collect();
    assert_eq!(f.write_at(&data, 0).expect("write"), data.len());
    assert!(s.cache.used_bytes() <= 1 << 20, "{}", s.cache.used_bytes());
    assert!(read(&f, 0, data.len()) == data);
    assert!(s.cache.used_bytes() <= 1 << 20, "{}", s.cache.used_bytes());
    let stats = s.cache.stats();
    assert!(stats.evictions > 50 && stats.pressure_writes > 0, "{stats:?}");
}

#[test]
fn page_memory_that_runs_out_is_taken_from_others() {
    // The limit is beyond what there is: every allocation that fails makes room.
    let s = Stack::new(Setup { cache_bytes: 1 << 30, memory_bytes: 2 << 20, ..Setup::default() });
    let f = s.file();
    let data: Vec<u8> = (0..8_000_000u32).map(|n| (n / 1000) as u8).collect();
    assert_eq!(f.append(&data).expect("append"), (data.len(), 0));
    assert!(read(&f, 0, data.len()) == data);
}

fn read_on(f: &VvpFile, at: &mut u64, upto: u64) {
    while *at < upto {
        assert_eq!(read(f, *at, 4096).len(), 4096);
        *at += 4096;
    }
}

#[test]
fn a_sequential_reader_finds_its_bytes_cached() {
    let s = stack();
    let content: Vec<u8> = (0..4 << 20).map(|n: u32| (n / 4096) as u8).collect();
    s.store.set_content(&content);
    let f = s.file();
    let mut at = 0;
    read_on(&f, &mut at, content.len() as u64);
    let stats = s.cache.stats();
    assert!(stats.missed_blocks <= 4, "{stats:?}");
    assert!(stats.ahead_issued_bytes <= content.len() as u64, "nothing beyond the end: {stats:?}");
    assert!(stats.ahead_hit_bytes > content.len() as u64 / 2, "{stats:?}");
    assert!(read(&f, 0, content.len()) == content);
}

#[test]
fn a_strided_reader_finds_its_bytes_cached() {
    let s = stack();
    s.store.set_content(&vec![7; 8 << 20]);
    let f = s.file();
    for n in 0..80u64 {
        assert_eq!(read(&f, n * 100_000, 5000).len(), 5000);
    }
    let stats = s.cache.stats();
    assert!(stats.missed_blocks <= 12, "{stats:?}");
}

#[test]
fn a_small_file_is_read_whole_at_the_first_miss() {
    let s = Stack::new(Setup { small_file_bytes: 2 << 20, ..Setup::default() });
    s.store.set_content(&[3; 300_000]);
    let f = s.file();
    assert_eq!(read(&f, 150_000, 10), [3; 10]);
    let reads = s.store.reads.load(Relaxed);
    assert_eq!(read(&f, 0, 300_000), [3; 300_000]);
    assert_eq!(s.store.reads.load(Relaxed), reads);
}

#[test]
fn random_reads_read_nothing_ahead() {
    let s = stack();
    s.store.set_content(&vec![7; 8 << 20]);
    let f = s.file();
    for n in [50u64, 3, 77, 12, 19, 31, 64, 8] {
        read(&f, n * 100_000, 100);
    }
    assert_eq!(s.cache.stats().ahead_issued_bytes, 0);
}

#[test]
fn a_file_that_another_client_cut_and_wrote() {
    let s = stack();
    let f = s.file();
    f.write_at(&[1; 10_000], 0).expect("write");
    s.cancel_locks();
    s.store.set_content(&[2; 500]);
    assert_eq!(read(&f, 0, 20_000), [2; 500]);
    assert_eq!(read(&f, 400, 200), [2; 100], "the old size is forgotten");
    assert_eq!(f.append(&[3; 10]).expect("append"), (10, 500));
}

#[test]
fn advice_fills_and_empties_the_cache() {
    let s = stack();
    s.store.set_content(&vec![7; 1 << 20]);
    let f = s.file();
    f.advise(0, 0, true).expect("will need");
    let reads = s.store.reads.load(Relaxed);
    assert!(reads > 0);
    assert_eq!(read(&f, 500_000, 4096), [7; 4096]);
    assert_eq!(s.store.reads.load(Relaxed), reads);
    f.advise(0, 0, false).expect("drop");
    assert!(s.object.pages().is_empty());
}

#[test]
fn holes_and_data() {
    let s = stack();
    let f = s.file();
    f.write_at(&[1; 4096], 8192).expect("write");
    assert_eq!(f.seek_hole(0).expect("hole"), 0);
    assert_eq!(f.seek_data(0).expect("data"), 8192);
    assert_eq!(f.seek_hole(9000).expect("the end"), 12_288);
    assert_eq!(errno(f.seek_data(12_288)), Errno::ENXIO);
    f.truncate(20_000).expect("up");
    assert_eq!(errno(f.seek_data(13_000)), Errno::ENXIO);
    assert_eq!(f.seek_hole(13_000).expect("hole"), 13_000);
}

#[test]
fn flush_writes_out_and_does_not_sync() {
    let s = stack();
    let f = s.file();
    f.write_at(&[1; 100], 0).expect("write");
    f.flush().expect("flush");
    assert_eq!((s.store.content().len(), s.store.syncs.load(Relaxed)), (100, 0));
}

#[test]
fn an_object_is_synced_without_an_open_file() {
    let s = stack();
    s.file().write_at(&[1; 100], 0).expect("write");
    crate::sync_object(&Env::get(EnvTags::IO), &s.object).expect("sync");
    assert_eq!((s.store.content().len(), s.store.syncs.load(Relaxed)), (100, 1));
}

#[test]
fn a_lower_limit_is_kept_to() {
    let s = stack();
    let f = s.file();
    f.write_at(&vec![1; 4 << 20], 0).expect("write");
    s.cache.set_limit_bytes(&Env::get(EnvTags::WORK), 1 << 20);
    assert!(s.cache.used_bytes() <= 1 << 20);
    assert_eq!(read(&f, 0, 4 << 20), vec![1; 4 << 20]);
}

#[test]
fn without_locks_nothing_is_cached() {
    let s = stack();
    let f = s.open(FileFlags { demand: clio_core::io::LockDemand::Never, ..FileFlags::default() });
    f.write_at(&[1; 100], 50).expect("write");
    assert_eq!(read(&f, 0, 1000).len(), 150);
    assert!(s.object.pages().is_empty() && s.object.locks().is_empty());
}
