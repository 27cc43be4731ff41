//! Locks: who gets which, and what happens when one is given back and wanted at once.

use crate::{append, asked_back, at_once, sum};
use clio::{Client, Config};
use clio_core::sync::Mutex;
use clio_core::target::{Op, Target};
use clio_core::units::{BLOCK_SIZE, Extent};
use clio_targets::wrap::{Fault, Faulty};
use clio_targets::{MemOptions, MemTarget};
use clio_tests::faults::{Kind, World, eventually};
use clio_tests::{clients, content, pattern, read_write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn writers_of_areas_apart_get_locks_apart() {
    const FAR: u64 = 64 << 20;
    let [a, b] = clients(1);
    let (fa, fb) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    for n in 0..200u64 {
        fa.write_all_at(&pattern(n, 0, 5_000), n * 5_000).expect("write");
        fb.write_all_at(&pattern(n, 1, 5_000), FAR + n * 5_000).expect("write");
    }
    let (conflicts, asked) = (asked_back(&a) + asked_back(&b), sum(&a, |t| t.locks_enqueued));
    assert!(conflicts > 0, "the first lock was as large as nobody minded: {}", a.stats());
    assert!(conflicts <= 8, "{conflicts} locks went to and fro: {}\n{}", a.stats(), b.stats());
    assert!(asked <= 8, "{}", a.stats());
    for n in [0, 1, 99, 199u64] {
        let mut got = vec![0; 5_000];
        b.open_file("/f").expect("open").read_exact_at(&mut got, n * 5_000).expect("read");
        assert_eq!(got, pattern(n, 0, 5_000));
        a.open_file("/f").expect("open").read_exact_at(&mut got, FAR + n * 5_000).expect("read");
        assert_eq!(got, pattern(n, 1, 5_000));
    }
}

#[test]
fn targets_count_the_locks_of_all_their_clients() {
    let folder = tempfile::tempdir().expect("folder");
    for uri in ["mem:?targets=3".to_string(), format!("dir:{}?targets=3", folder.path().join("store").display())] {
        let a = Client::builder().store(&uri).config(Config::default()).connect().expect("client");
        let b = a.second_client().expect("client");
        let two = read_write().layout(clio::Layout::raid0().stripe_count(2).stripe_size(64 << 10).first_target(0));
        let file = a.open_with("/f", two).expect("open");
        file.write_all_at(&pattern(1, 0, 128 << 10), 0).expect("write");
        assert_eq!(content(&b, "/f"), pattern(1, 0, 128 << 10));
        let held = |client: &Client, target: usize| client.stats().targets[target].locks_cached;
        let counts = || a.lock_counts().expect("this process keeps the store");
        assert_eq!(counts().iter().map(|c| c.target).collect::<Vec<_>>(), [0, 1, 2]);
        // A lock that is just being given back counts at the target for a moment longer.
        eventually("targets and clients agree", || {
            counts().iter().enumerate().all(|(t, c)| c.granted == held(&a, t) + held(&b, t))
        });
        assert!(counts()[..2].iter().all(|c| c.granted > 0) && counts()[2].granted == 0, "{:?}", counts());
        assert!(counts().iter().all(|c| c.waiting == 0), "{:?}", counts());
        a.drop_caches().and(b.drop_caches()).expect("drop");
        eventually("nobody holds a lock", || counts().iter().all(|c| c.granted == 0));
    }
}

#[test]
fn locks_are_asked_for_in_whole_blocks() {
    let world = World::new(1);
    let [a, b] = world.two_clients();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = asked.clone();
    world.rule(move |_, op| {
        if let Op::Enqueue { extent, .. } = op {
            notes.lock().push(*extent);
        }
        None
    });
    let (fa, fb) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    for n in 0..20u64 {
        // The areas touch, but share no block.
        fa.write_all_at(&[1; 101], n * 7).expect("write");
        fb.write_all_at(&[2; 101], BLOCK_SIZE + n * 7).expect("write");
        fb.read_exact_at(&mut [0; 9], BLOCK_SIZE + n * 7).expect("read");
    }
    let seen = std::mem::take(&mut *asked.lock());
    let whole =
        |e: &Extent| e.start.is_multiple_of(BLOCK_SIZE) && (e.end == Extent::EOF || e.end.is_multiple_of(BLOCK_SIZE));
    assert!(seen.len() > 2 && seen.iter().all(whole), "{seen:?}");
    drop((fa, fb));
    world.end([a, b]);
}

#[test]
fn a_lock_is_given_back_and_wanted_at_once() {
    let world = World::new(1);
    let [a, b] = world.two_clients();
    let (fa, fb) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    fa.write_all_at(&[0; 30_000], 0).expect("write");
    let mut want = vec![0; 30_000];
    for n in 0..200u64 {
        let mine = pattern(n, 0, 20_000);
        fa.write_all_at(&mine, 0).expect("write");
        want[..20_000].copy_from_slice(&mine);
        let theirs = pattern(n + 1, 0, 5_000);
        at_once(|| a.drop_caches().expect("drop"), || fb.write_all_at(&theirs, 18_000).expect("write"));
        want[18_000..23_000].copy_from_slice(&theirs);
        let mut got = vec![0; 30_000];
        // Now the other way round: dirty at the second client, which drops, while the first one reads.
        at_once(|| fa.read_exact_at(&mut got, 0).expect("read"), || b.drop_caches().expect("drop"));
        assert!(got == want, "round {n}");
        assert_eq!(world.target(0).lock_counts().waiting, 0);
    }
    assert!(sum(&a, |t| t.locks_cancelled) >= 200);
    drop((fa, fb));
    world.end([a, b]);
}

/// The waiting client knew the size at the time of its enqueue; the grant tells it the one that counts.
#[test]
fn a_lock_that_was_waited_for_tells_the_size_at_its_grant() {
    let world = World::new(1);
    let [a, b] = world.two_clients();
    let (fa, fb) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    let appender = b.open_with("/f", append()).expect("open");
    fa.write_all_at(&pattern(0, 0, 100), 0).expect("write");
    assert_eq!(content(&b, "/f").len(), 100);
    fa.write_all_at(&pattern(0, 0, 10_000), 0).expect("write");
    world.fail(Kind::Write, Fault::HoldRequest);
    let read = AtomicBool::new(false);
    thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut got = vec![0; 20_000];
            let n = fb.read_at(&mut got, 0).expect("read");
            read.store(true, Ordering::SeqCst);
            got.truncate(n);
            got
        });
        eventually("the holder writes out", || world.held() == 1);
        assert!(!read.load(Ordering::SeqCst), "the read waits for the lock");
        world.heal();
        assert_eq!(reader.join().expect("reader"), pattern(0, 0, 10_000));
    });
    // The same for an append, which goes to where the file ends when it is its turn.
    fa.write_all_at(&pattern(0, 0, 30_000), 0).expect("write");
    world.fail(Kind::Write, Fault::HoldRequest);
    thread::scope(|s| {
        let waits = s.spawn(|| appender.append(b"tail").expect("append"));
        eventually("the holder writes out", || world.held() == 1);
        world.heal();
        assert_eq!(waits.join().expect("appender"), 30_000);
    });
    assert_eq!(content(&a, "/f"), [pattern(0, 0, 30_000), b"tail".to_vec()].concat());
    drop((fa, fb, appender));
    world.end([a, b]);
}

/// Many transfers, each far shorter than the timeout, all of them far longer: the holder is at work, not dead.
#[test]
fn no_lock_times_out_under_long_writing() {
    let mut options = MemOptions::default();
    options.service.dlm.blocking_timeout_ms = 1_500;
    let target = Arc::new(Faulty::new(Arc::new(MemTarget::in_memory(options))));
    let mut config = Config::default();
    for (name, value) in [("max_pages_per_rpc", "16"), ("max_rpcs_in_flight", "1"), ("writeback_lag_ms", "60000")] {
        config.set(name, value, clio::config::Source::Given).expect("setting");
    }
    let a = Client::over_targets(vec![target.clone() as Arc<dyn Target>], config).expect("client");
    let b = a.second_client().expect("client");
    let data = pattern(3, 0, 20 * (64 << 10));
    let file = a.create("/f").expect("create");
    file.write_all_at(&data, 0).expect("write");
    target.set_rule(|op| matches!(op, Op::Write { .. }).then_some(Fault::Delay(Duration::from_millis(150))));
    assert_eq!(content(&b, "/f"), data);
    file.sync_all().expect("no error of the write-out");
    let evictions = |c: &Client| sum(c, |t| t.evictions);
    assert_eq!((evictions(&a), evictions(&b)), (0, 0), "{}", a.stats());
}
