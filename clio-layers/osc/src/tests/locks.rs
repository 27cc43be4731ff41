//! Locks of two clients, their cancellation, and what a client knows of an object's size.

use super::script::Kind;
use super::*;
use clio_core::io::LockDemand;
use clio_core::lock::{LockDescr, LockState, request};
use clio_core::target::{EnqueueFlags, LockMode};
use clio_core::units::Extent;

fn need(start: u64, end: u64, mode: LockMode) -> LockDescr {
    LockDescr { extent: Extent::new(start, end), mode, flags: EnqueueFlags::default(), demand: LockDemand::Maybe }
}

#[test]
fn a_lock_is_widened_and_matched_again() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    let user = request(&c.env, file.object(), &need(0, 4096, LockMode::Pw)).expect("lock");
    assert_eq!(user.descr().extent, Extent::WHOLE);
    drop(user);
    let again = request(&c.env, file.object(), &need(MB, 2 * MB, LockMode::Pr)).expect("lock");
    assert_eq!(target.log(Kind::Enqueue).len(), 1, "a write lock serves reads");
    drop((again, file));
    c.end(&target);
}

/// Section 5.6 of the CLIO notes.
#[test]
fn a_conflicting_lock_writes_out_and_invalidates() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    let data = pattern(600 * KB as usize, 2);
    file.write_at(&c.env, &data, 0).expect("write");
    let mut buf = vec![0; 4096];
    let held = file.object().locks().all();
    assert_eq!(held[0].state(), LockState::Cached);
    assert_eq!(held[0].weigh(&c.env), 150);
    assert_eq!(other.write_at(&d.env, &[0xEE; 10], 300_000).expect("write"), 10);
    assert!(held[0].is_gone());
    let sent: u64 = target.log(Kind::Write).iter().map(|w| w.bytes).sum();
    assert_eq!(sent, data.len() as u64, "written out before the other one got the lock");
    eventually("all pages are dropped", || file.object().pages().is_empty());
    assert_eq!(file.object().attrs().kms(), 0, "no lock, no known size");
    assert_eq!(file.read_at(&c.env, &mut buf, 299_000).expect("read"), 4096);
    let mut truth = data.clone();
    truth[300_000..300_010].fill(0xEE);
    assert_eq!(&buf[..], &truth[299_000..303_096]);
    assert_eq!(c.device.stats().blocking_asts, 1);
    drop((file, other, held));
    c.end(&target);
    d.end(&target);
}

#[test]
fn a_lock_in_use_is_given_back_at_its_last_use() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    let user = request(&c.env, file.object(), &need(0, 4096, LockMode::Pw)).expect("lock");
    std::thread::scope(|s| {
        s.spawn(|| {
            let env = Env::get(EnvTags::IO);
            assert_eq!(other.write_at(&env, &[1; 10], 0).expect("write"), 10);
        });
        eventually("the lock is asked back", || user.lock().is_doomed());
        assert!(user.lock().is_granted());
        assert!(target.log(Kind::Cancel).is_empty());
        drop(user);
    });
    assert_eq!(target.log(Kind::Cancel).len(), 1);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn a_blocking_ast_may_come_before_the_grant_is_known() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    target.mute(Kind::Enqueue);
    std::thread::scope(|s| {
        let _released = target.release_at_end();
        s.spawn(|| {
            let env = Env::get(EnvTags::IO);
            file.write_at(&env, &[1; 100], 0).expect("write");
        });
        eventually("the first is granted, but doesn't know", || target.muted() == 1);
        s.spawn(|| {
            let env = Env::get(EnvTags::IO);
            other.write_at(&env, &[2; 100], 50).expect("write");
        });
        eventually("the blocking AST has come", || c.device.stats().blocking_asts == 1);
        target.release();
    });
    let mut buf = [0; 150];
    assert_eq!(file.read_at(&c.env, &mut buf, 0).expect("read"), 150);
    assert_eq!((&buf[..50], &buf[50..]), (&[1; 50][..], &[2; 100][..]));
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn a_glimpse_sees_what_is_not_written_out() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    file.write_at(&c.env, &[1; 12345], 0).expect("write");
    assert_eq!(other.size(&d.env).expect("glimpse"), 12345);
    assert!(file.write_cached(&[2; 4096], 8192, 9), "it took no lock away");
    assert_eq!(other.size(&d.env).expect("glimpse"), 12345);
    assert!(target.log(Kind::Write).is_empty());
    assert!(c.device.stats().glimpse_asts >= 2);
    // Without rivals, the glimpse's lock is given back.
    assert_eq!(d.open(2).size(&d.env).expect("glimpse"), 0);
    assert_eq!(target.inner.lock_counts().granted, 1);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

/// LU-7829, LU-11670.
#[test]
fn a_glimpse_does_not_trust_a_lock_that_is_not_granted() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    other.write_at(&d.env, &[1; 777], 0).expect("write");
    let user = request(&d.env, other.object(), &need(0, Extent::EOF, LockMode::Pw)).expect("lock");
    std::thread::scope(|s| {
        s.spawn(|| {
            let env = Env::get(EnvTags::IO);
            let object = file.object();
            drop(request(&env, object, &need(0, Extent::EOF, LockMode::Pr)).expect("lock"));
        });
        eventually("a lock waits", || target.inner.lock_counts().waiting == 1);
        assert_eq!(file.size(&c.env).expect("glimpse"), 777);
        drop(user);
    });
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn kms_survives_as_far_as_other_locks_reach() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let mut file = c.open(1);
    file.set_lock_flags(EnqueueFlags { exact: true, ..EnqueueFlags::default() });
    file.write_at(&c.env, &[1; 4096], 0).expect("write");
    file.write_at(&c.env, &[2; 4096], 8192).expect("write");
    assert_eq!(file.object().attrs().kms(), 12288);
    let other = d.open(1);
    let mut buf = [0; 4096];
    other.read_at(&d.env, &mut buf, 8192).expect("read");
    assert_eq!(buf, [2; 4096]);
    let attrs = file.object().attrs();
    assert_eq!((attrs.kms(), attrs.size()), (4096, 12288), "cut to the end of the lock that is left");
    assert!(file.read_cached(&mut buf, 0), "what the other lock covers stays");
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn locks_beyond_the_limit_go_if_nothing_is_under_them() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { lock_limit: 20, ..config() });
    let dirty = c.open(0);
    dirty.write_at(&c.env, &[1; 10], 0).expect("write");
    let files: Vec<_> = (1..60).map(|n| c.open(n)).collect();
    for file in &files {
        let mut buf = [0; 10];
        file.read_at(&c.env, &mut buf, 0).expect("read");
    }
    eventually("locks are cancelled", || c.device.stats().locks <= 20);
    assert!(dirty.object().locks().is_covered(Extent::new(0, 10), LockMode::Pw), "dirty data is under this one");
    drop((dirty, files));
    c.end(&target);
}

#[test]
fn locks_not_used_for_long_go() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { lock_age: Duration::from_millis(20), ..config() });
    let file = c.open(1);
    let mut buf = [0; 10];
    file.read_at(&c.env, &mut buf, 0).expect("read");
    eventually("the lock is old", || c.device.stats().locks == 0);
    drop(file);
    c.end(&target);
}

fn contended() -> Arc<ScriptedTarget> {
    // Every request that would have to wait is told to do without.
    let dlm = DlmConfig { lockless_conflicts: Some(0), ..DlmConfig::default() };
    Setup { dlm, ..Setup::default() }.target()
}

#[test]
fn a_contended_object_is_used_without_a_lock() {
    let target = contended();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    file.write_at(&c.env, &[1; 8192], 0).expect("write");
    assert_eq!(other.write_at(&d.env, &[2; 100], 4000).expect("write"), 100);
    assert_eq!(d.device.stats().lockless, 1);
    assert!(other.object().pages().is_empty(), "nothing stays cached");
    assert_eq!(d.device.stats().locks, 0);
    let writes = target.log(Kind::Write);
    assert!(writes.iter().any(|w| (w.lock, w.bytes) == (None, 100)));
    let mut buf = [0; 8192];
    assert_eq!(file.read_at(&c.env, &mut buf, 0).expect("read"), 8192);
    assert_eq!((&buf[..4000], &buf[4000..4100], &buf[4100..]), (&[1; 4000][..], &[2; 100][..], &[1; 4092][..]));
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn mandatory_io_never_goes_without_a_lock() {
    let target = contended();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    file.write_at(&c.env, &[1; 10], 0).expect("write");
    other.append(&d.env, &[2; 10]).expect("append");
    other.truncate(&d.env, 15).expect("truncate");
    assert_eq!(d.device.stats().lockless, 0);
    let mut buf = [0; 20];
    assert_eq!(file.read_at(&c.env, &mut buf, 0).expect("read"), 15);
    assert_eq!(&buf[..15], [[1; 10].as_slice(), &[2; 5]].concat());
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

/// A lockless lock conflicts with everything in its range, in its own client too.
#[test]
fn a_lockless_lock_cancels_what_it_meets() {
    let target = contended();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (mut file, other) = (c.open(1), d.open(1));
    file.set_lock_flags(EnqueueFlags { exact: true, ..EnqueueFlags::default() });
    file.write_at(&c.env, &[1; 4096], 0).expect("write");
    other.write_at(&d.env, &[3; 4096], 1 << 20).expect("write");
    // Meets this client's own lock, and that of the other one.
    file.write_at(&c.env, &pattern(2 << 20, 4), 0).expect("write");
    assert_eq!(c.device.stats().lockless, 1);
    assert_eq!(c.device.stats().locks, 0);
    assert!(file.object().pages().is_empty());
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn without_locks_nothing_is_cached_or_asked() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let mut file = c.open(1);
    file.set_demand(LockDemand::Never);
    let data = pattern(100_000, 6);
    let mem = c.site.slab().memory().alloc(1 << 20).expect("memory");
    mem.write_at(0, &data);
    let segment = |len| clio_core::target::BulkSegment { offset: 5, mem: mem.slice(0..len) };
    file.direct(&c.env, clio_core::page::Rw::Write, &[segment(data.len())].into_iter().collect()).expect("write");
    mem.zero();
    file.direct(&c.env, clio_core::page::Rw::Read, &[segment(data.len())].into_iter().collect()).expect("read");
    let mut back = vec![0; data.len()];
    mem.read_at(0, &mut back);
    assert!(back == data);
    assert!(target.log(Kind::Enqueue).is_empty() && file.object().pages().is_empty());
    assert!(target.log(Kind::Write).iter().all(|w| w.lock.is_none() && w.grant == 0));
    drop(file);
    c.end(&target);
}

/// An enqueue is asked again after a passing trouble, and given up after the limit.
#[test]
fn enqueues_are_asked_again() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { resend_limit: 3, ..config() });
    let file = c.open(1);
    target.fail(Kind::Enqueue, clio_core::Errno::EIO, 2);
    file.write_at(&c.env, &[1; 10], 0).expect("third time lucky");
    drop(file);
    let file = c.open(2);
    target.fail(Kind::Enqueue, clio_core::Errno::EIO, 100);
    assert_eq!(file.write_at(&c.env, &[1; 10], 0).map_err(|e| e.errno()), Err(clio_core::Errno::EIO));
    target.fail_no_more();
    file.write_at(&c.env, &[1; 10], 0).expect("all is well again");
    drop(file);
    c.end(&target);
}

/// A target that answers at once, and always wrongly, must not drive the client into the ground.
#[test]
fn a_target_that_never_grants_what_is_mandatory_is_given_up() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { resend_limit: 3, ..config() });
    let file = c.open(1);
    target.fail(Kind::Enqueue, clio_core::Errno::EUSERS, 1_000_000);
    assert_eq!(file.append(&c.env, &[1; 10]).map_err(|e| e.errno()), Err(clio_core::Errno::EPROTO));
    assert_eq!(target.log(Kind::Enqueue).len(), 4);
    target.fail_no_more();
    file.append(&c.env, &[1; 10]).expect("it behaves again");
    drop(file);
    c.end(&target);
}

#[test]
fn a_refused_try_lock_is_told() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    let user = request(&c.env, file.object(), &need(0, 4096, LockMode::Pw)).expect("lock");
    let flags = EnqueueFlags { try_lock: true, ..EnqueueFlags::default() };
    let try_it = LockDescr { flags, ..need(0, 4096, LockMode::Pr) };
    let refused = request(&d.env, other.object(), &try_it).map(drop).map_err(|e| e.errno());
    assert_eq!(refused, Err(clio_core::Errno::EAGAIN));
    drop((user, file, other));
    c.end(&target);
    d.end(&target);
}

/// Users who give up leave no lock behind at the target.
#[test]
fn a_lock_nobody_waits_for_any_more_is_given_back() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    target.mute(Kind::Enqueue);
    let mut user = clio_core::lock::find_user(&c.env, file.object(), &need(0, 4096, LockMode::Pw)).expect("find");
    assert_eq!(user.step(&c.env).expect("step"), clio_core::lock::Step::Wait);
    user.release(&c.env);
    assert_eq!(target.inner.lock_counts().granted, 1);
    target.release();
    assert_eq!(target.inner.lock_counts().granted, 0);
    drop(file);
    c.end(&target);
}
