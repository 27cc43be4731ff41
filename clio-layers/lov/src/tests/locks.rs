//! Top-locks and their sub-locks.

use super::world::*;
use crate::lock::MAX_IDLE;
use clio_core::lock::{LockDescr, LockState, Retired, Step, find_user, request};
use clio_core::target::EnqueueFlags;
use clio_core::target::LockMode::{Pr, Pw};
use clio_core::units::Extent;
use clio_core::{Errno, Error};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn one_stripe_covers_what_its_sub_lock_does() {
    let world = World::full(&raid0(1));
    let user = request(&world.env, world.object(), &need(4096, 8192, Pr)).expect("lock");
    assert_eq!(user.descr().extent, Extent::WHOLE);
    let lock = user.lock().clone();
    user.release(&world.env);
    let again = world.object().locks().match_granted(&need(9 * UNIT, 10 * UNIT, Pr)).expect("matched without a mutex");
    assert!(Arc::ptr_eq(again.lock(), &lock));
    drop(again);
    assert_eq!(world.disk.enqueued.load(SeqCst), 1);
    world.assert_idle();
}

#[test]
fn a_large_sub_lock_serves_many_top_locks() {
    let world = World::full(&raid0(2));
    let lock = |start| request(&world.env, world.object(), &need(start, start + 4096, Pw)).expect("lock");
    let (a, b) = (lock(4096), lock(2 * UNIT + 4096));
    assert_eq!(a.descr().extent, Extent::new(0, UNIT), "the stripe unit");
    assert_eq!(b.descr().extent, Extent::new(2 * UNIT, 3 * UNIT));
    assert!(!Arc::ptr_eq(a.lock(), b.lock()));
    assert_eq!(world.disk.enqueued.load(SeqCst), 1);
    let sub = world.sub(0, 0).locks().all()[0].clone();
    assert_eq!(sub.descr().extent, Extent::WHOLE);

    // Both parents hear of the cancellation, and both keep the sub-lock while they are in use.
    assert_eq!(sub.cancel(&world.env), Retired::Later);
    drop(a);
    assert!(!sub.is_gone());
    let (b_lock, locks) = (b.lock().clone(), world.object().locks().all());
    drop(b);
    assert!(sub.is_gone());
    assert!(locks.iter().all(|l| l.state() == LockState::New) && b_lock.state() == LockState::New);
    world.assert_idle();
}

#[test]
fn a_cached_top_lock_that_lost_a_sub_lock_asks_for_that_one_only() {
    let world = World::full(&raid0(4));
    let all = need(0, 4 * UNIT, Pw);
    let lock = request(&world.env, world.object(), &all).expect("lock").lock().clone();
    assert_eq!((lock.state(), world.disk.enqueued.load(SeqCst)), (LockState::Cached, 4));
    let again = request(&world.env, world.object(), &all).expect("lock");
    assert!(Arc::ptr_eq(again.lock(), &lock));
    let sub = world.sub(0, 2).locks().all()[0].clone();
    assert_eq!(sub.state(), LockState::Cached, "a parent in use protects it as well as a user would");
    assert_eq!(sub.cancel(&world.env), Retired::Later, "a parent is in use");
    drop(again);
    assert_eq!((lock.state(), sub.is_gone()), (LockState::New, true));
    assert_eq!(world.sub(0, 1).locks().all()[0].state(), LockState::Cached, "the others stay");

    let again = request(&world.env, world.object(), &all).expect("lock");
    assert!(Arc::ptr_eq(again.lock(), &lock));
    assert_eq!(world.disk.enqueued.load(SeqCst), 5);
    drop(again);
    world.assert_idle();
}

#[test]
fn a_lock_on_several_stripes_does_not_serve_io_on_one() {
    let world = World::full(&raid0(2));
    let lock = |need: &LockDescr| {
        let user = request(&world.env, world.object(), need).expect("lock");
        (user.lock().id(), user.descr().extent)
    };
    let mut mandatory = need(0, Extent::EOF, Pw);
    mandatory.flags.mandatory = true;
    let (whole, extent) = lock(&mandatory);
    assert_eq!(extent, Extent::WHOLE);
    assert_ne!(lock(&need(4096, 8192, Pr)).0, whole);
    assert_eq!(lock(&need(UNIT - 4096, UNIT + 4096, Pr)).0, whole, "needs two stripes itself");
    assert_eq!(lock(&need(4 * UNIT, Extent::EOF, Pr)).0, whole);
    assert_eq!(lock(&mandatory).0, whole);
    assert_eq!(world.disk.enqueued.load(SeqCst), 2, "the sub-locks are shared all the same");
}

#[test]
fn regular_sub_locks_are_taken_one_after_another() {
    let world = World::full(&raid0(3));
    world.disk.manual.store(true, SeqCst);
    let mut user = find_user(&world.env, world.object(), &need(0, 3 * UNIT, Pw)).expect("lock");
    for stripe in 0..3 {
        assert_eq!(user.step(&world.env).expect("step"), Step::Wait);
        let sent = world.disk.sent.lock().drain(..).collect::<Vec<_>>();
        assert_eq!(sent.iter().map(|s| s.fid).collect::<Vec<_>>(), [FID.sub_object(0, stripe)]);
        sent.into_iter().for_each(|s| s.answer(Ok(())));
    }
    assert_eq!(user.step(&world.env).expect("step"), Step::Done);
    drop(user);
    world.assert_idle();
}

#[test]
fn glimpses_and_try_locks_are_asked_for_at_once() {
    for flags in [
        EnqueueFlags { glimpse: true, ..EnqueueFlags::default() },
        EnqueueFlags { try_lock: true, ..EnqueueFlags::default() },
    ] {
        let world = World::full(&raid0(3));
        world.disk.manual.store(true, SeqCst);
        let whole = LockDescr { flags, ..need(0, Extent::EOF, Pr) };
        let mut user = find_user(&world.env, world.object(), &whole).expect("lock");
        assert_eq!(user.step(&world.env).expect("step"), Step::Wait);
        let mut sent: Vec<_> = world.disk.sent.lock().drain(..).collect();
        assert_eq!(sent.len(), 3);
        // One is refused; the others' answers are waited for all the same.
        sent.remove(1).answer(Err(Error::new(Errno::EAGAIN, "enqueue", "busy")));
        assert_eq!(user.step(&world.env).expect("step"), Step::Wait);
        sent.into_iter().for_each(|s| s.answer(Ok(())));
        assert_eq!(user.hold(&world.env).expect_err("refused").errno(), Errno::EAGAIN);
        drop(user);
        assert!(world.object().locks().is_empty());
        assert_eq!(world.sub(0, 0).locks().len(), 1, "what was granted stays");
        world.disk.manual.store(false, SeqCst);
        request(&world.env, world.object(), &whole).expect("lock");
        world.assert_idle();
    }
}

#[test]
fn a_sub_lock_that_cannot_be_had_leaves_nothing() {
    for nth in 0..3 {
        let world = World::full(&raid0(3));
        *world.disk.fail.lock() = Some((super::disk::At::Enqueue, nth));
        let refused = request(&world.env, world.object(), &need(0, 3 * UNIT, Pw)).expect_err("refused");
        assert_eq!(refused.errno(), Errno::EIO);
        assert!(world.object().locks().is_empty());
        world.assert_idle();
        request(&world.env, world.object(), &need(0, 3 * UNIT, Pw)).expect("lock");
    }
}

#[test]
fn idle_top_locks_are_limited() {
    let world = World::full(&raid0(2));
    let held = request(&world.env, world.object(), &need(0, 4096, Pr)).expect("lock");
    for unit in 1..10 * MAX_IDLE as u64 {
        request(&world.env, world.object(), &need(unit * UNIT, unit * UNIT + 4096, Pr)).expect("lock");
    }
    assert!(world.object().locks().len() <= MAX_IDLE);
    assert_eq!(held.lock().state(), LockState::Held);
    assert_eq!(world.disk.enqueued.load(SeqCst), 2);
    drop(held);
    world.assert_idle();
}

#[test]
fn exact_grants_widen_to_no_more() {
    let world = World::full(&raid0(2));
    world.disk.exact.store(true, SeqCst);
    let lock = |start, end| request(&world.env, world.object(), &need(start, end, Pr)).expect("lock").descr().extent;
    assert_eq!(lock(UNIT + 4096, UNIT + 8192), Extent::new(UNIT + 4096, UNIT + 8192));
    assert_eq!(lock(UNIT, 2 * UNIT), Extent::new(UNIT, 2 * UNIT));
    assert_eq!(lock(UNIT + 4096, UNIT + 12288), Extent::new(UNIT, 2 * UNIT), "covered by the second");
}
