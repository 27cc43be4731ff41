//! What a client's own locks, holes and dirty data are to itself: never in its own way. Each of these once was, or might
//! be, a wait for oneself; none of them may last.

use crate::sum;
use clio::{Client, Config, File, Layout, OpenOptions};
use clio_core::target::Target;
use clio_targets::wrap::Fault;
use clio_targets::{MemOptions, MemTarget};
use clio_tests::faults::{Kind, World, eventually};
use clio_tests::{clients, content, narrow, pattern, read_write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const LEN: usize = 4 << 20;
const SEAM: u64 = 2 << 20;

/// Does `work`, which must end. Not in a scope: that would wait for it when it doesn't.
fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let worker = thread::spawn(work);
    eventually(what, || worker.is_finished());
    worker.join().expect("it ends well")
}

fn shared(client: &Client, options: OpenOptions) -> Arc<File> {
    Arc::new(client.open_with("/f", options).expect("open"))
}

fn read(file: &File, at: u64, len: usize) -> Vec<u8> {
    let mut got = vec![0xA5; len];
    let n = file.read_at(&mut got, at).expect("read");
    got.truncate(n);
    got
}

/// Two locks of the second client, apart from each other, on a target that grants little more than it is asked for.
fn two_locks(writing: bool) -> ([Client; 2], Vec<u8>) {
    let mut options = MemOptions::default();
    (options.service.dlm.contended_conflicts, options.service.dlm.limited_growth_bytes) = (0, 64 << 10);
    let target: Arc<dyn Target> = Arc::new(MemTarget::in_memory(options));
    let a = Client::over_targets(vec![target], Config::default()).expect("client");
    let b = a.second_client().expect("client");
    let mut want = pattern(1, 0, LEN);
    a.create("/f").expect("create").write_all_at(&want, 0).expect("write");
    a.drop_caches().expect("drop");
    let file = b.open_with("/f", read_write()).expect("open");
    for at in [0, SEAM] {
        if writing {
            file.write_all_at(&[9; 100], at).expect("write");
            want[at as usize..][..100].fill(9);
        } else {
            assert_eq!(read(&file, at, 100), want[at as usize..][..100]);
        }
    }
    let locks = (sum(&b, |t| t.locks_enqueued), sum(&b, |t| t.locks_cancelled));
    assert_eq!(locks, (2, 0), "{}", b.stats());
    ([a, b], want)
}

#[test]
fn a_read_covered_by_two_locks_of_its_own_client() {
    for (direct, writing) in [(false, false), (false, true), (true, false), (true, true)] {
        let ([a, b], want) = two_locks(writing);
        let reader = shared(&b, OpenOptions::new().read(true).direct(direct));
        let got = ends("the read", move || read(&reader, 0, 2 * LEN));
        assert!(got == want, "direct: {direct}, over write locks: {writing}");
        // And now that a third covers both.
        let reader = shared(&b, OpenOptions::new().read(true).direct(!direct));
        assert!(ends("the second read", move || read(&reader, 1000, 2 * LEN)) == want[1000..]);
        [a, b].iter().for_each(|c| c.check_invariants().expect("the books are in order"));
    }
}

/// The client takes what it has there from itself.
#[test]
fn a_change_over_two_locks_of_its_own_client() {
    type Change = fn(&File, &mut Vec<u8>);
    let write: Change = |file, want| {
        let data = pattern(2, 0, LEN - 10);
        file.write_all_at(&data, 5).expect("write");
        want[5..5 + data.len()].copy_from_slice(&data);
    };
    let cut: Change = |file, want| {
        file.set_len(5000).expect("truncate");
        want.truncate(5000);
    };
    let append: Change = |file, want| {
        assert_eq!(file.append(&[9; 3000]).expect("append"), want.len() as u64);
        want.extend([9; 3000]);
    };
    let punch: Change = |file, want| {
        file.punch_hole(100, SEAM + 100).expect("punch");
        want[100..SEAM as usize + 200].fill(0);
    };
    for (n, change) in [write, cut, append, punch].into_iter().enumerate() {
        for (direct, writing) in [(false, false), (false, true), (true, false), (true, true)] {
            let ([a, b], mut want) = two_locks(writing);
            let file = shared(&b, read_write().direct(direct));
            let want = ends("the change", move || {
                change(&file, &mut want);
                want
            });
            for c in [&a, &b] {
                assert!(content(c, "/f") == want, "change {n}, direct: {direct}, over write locks: {writing}");
                c.check_invariants().expect("the books are in order");
            }
        }
    }
}

/// Nothing beyond 128 KiB and 1 MiB has stripes until it is written.
fn three_parts() -> Layout {
    let first = Layout::composite().until(128 << 10).stripe_count(1).stripe_size(64 << 10);
    let second = first.until(MIB).stripe_count(2).stripe_size(64 << 10);
    second.to_eof().stripe_count(3).stripe_size(128 << 10)
}

/// The reader doesn't know where the file ends, and asks; meanwhile the hole is filled, so that the layout is another when
/// the answer comes. The change waits for the reader, who must not wait for the change.
#[test]
fn a_reader_in_a_hole_that_is_filled_while_it_asks_for_the_size() {
    for direct in [false, true] {
        let world = World::new(3);
        let [a, b] = world.two_clients();
        let writer = a.open_with("/f", read_write().layout(three_parts())).expect("open");
        let mut want = vec![0; 3 * MIB as usize / 2 + 1000];
        for (at, len) in [(0, 100_000), (3 * MIB as usize / 2, 1000)] {
            want[at..at + len].copy_from_slice(&pattern(3, 0, len));
            writer.write_all_at(&want[at..at + len], at as u64).expect("write");
        }
        let reader = shared(&b, OpenOptions::new().read(true).direct(direct));
        assert!(read(&reader, 0, 10) == want[..10]);
        let healed = world.heal_at_end();
        world.fail(Kind::Glimpse, Fault::HoldRequest);
        let file = reader.clone();
        let reading = thread::spawn(move || read(&file, 200_000, 4 * MIB as usize));
        eventually("the reader asks", || world.held() > 0);
        writer.write_all_at(&[5; 1000], 500_000).expect("write");
        world.release_until(|| reading.is_finished());
        drop(healed);
        let got = reading.join().expect("reader");
        let new = got[300_000..301_000].iter().all(|x| *x == 5);
        want[500_000..501_000].fill(if new { 5 } else { 0 });
        assert!(got == want[200_000..], "all or nothing of the write, direct: {direct}");
        want[500_000..501_000].fill(5);
        assert!(ends("the next read", move || read(&reader, 0, 4 * MIB as usize)) == want, "direct: {direct}");
        drop(writer);
        world.end([a, b]);
    }
}

/// Readers are in a hole, again and again, while others of the same client and of another one fill it.
#[test]
fn a_hole_that_is_filled_while_its_own_client_reads_it() {
    for round in 0..12u64 {
        let all = clients::<2>(3);
        let open = |c: &Client, direct| shared(c, read_write().direct(direct).layout(three_parts()));
        let fillers = all.each_ref().map(|c| open(c, false));
        fillers[0].write_all_at(&[1; 100], 3 * MIB / 2).expect("write");
        let filled = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = [(0, false), (0, true), (1, false), (1, true)]
            .map(|(n, direct)| {
                let (file, filled) = (open(&all[n], direct), filled.clone());
                thread::spawn(move || {
                    while !filled.load(Ordering::Acquire) {
                        let got = read(&file, 150_000, 400_000);
                        assert!(got.len() == 400_000 && got.iter().all(|x| matches!(x, 0 | 5)));
                    }
                    assert!(read(&file, 300_000, 1000) == [5; 1000], "what was written before is seen");
                })
            })
            .into();
        let filler = fillers[round as usize % 2].clone();
        ends("the write", move || filler.write_all_at(&[5; 1000], 300_000).expect("write"));
        filled.store(true, Ordering::Release);
        for reader in readers {
            eventually("a reader", || reader.is_finished());
            reader.join().expect("reader");
        }
    }
}

/// A direct read comes after the cached writes that were over before it began: those of its own client, whose write-out
/// may be under way, and those of another.
#[test]
fn a_direct_read_waits_for_write_out_that_is_under_way() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let file = shared(&a, read_write().layout(narrow(2)));
    for (n, client) in [&a, &b].into_iter().enumerate() {
        let [old, new] = [0, 1].map(|k| pattern(2 * n as u64 + k, 0, 150_000));
        file.write_all_at(&old, 0).expect("write");
        file.sync_all().expect("fsync");
        file.write_all_at(&new, 0).expect("write");
        let healed = world.heal_at_end();
        world.fail(Kind::Write, Fault::HoldRequest);
        let writer = file.clone();
        let flusher = thread::spawn(move || writer.flush_data());
        eventually("the write-out is under way", || world.held() > 0);
        let direct = shared(client, OpenOptions::new().read(true).direct(true));
        let reader = thread::spawn(move || read(&direct, 0, 200_000));
        // The cache has it already.
        assert!(read(&file, 0, 50_000) == new[..50_000]);
        // Time to do the wrong thing in.
        thread::sleep(Duration::from_millis(20));
        world.release_until(|| reader.is_finished());
        drop(healed);
        assert!(reader.join().expect("reader") == new, "client {n}: bytes from before the write");
        flusher.join().expect("flusher").expect("flush");
    }
    drop(file);
    world.end([a, b]);
}
