//! Kinds of IO that the target does, and direct transfers.

use super::script::Kind;
use super::*;
use clio_core::page::Rw;
use clio_core::target::{Bulk, BulkSegment};
use clio_core::units::Extent;

fn content(c: &Client, n: u32, len: usize) -> Vec<u8> {
    let mut buf = vec![0; len];
    let got = c.open(n).read_at(&c.env, &mut buf, 0).expect("read");
    buf.truncate(got);
    buf
}

#[test]
fn truncate_drops_what_lies_beyond_and_zeroes_the_rest() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let file = c.open(1);
    let mut truth = pattern(600_000, 8);
    file.write_at(&c.env, &truth, 0).expect("write");
    file.truncate(&c.env, 300_001).expect("truncate");
    assert_eq!(file.size(&c.env).expect("size"), 300_001);
    file.truncate(&c.env, 500_000).expect("truncate");
    truth.truncate(300_001);
    truth.resize(500_000, 0);
    assert!(content(&c, 1, 700_000) == truth, "no old data after growing again");
    c.check();
    let sent: u64 = target.log(Kind::Write).iter().map(|w| w.bytes).sum();
    assert!(sent <= 300_001, "what was cut is not sent");
    assert!(content(&d, 1, 700_000) == truth);
    let sent: u64 = target.log(Kind::Write).iter().map(|w| w.bytes).sum();
    assert_eq!(sent, 300_001);
    drop(file);
    c.end(&target);
    d.end(&target);
}

#[test]
fn truncate_waits_for_writes_on_their_way() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 100_000], 0).expect("write");
    target.hold(Kind::Write);
    c.device.write_out(&c.env);
    std::thread::scope(|s| {
        let _released = target.release_at_end();
        s.spawn(|| file.truncate(&Env::get(EnvTags::IO), 10).expect("truncate"));
        // Time for it to get it wrong.
        std::thread::sleep(Duration::from_millis(20));
        assert!(target.log(Kind::Punch).is_empty());
        target.release();
    });
    assert_eq!(target.log(Kind::Punch).len(), 1);
    assert_eq!(content(&c, 1, 100), [1; 10]);
    drop(file);
    c.end(&target);
}

#[test]
fn a_hole_reads_as_zeros_everywhere() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let file = c.open(1);
    let mut truth = pattern(400_000, 8);
    file.write_at(&c.env, &truth, 0).expect("write");
    file.punch(&c.env, Extent::new(1000, 350_001)).expect("punch");
    truth[1000..350_001].fill(0);
    assert!(content(&c, 1, 400_000) == truth);
    assert_eq!(file.seek(&c.env, 0, true).expect("seek"), Some(4096));
    assert_eq!(file.seek(&c.env, 5000, false).expect("seek"), Some(348_160));
    assert_eq!(file.seek(&c.env, 400_000, false).expect("seek"), None);
    c.check();
    assert!(content(&d, 1, 400_000) == truth);
    drop(file);
    c.end(&target);
    d.end(&target);
}

#[test]
fn a_hole_over_dirty_data_at_the_end_keeps_the_size() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let file = c.open(1);
    file.write_at(&c.env, &[1; 100], 233_438).expect("write");
    file.punch(&c.env, Extent::new(183_689, 300_000)).expect("punch");
    assert_eq!(file.size(&c.env).expect("size"), 233_538);
    drop(file);
    c.end(&target);
    assert!(content(&d, 1, 300_000) == [0; 233_538]);
    d.end(&target);
}

#[test]
fn seek_sees_dirty_data() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 4096], MB).expect("write");
    assert_eq!(file.seek(&c.env, 0, false).expect("seek"), Some(MB));
    assert_eq!(file.seek(&c.env, MB, true).expect("seek"), Some(MB + 4096));
    drop(file);
    c.end(&target);
}

#[test]
fn appends_of_two_clients_lose_nothing() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    for i in 0..40u8 {
        file.append(&c.env, &[i; 77]).expect("append");
        other.append(&d.env, &[0x80 | i; 33]).expect("append");
    }
    let expected: Vec<u8> = (0..40u8).flat_map(|i| [vec![i; 77], vec![0x80 | i; 33]].concat()).collect();
    assert!(content(&c, 1, 10_000) == expected);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn a_synchronous_write_is_there_when_it_returns() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_sync_at(&c.env, &[5; 1000], 10).expect("write");
    assert_eq!(target.log(Kind::Write).len(), 1);
    assert_eq!(c.device.stats().credits.dirty(), 0);
    assert_eq!(content(&c, 1, 2000).len(), 1010);
    drop(file);
    c.end(&target);
}

fn segments(mem: clio_core::memory::MemRef, offset: u64, lens: &[usize]) -> Bulk {
    let mut at = 0;
    let mut bulk = Bulk::new();
    for len in lens {
        bulk.push(BulkSegment { offset: offset + at as u64, mem: mem.slice(at..at + len) });
        at += len;
    }
    bulk
}

#[test]
fn direct_transfers_are_split_and_stay_coherent_with_the_cache() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { max_rpc_bytes: 64 * KB, ..config() });
    let file = c.open(1);
    let mut truth = pattern(500_000, 1);
    file.write_at(&c.env, &truth, 0).expect("write");
    let data = pattern(300_000, 77);
    let mem = c.site.slab().memory().alloc(1 << 20).expect("memory");
    mem.write_at(0, &data);
    target.clear_log();
    file.direct(&c.env, Rw::Write, &segments(mem, 1001, &[7, 99_993, 200_000])).expect("direct");
    truth[1001..301_001].copy_from_slice(&data);
    assert!(target.log(Kind::Write).iter().all(|w| w.bytes <= 64 * KB));
    assert!(content(&c, 1, 500_000) == truth);
    mem.zero();
    file.direct(&c.env, Rw::Read, &segments(mem, 500, &[100_000, 400_000])).expect("direct");
    let mut back = vec![1; 500_000];
    mem.read_at(0, &mut back);
    assert!(back[..499_500] == truth[500..] && back[499_500..] == [0; 500], "zeros beyond the end");
    c.check();
    c.site.slab().memory().free(mem);
    drop(file);
    c.end(&target);
}

/// LU-13227: the size that a direct write makes is told by the lock, and outlives it.
#[test]
fn the_size_of_a_direct_write_outlives_its_lock() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    let mem = c.site.slab().memory().alloc(1 << 20).expect("memory");
    mem.write_at(0, &[9; 10_000]);
    file.direct(&c.env, Rw::Write, &segments(mem, 0, &[10_000])).expect("direct");
    assert_eq!(other.size(&d.env).expect("glimpse"), 10_000);
    other.write_at(&d.env, &[1; 10], 0).expect("write");
    assert_eq!(file.size(&c.env).expect("glimpse"), 10_000);
    assert_eq!(content(&c, 1, 20_000).len(), 10_000);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn an_object_that_goes_takes_its_locks_and_credit_along() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 100_000], 0).expect("write");
    // As for a file that was removed: its data is of no use any more.
    file.object().kill();
    file.object().prune(&c.env, true).expect("prune");
    drop(file);
    assert_eq!((c.device.stats().credits.dirty(), c.device.stats().locks), (0, 0));
    assert!(target.log(Kind::Write).is_empty());
    assert_eq!(target.inner.lock_counts().granted, 0);
    c.check();
    c.end(&target);
}

#[test]
fn an_object_that_is_only_evicted_is_written_out_first() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 100_000], 0).expect("write");
    file.object().kill();
    drop(file);
    let written: u64 = target.log(Kind::Write).iter().map(|w| w.extent.len()).sum();
    assert_eq!(written, 100_000);
    c.check();
    c.end(&target);
}
