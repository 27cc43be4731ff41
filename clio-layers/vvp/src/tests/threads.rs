//! Threads of one client on one file, with write-out, eviction and lock cancellation going on.

use super::{Setup, Stack, read};
use clio_core::env::{Env, EnvTags};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

const THREADS: u64 = 3;

/// Runs `work` in threads, and in another one all that may happen to a cache meanwhile.
fn under_disturbance(stack: &Stack, work: impl Fn(u64) + Sync) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let disturber = scope.spawn(|| {
            let env = Env::get(EnvTags::WORK);
            for n in 0.. {
                if over.load(Relaxed) {
                    return;
                }
                match n % 4 {
                    0 => stack.store.write_back(&stack.object),
                    1 => drop(stack.cache.reclaim(&env, 128 << 10)),
                    2 => drop(stack.object.locks().cancel_all(&env)),
                    _ => stack.store.delayed.store(n % 8 == 3, Relaxed),
                }
                std::thread::yield_now();
            }
        });
        let work = &work;
        let workers: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t))).collect();
        let results: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        over.store(true, Relaxed);
        disturber.join().expect("disturber");
        results.into_iter().for_each(|r| r.expect("worker"));
    });
}

/// Equality with a short message.
#[track_caller]
fn assert_same(got: &[u8], wanted: &[u8], at: u64) {
    let differs = got.iter().zip(wanted).position(|(g, w)| g != w);
    let wrong = differs.map(|i| (at + i as u64, got[i], wanted[i], got.iter().filter(|b| **b != wanted[i]).count()));
    assert_eq!((wrong, got.len()), (None, wanted.len()), "(offset, got, wanted, wrong bytes), length, read at {at}");
}

#[test]
fn a_write_that_returned_is_seen_by_later_reads() {
    let stack = Stack::new(Setup { cache_bytes: 512 << 10, ..Setup::default() });
    let file = stack.file();
    under_disturbance(&stack, |t| {
        // Interleaved records: threads share blocks.
        for round in 1..60u8 {
            for n in 0..40u64 {
                let at = (n * THREADS + t) * 1111;
                file.write_at(&[round; 1111], at).expect("write");
                assert_same(&read(&file, at, 1111), &[round; 1111], at);
            }
        }
    });
    assert_same(&read(&file, 0, 1 << 20), &vec![59; 1111 * 40 * THREADS as usize], 0);
}

#[test]
fn appends_of_threads_are_whole_and_apart() {
    let stack = Stack::new(Setup::default());
    let file = stack.file();
    under_disturbance(&stack, |t| {
        for n in 0..100 {
            let (len, at) = file.append(&[t as u8 + 1; 777]).expect("append");
            assert_eq!((len, at % 777), (777, 0), "append {n}");
        }
    });
    let all = read(&file, 0, 1 << 20);
    assert_eq!(all.len(), 777 * 100 * THREADS as usize);
    let mut counts = [0; THREADS as usize];
    for record in all.chunks(777) {
        assert!(record.iter().all(|b| *b == record[0]), "a record is whole");
        counts[record[0] as usize - 1] += 1;
    }
    assert_eq!(counts, [100; THREADS as usize]);
}

#[test]
fn truncate_against_writers_and_readers() {
    let stack = Stack::new(Setup { read_ahead_bytes: 1 << 20, ..Setup::default() });
    let file = stack.file();
    under_disturbance(&stack, |t| {
        for n in 0..150u64 {
            match t {
                0 => file.truncate(n * 37 % 90_000).expect("truncate"),
                1 => drop(file.write_at(&[7; 9000], n * 613 % 80_000).expect("write")),
                _ => {
                    // Every byte is what was written, or a zero.
                    let got = read(&file, n * 331 % 70_000, 20_000);
                    assert!(got.iter().all(|b| *b == 0 || *b == 7));
                }
            }
        }
    });
    file.truncate(1000).expect("truncate");
    file.truncate(100_000).expect("truncate");
    assert!(read(&file, 1000, 100_000).iter().all(|b| *b == 0), "nothing comes back");
    file.fsync().expect("fsync");
    assert_eq!(stack.store.content().len(), 100_000);
}

#[test]
fn direct_and_cached_writers_of_one_range() {
    let stack = Stack::new(Setup::default());
    let (file, direct) = (stack.file(), stack.open(crate::FileFlags { direct: true, ..Default::default() }));
    under_disturbance(&stack, |t| {
        for n in 0..100u8 {
            let at = 5000 * t;
            let writer = if n % 2 == 0 { &file } else { &direct };
            writer.write_at(&[n + 1; 5000], at).expect("write");
            let reader = if n % 3 == 0 { &file } else { &direct };
            assert_same(&read(reader, at, 5000), &[n + 1; 5000], at);
        }
    });
    assert_same(&read(&file, 0, 20_000), &vec![100; 5000 * THREADS as usize], 0);
}

/// A block full of a number.
fn block_of(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(512)
}

fn number_in(block: &[u8]) -> u64 {
    assert!(block.chunks(8).all(|w| w == &block[..8]), "a block is read as it was written");
    u64::from_le_bytes(block[..8].try_into().expect("eight bytes"))
}

#[test]
fn a_cached_write_is_not_lost_to_a_direct_one_that_came_before() {
    const DIRECT: u64 = 1 << 63;
    let stack = Stack::new(Setup::default());
    let (file, direct) = (stack.file(), stack.open(crate::FileFlags { direct: true, ..Default::default() }));
    let at = 5 * 4096;
    file.write_at(&block_of(0), at).expect("write");
    let finished = AtomicU64::new(0);
    under_disturbance(&stack, |t| {
        for n in 1..400u64 {
            match t {
                // Has windows opened over all of the folio.
                0 => assert_eq!(file.write_at(&[1; 100], n * 7 % 4000).expect("write"), 100),
                1 => {
                    direct.write_at(&block_of(DIRECT | n), at).expect("direct");
                    finished.store(n, SeqCst);
                }
                _ => {
                    let before = finished.load(SeqCst);
                    file.write_at(&block_of(n), at).expect("write");
                    let seen = number_in(&read(&file, at, 4096));
                    let newer = seen & DIRECT != 0 && seen & !DIRECT > before;
                    assert!(seen == n || newer, "{seen:#x} after writing {n}, when {before} had been over");
                }
            }
        }
    });
}

#[test]
fn a_cached_write_is_not_lost_to_a_truncate_that_came_before() {
    let stack = Stack::new(Setup::default());
    let file = stack.file();
    let at = 5 * 4096;
    let (begun, finished) = (AtomicU64::new(0), AtomicU64::new(0));
    under_disturbance(&stack, |t| {
        for n in 1..400u64 {
            match t {
                0 => assert_eq!(file.write_at(&[1; 100], n * 7 % 4000).expect("write"), 100),
                1 => {
                    begun.store(n, SeqCst);
                    file.truncate(4096).expect("truncate");
                    finished.store(n, SeqCst);
                }
                _ => {
                    let before = finished.load(SeqCst);
                    file.write_at(&block_of(n), at).expect("write");
                    let got = read(&file, at, 4096);
                    let cut = begun.load(SeqCst) > before;
                    assert!(cut || (got.len() == 4096 && number_in(&got) == n), "lost {n}: {} bytes", got.len());
                }
            }
        }
    });
}
