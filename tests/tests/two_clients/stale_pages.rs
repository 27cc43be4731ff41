//! A page that is taken away between the end of its transfer and the reader's copy: the reader gets right data all the
//! same, no error, and an end; and what was fetched under a lock that is gone is not valid for the next reader.
//! (The faults: a stale page taken as valid, a spurious EIO, endless retry: LU-14541, LU-16160, LU-16935.)

use crate::asked_back;
use clio::{Client, Config, File};
use clio_core::target::Target;
use clio_targets::wrap::{Fault, Faulty};
use clio_targets::{MemOptions, MemTarget};
use clio_tests::faults::{Kind, World, eventually};
use clio_tests::{narrow, pattern, read_write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const LEN: usize = 50_000;

fn read(file: &File) -> Vec<u8> {
    let mut got = vec![0xA5; LEN];
    file.read_exact_at(&mut got, 0).expect("never an error");
    got
}

/// In each round, the other client wants the lock while the pages read under it are on their way.
#[test]
fn a_write_elsewhere_while_a_read_is_on_its_way() {
    let world = World::new(1);
    let [a, b] = world.two_clients();
    let (writer, reader) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    writer.write_all_at(&pattern(0, 0, LEN), 0).expect("write");
    for round in 0..30 {
        let _healed = world.heal_at_end();
        let (before, after) = (pattern(round, 0, LEN), pattern(round + 1, 0, LEN));
        let asked = asked_back(&b);
        world.fail(Kind::Read, Fault::HoldReply);
        thread::scope(|s| {
            let reading = s.spawn(|| read(&reader));
            eventually("the read is answered", || world.held() > 0);
            let writing = s.spawn(|| writer.write_all_at(&after, 0).expect("write"));
            eventually("the reader's lock is wanted", || asked_back(&b) > asked);
            world.heal();
            assert!(reading.join().expect("reader") == before, "round {round}: it had the lock before the write did");
            writing.join().expect("writer");
        });
        assert!(read(&reader) == after, "round {round}: a page outlived its lock");
        // So that the next round's read has to fetch.
        b.drop_caches().expect("drop");
    }
    drop((writer, reader));
    world.end([a, b]);
}

/// Lets go of what is held, when dropped: of a test that failed, too.
struct Released<'a>(&'a Faulty);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.set_rule(|_| None);
        self.0.release();
    }
}

/// The reader loses its lock to the other client's write, since it doesn't answer in time: its read ends only then.
#[test]
fn what_comes_after_an_eviction_is_not_valid() {
    let mut options = MemOptions::default();
    options.service.dlm.blocking_timeout_ms = 50;
    let target = Arc::new(Faulty::new(Arc::new(MemTarget::in_memory(options))));
    let a = Client::over_targets(vec![target.clone() as Arc<dyn Target>], Config::default()).expect("client");
    let b = a.second_client().expect("client");
    let (writer, reader) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    writer.write_all_at(&pattern(0, 0, LEN), 0).expect("write");
    for round in 0..5 {
        let _released = Released(&target);
        let (before, after) = (pattern(round, 0, LEN), pattern(round + 1, 0, LEN));
        target.set_rule(|op| (Kind::of(op) == Kind::Read).then_some(Fault::HoldReply));
        thread::scope(|s| {
            let reading = s.spawn(|| read(&reader));
            eventually("the read is answered", || target.held() > 0);
            // Returns once the reader has been evicted.
            writer.write_all_at(&after, 0).expect("write");
            drop(Released(&target));
            // It began before the write, so that both are right; a mixture is not.
            let got = reading.join().expect("reader");
            assert!(got == before || got == after, "round {round}: neither the old nor the new content");
        });
        assert!(read(&reader) == after, "round {round}: what was fetched under the lost lock was taken as valid");
        b.drop_caches().expect("drop");
    }
    let evictions: u64 = b.stats().targets.iter().map(|t| t.evictions).sum();
    assert_eq!(evictions, 5, "{}", b.stats());
    b.check_invariants().expect("the books are in order");
}

/// Everything that takes pages away, at once: another client's writes, dropped caches, and another file that wants the
/// memory. The content counts up, so that a reader knows what it may see.
#[test]
fn a_reader_whose_pages_are_taken_away_again_and_again_ends() {
    const READS: u64 = 60;
    const BLOCK: usize = 200_000;
    let a = Client::builder().store("mem:?targets=2").set("cache_mb", 4).connect().expect("client");
    let b = a.second_client().expect("client");
    let [writer, thrash] =
        ["/f", "/large"].map(|path| a.open_with(path, read_write().layout(narrow(2))).expect("open"));
    thrash.write_all_at(&vec![1; 8 << 20], 0).expect("write");
    let all = |n: u64| n.to_le_bytes().repeat(BLOCK / 8);
    writer.write_all_at(&all(0), 0).expect("write");
    let (returned, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|s| {
        s.spawn(|| {
            for n in 1.. {
                if done.load(Ordering::Acquire) {
                    return;
                }
                writer.write_all_at(&all(n), 0).expect("write");
                returned.store(n, Ordering::Release);
            }
        });
        s.spawn(|| {
            let large = b.open_file("/large").expect("open");
            let mut buf = vec![0; 1 << 20];
            for n in (0..8).cycle() {
                if done.load(Ordering::Acquire) {
                    return;
                }
                large.read_exact_at(&mut buf, n << 20).expect("read");
                assert!(buf.iter().all(|x| *x == 1));
                if n == 7 {
                    b.drop_caches().expect("drop");
                }
            }
        });
        let reader = s.spawn(|| {
            let file = b.open_file("/f").expect("open");
            let mut buf = vec![0; BLOCK];
            let mut reads = 0;
            // Until there was something to overtake it, too.
            while reads < READS || returned.load(Ordering::Acquire) < READS {
                let floor = returned.load(Ordering::Acquire);
                file.read_exact_at(&mut buf, 0).expect("never an error");
                let seen = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
                let oldest = buf.chunks(8).map(seen).min().expect("words");
                assert!(oldest >= floor, "{oldest} is seen after {floor} was written");
                reads += 1;
            }
        });
        let read = reader.join();
        done.store(true, Ordering::Release);
        read.expect("reader");
    });
    for c in [&a, &b] {
        c.check_invariants().expect("the books are in order");
    }
}
