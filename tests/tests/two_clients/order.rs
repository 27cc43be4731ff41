//! Order: what has been seen, or has returned, stays seen, whatever happens to the caches.

use clio::{File, OpenOptions};
use clio_tests::{clients, narrow, read_write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const WRITES: u64 = 400;
const LOOKS: u64 = 50;

fn value(file: &File, at: u64) -> u64 {
    let mut buf = [0; 8];
    file.read_exact_at(&mut buf, at).expect("read");
    u64::from_le_bytes(buf)
}

/// A writer counts up in place, while readers here and there look at it and both clients' caches are dropped.
fn count_up(direct_writer: bool, direct_reader: bool, at: u64) {
    let [a, b] = clients(2);
    let writer = a.open_with("/f", read_write().direct(direct_writer).layout(narrow(2))).expect("open");
    writer.write_all_at(&0u64.to_le_bytes(), at).expect("write");
    // The last write that has returned: no reader who starts later may see an older one.
    let (returned, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let looked = [const { AtomicU64::new(0) }; 2];
    thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Ordering::Acquire) {
                a.drop_caches().expect("drop");
                b.drop_caches().expect("drop");
            }
        });
        for (c, looked) in [&a, &b].into_iter().zip(&looked) {
            let (returned, done) = (&returned, &done);
            s.spawn(move || {
                let file = c.open_with("/f", OpenOptions::new().read(true).direct(direct_reader)).expect("open");
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    let floor = returned.load(Ordering::Acquire);
                    let seen = value(&file, at);
                    assert!(seen >= floor, "{seen} is seen after {floor} has been written");
                    assert!(seen >= last, "{seen} is seen after {last}");
                    last = seen;
                    looked.fetch_add(1, Ordering::Relaxed);
                }
                assert_eq!(value(&file, at), returned.load(Ordering::Acquire));
            });
        }
        let mut n = 0;
        // Until the readers have looked often enough, too.
        while n < WRITES || looked.iter().any(|l| l.load(Ordering::Relaxed) < LOOKS) {
            n += 1;
            writer.write_all_at(&n.to_le_bytes(), at).expect("write");
            returned.store(n, Ordering::Release);
            assert_eq!(value(&writer, at), n, "the writer sees its own");
            // A reader that failed looks no more.
            assert!(n < 1_000_000, "the readers don't come to read: {looked:?}");
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn a_counter_never_goes_backwards_while_caches_are_dropped() {
    count_up(false, false, 100);
}

#[test]
fn a_counter_written_directly_never_goes_backwards() {
    count_up(true, false, 4000);
}

#[test]
fn a_counter_read_directly_never_goes_backwards() {
    count_up(false, true, 65_536);
}

#[test]
fn two_counters_are_seen_in_the_order_of_their_writes() {
    let [a, b] = clients(2);
    let writer = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    // In different stripes: at different targets, under different locks.
    let (first, second) = (0, 70_000);
    writer.write_all_at(&[0; 80_000], 0).expect("write");
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        let reader = s.spawn(|| {
            let file = b.open_file("/f").expect("open");
            while !done.load(Ordering::Acquire) {
                let later = value(&file, second);
                let earlier = value(&file, first);
                assert!(earlier >= later, "the write of {later} to the second came after that to the first: {earlier}");
            }
        });
        for n in 1..=WRITES {
            writer.write_all_at(&n.to_le_bytes(), first).expect("write");
            writer.write_all_at(&n.to_le_bytes(), second).expect("write");
            if n % 16 == 0 {
                a.drop_caches().expect("drop");
            }
        }
        done.store(true, Ordering::Release);
        reader.join().expect("reader");
    });
}
