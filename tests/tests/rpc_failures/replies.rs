//! Replies that are lost, and replies that come late.

use clio::{Client, Errno};
use clio_targets::wrap::Fault;
use clio_tests::faults::{Kind, World, eventually};
use clio_tests::{content, narrow, pattern, read_write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const LEN: usize = 150_000;

/// The reply to the first request of `kind` is lost.
fn lose_first(world: &World, kind: Kind) {
    let seen = AtomicUsize::new(0);
    world.rule(move |_, op| {
        let first = Kind::of(op) == kind && seen.fetch_add(1, Ordering::SeqCst) == 0;
        first.then_some(Fault::LoseReply(Errno::EIO))
    });
}

fn resends(client: &Client) -> u64 {
    client.stats().targets.iter().map(|t| t.resends).sum()
}

#[test]
fn a_write_whose_reply_is_lost_is_sent_again() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    lose_first(&world, Kind::Write);
    file.write_all_at(&pattern(1, 0, LEN), 0).expect("write");
    file.sync_all().expect("fsync");
    assert_eq!(resends(&a), 1);
    assert!(content(&b, "/f") == pattern(1, 0, LEN));
    file.close().expect("close");
    world.end([a, b]);
}

#[test]
fn an_append_whose_reply_is_lost_is_there_once() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let cached = a.open_with("/f", read_write().append(true).layout(narrow(2))).expect("open");
    let durable = a.open_with("/f", read_write().append(true).dsync(true)).expect("open");
    let direct = a.open_with("/f", read_write().append(true).direct(true)).expect("open");
    let mut want = Vec::new();
    for (n, file) in [&cached, &durable, &direct, &cached].into_iter().enumerate() {
        lose_first(&world, Kind::Write);
        let data = pattern(n as u64, 0, 40_001);
        assert_eq!(file.append(&data).expect("append"), want.len() as u64);
        file.sync_all().expect("fsync");
        want.extend(data);
        assert_eq!(resends(&a), n as u64 + 1);
    }
    assert!(content(&b, "/f") == want);
    assert!(content(&a, "/f") == want);
    drop((cached, durable, direct));
    world.end([a, b]);
}

#[test]
fn a_truncate_whose_reply_is_lost_cuts_once() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let mut want = pattern(1, 0, LEN);
    file.write_all_at(&want, 0).expect("write");
    for len in [70_001, 200_000] {
        lose_first(&world, Kind::Punch);
        let before = resends(&a);
        file.set_len(len as u64).expect("truncate");
        assert_eq!(resends(&a), before + 1);
        want.resize(len, 0);
        // After the cut, and not undone by the repetition.
        file.write_all_at(&[7; 100], len as u64 - 50).expect("write");
        want.truncate(len - 50);
        want.extend([7; 100]);
        assert!(content(&b, "/f") == want);
        assert!(content(&a, "/f") == want);
    }
    file.close().expect("close");
    world.end([a, b]);
}

/// A lock was granted, but the client never heard of it: whoever wants it gets it all the same, the client itself, too.
#[test]
fn a_lock_whose_grant_is_lost_is_in_nobodys_way() {
    let world = World::new(1);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(1))).expect("open");
    let other = b.open_with("/f", read_write()).expect("open");
    let mut buf = vec![0; 1000];
    for n in 1..5u8 {
        lose_first(&world, Kind::Enqueue);
        file.write_all_at(&[n; 1000], 0).expect("write");
        lose_first(&world, Kind::Enqueue);
        other.read_exact_at(&mut buf, 0).expect("read");
        assert_eq!(buf, [n; 1000]);
        lose_first(&world, Kind::Glimpse);
        assert_eq!(b.metadata("/f").expect("stat").len(), 1000);
        other.write_all_at(&[n + 100; 1000], 0).expect("write");
        file.read_exact_at(&mut buf, 0).expect("read");
        assert_eq!(buf, [n + 100; 1000]);
    }
    drop((file, other));
    world.heal();
    world.end([a, b]);
}

#[test]
fn fsync_waits_for_all_replies() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let synced = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let count = synced.clone();
    let syncs = move |i: usize| synced[i].load(Ordering::SeqCst);
    world.rule(move |i, op| {
        let kind = Kind::of(op);
        if kind == Kind::Sync {
            count[i].fetch_add(1, Ordering::SeqCst);
        }
        match kind {
            Kind::Write if i == 1 => Some(Fault::HoldReply),
            Kind::Sync => Some(Fault::HoldReply),
            _ => None,
        }
    });
    file.write_all_at(&pattern(1, 0, LEN), 0).expect("write");
    let returned = AtomicBool::new(false);
    thread::scope(|s| {
        let _healed = world.heal_at_end();
        s.spawn(|| {
            file.sync_all().expect("fsync");
            returned.store(true, Ordering::SeqCst);
        });
        eventually("target 0 is asked to sync, or target 1 has its data", || world.held() > 0);
        // Durable before it has arrived is nothing: while a write is under way, its target isn't asked to sync.
        assert_eq!(syncs(1), 0);
        assert!(!returned.load(Ordering::SeqCst));
        world.release_until(|| syncs(1) == 1);
        if world.held() > 0 {
            assert!(!returned.load(Ordering::SeqCst), "a sync is not answered");
        }
        world.release_until(|| returned.load(Ordering::SeqCst));
    });
    assert_eq!((syncs(0), syncs(1)), (1, 1));
    world.heal();
    assert!(content(&b, "/f") == pattern(1, 0, LEN));
    file.close().expect("close");
    world.end([a, b]);
}

#[test]
fn a_client_that_goes_waits_for_what_it_has_sent() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    world.fail(Kind::Write, Fault::HoldReply);
    file.write_all_at(&pattern(1, 0, LEN), 0).expect("write");
    file.close().expect("close doesn't wait");
    let gone = AtomicBool::new(false);
    thread::scope(|s| {
        let _healed = world.heal_at_end();
        s.spawn(|| {
            drop(a);
            gone.store(true, Ordering::SeqCst);
        });
        eventually("all is sent", || world.held() > 0);
        let locks = world.target(0).lock_counts().granted + world.target(1).lock_counts().granted;
        assert!(locks > 0, "the locks are kept while data is under way");
        assert!(!gone.load(Ordering::SeqCst));
        world.release_until(|| gone.load(Ordering::SeqCst));
    });
    world.heal();
    assert!(gone.load(Ordering::SeqCst));
    assert!(content(&b, "/f") == pattern(1, 0, LEN));
    world.end([b]);
}

#[test]
fn requests_that_arrive_late_arrive() {
    let world = World::new(3);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.write_all_at(&pattern(1, 0, LEN), 0).expect("write");
    for kind in [Kind::Write, Kind::Cancel, Kind::Enqueue, Kind::Read, Kind::Glimpse] {
        world.fail(kind, Fault::HoldRequest);
        thread::scope(|s| {
            let _healed = world.heal_at_end();
            let reader = s.spawn(|| content(&b, "/f"));
            eventually("held, or not needed", || world.held() > 0 || reader.is_finished());
            world.release_until(|| reader.is_finished());
            assert!(reader.join().expect("reader") == pattern(1, 0, LEN), "{kind:?}");
        });
        world.heal();
        file.write_all_at(&pattern(1, 0, LEN), 0).expect("write");
    }
    file.close().expect("close");
    world.end([a, b]);
}
