use super::scripted::*;
use super::*;
use crate::error::{Errno, Error};
use crate::sync::thread;
use crate::target::LockMode::{Pr, Pw};
use crate::units::{Extent, Fid};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn a_cached_lock_is_used_again_and_cancelled_when_idle() {
    for script in [Script::passive(), Arc::new(Script::default())] {
        let (site, env) = (site(), env());
        let object = bottom_object(&site, 1, &script);
        let user = request(&env, &object, &need(0, 8192, Pw)).expect("lock");
        let lock = user.lock().clone();
        assert_eq!((lock.state(), lock.counts()), (LockState::Held, (1, 1)));
        user.release(&env);
        assert_eq!((lock.state(), lock.counts()), (LockState::Cached, (0, 0)));

        let again = request(&env, &object, &need(4096, 8192, Pr)).expect("lock");
        assert!(Arc::ptr_eq(again.lock(), &lock), "PW serves PR");
        assert_eq!(lock.state(), LockState::Held);
        assert_eq!(lock.cancel(&env), Retired::Later);
        assert!(lock.is_doomed() && lock.is_granted() && !object.locks().is_covered(Extent::new(0, 1), Pr));
        let other = request(&env, &object, &need(4096, 8192, Pr)).expect("lock");
        assert!(!Arc::ptr_eq(other.lock(), &lock), "a lock that is to be cancelled takes no new users");
        assert_eq!(script.cancelled.load(SeqCst), 0);
        drop(again);
        assert!(lock.is_gone());
        assert_eq!(script.cancelled.load(SeqCst), 1);
        assert_eq!(lock.cancel(&env), Retired::Already);
        lock.wait_gone();
        drop(other);
        assert!(object.locks().cancel_all(&env).is_empty());
        assert_eq!((script.cancelled.load(SeqCst), script.deleted.load(SeqCst)), (2, 2));
        assert!(object.locks().is_empty());
        assert_eq!(Arc::strong_count(&lock), 1, "nobody else has a pointer");
    }
}

#[test]
fn a_hold_keeps_from_freeing_and_discard_does_not_cancel() {
    let (site, env, script) = (site(), env(), Script::passive());
    let object = bottom_object(&site, 1, &script);
    let hold = find(&env, &object, &need(0, 4096, Pw)).expect("lock");
    assert_eq!((hold.lock().state(), hold.lock().counts()), (LockState::New, (0, 1)));
    let mut user = hold.user();
    assert_eq!(hold.lock().counts(), (1, 2));
    user.hold(&env).expect("granted");
    user.release(&env);
    let lock = hold.lock().clone();
    assert_eq!(lock.discard(&env), Retired::Later);
    assert_eq!(lock.state(), LockState::Cached);
    drop(hold);
    assert!(lock.is_gone());
    assert_eq!((script.cancelled.load(SeqCst), script.deleted.load(SeqCst)), (0, 1));
}

#[test]
fn a_second_requester_helps_and_both_are_woken() {
    let (site, script) = (site(), Script::manual());
    let object = bottom_object(&site, 1, &script);
    let request_in_thread = |start| {
        let object = object.object().clone();
        thread::spawn(move || {
            let user = request(&env(), &object, &need(start, 8192, Pw)).expect("lock");
            (user.lock().id(), user.descr().extent)
        })
    };
    let first = request_in_thread(0);
    let sent = script.next().expect("enqueued");
    let second = request_in_thread(4096);
    while object.locks().all()[0].counts().0 < 2 {
        thread::yield_now();
    }
    sent.answer(Ok(Some(Extent::WHOLE)));
    assert_eq!(first.join().expect("first"), second.join().expect("second"));
    script.close();
    assert!(script.next().is_none(), "one request was sent for both");
    assert!(object.locks().is_covered(Extent::new(1 << 40, 1 << 41), Pr), "the list knows what was granted");
}

#[test]
fn a_failure_reaches_every_requester_and_frees_the_lock() {
    let (site, env, script) = (site(), env(), Script::manual());
    let object = bottom_object(&site, 1, &script);
    let mut user = find_user(&env, &object, &need(0, 4096, Pw)).expect("lock");
    let mut joined = find_user(&env, &object, &need(0, 4096, Pw)).expect("lock");
    assert!(Arc::ptr_eq(user.lock(), joined.lock()));
    assert_eq!(user.step(&env).expect("step"), Step::Wait);
    script.next().expect("sent").answer(Err(Error::new(Errno::EAGAIN, "enqueue", "busy")));
    assert_eq!(user.hold(&env).expect_err("refused").errno(), Errno::EAGAIN);
    assert_eq!(joined.hold(&env).expect_err("refused").errno(), Errno::EAGAIN);
    let lock = user.lock().clone();
    drop(user);
    assert!(!lock.is_gone() && lock.is_doomed());
    drop(joined);
    assert!(lock.is_gone() && object.locks().is_empty());
    // A joiner asks anew for itself.
    script.manual.store(false, SeqCst);
    request(&env, &object, &need(0, 4096, Pw)).expect("lock");
}

#[test]
fn giving_up_before_the_grant_leaves_nothing() {
    let (site, env, script) = (site(), env(), Script::manual());
    let object = bottom_object(&site, 1, &script);
    let mut user = find_user(&env, &object, &need(0, 4096, Pw)).expect("lock");
    assert_eq!(user.step(&env).expect("step"), Step::Wait);
    drop(user);
    assert!(object.locks().is_empty());
    assert_eq!((script.cancelled.load(SeqCst), script.deleted.load(SeqCst)), (1, 1));
}

#[test]
fn a_lock_that_cancels_itself_goes_with_its_last_user() {
    let (site, env, script) = (site(), env(), Arc::new(Script::default()));
    script.self_cancel.store(true, SeqCst);
    let object = bottom_object(&site, 1, &script);
    let (a, b) = (request(&env, &object, &need(0, 4096, Pw)), request(&env, &object, &need(0, 4096, Pw)));
    drop(a.expect("lock"));
    assert_eq!(object.locks().len(), 1);
    drop(b.expect("lock"));
    assert_eq!((object.locks().len(), script.cancelled.load(SeqCst)), (0, 1));
}

#[test]
fn a_cached_lock_that_cannot_be_used_is_enqueued_anew() {
    let (site, env, script) = (site(), env(), Arc::new(Script::default()));
    let object = bottom_object(&site, 1, &script);
    let lock = request(&env, &object, &need(0, 4096, Pw)).expect("lock").lock().clone();
    assert_eq!(lock.state(), LockState::Cached);
    script.fail_use.store(true, SeqCst);
    let user = request(&env, &object, &need(0, 4096, Pw)).expect("lock");
    assert!(Arc::ptr_eq(user.lock(), &lock));
    assert_eq!((lock.state(), script.used.load(SeqCst)), (LockState::Held, 1));
}

#[test]
fn a_cancelled_sub_lock_sends_its_parents_to_new() {
    for passive in [false, true] {
        let (site, env) = (site(), env());
        let scripts = [Script::passive(), Script::passive()];
        let (top, subs) = striped_object(&site, &scripts, passive, false);
        let n = need(0, 4096, Pw);
        let lock = request(&env, &top, &n).expect("lock").lock().clone();
        let sub = subs[0].locks().all()[0].clone();
        assert_eq!((lock.state(), sub.state()), (LockState::Cached, LockState::Cached));
        assert_eq!(sub.cancel(&env), Retired::Now);
        assert_eq!(lock.state(), LockState::New);

        let user = request(&env, &top, &n).expect("lock");
        assert!(Arc::ptr_eq(user.lock(), &lock), "it is only a hint, but kept");
        assert_eq!(lock.state(), LockState::Held);
        assert_eq!(scripts[0].enqueued.load(SeqCst), 2);
        assert_eq!(scripts[1].enqueued.load(SeqCst), 1, "the other sub-lock was still there");
        drop(user);
        assert_eq!(lock.cancel(&env), Retired::Now);
        assert!(!subs[0].locks().is_empty(), "sub-locks go on their own");
        assert!(subs[0].locks().cancel_all(&env).is_empty());
        assert_eq!(Arc::strong_count(&lock), 1);
    }
}

/// Otherwise a read asks for the write lock that its client had before, and takes it away from other readers.
#[test]
fn a_lost_lock_is_not_asked_for_again_by_who_needs_less() {
    let (site, env) = (site(), env());
    let (top, subs) = striped_object(&site, &[Script::passive()], true, false);
    let lost = request(&env, &top, &need(0, 8192, Pw)).expect("lock").lock().clone();
    for (start, end, mode) in [(0, 8192, Pr), (0, 4096, Pw), (4096, 8192, Pr)] {
        assert!(subs[0].locks().cancel_all(&env).is_empty());
        assert_eq!(lost.state(), LockState::New);
        let user = request(&env, &top, &need(start, end, mode)).expect("lock");
        assert!(!Arc::ptr_eq(user.lock(), &lost));
        let descr = *user.descr();
        assert_eq!((descr.extent, descr.mode), (Extent::new(start, end), mode));
    }
}

#[test]
fn a_sub_lock_under_a_top_lock_in_use_goes_at_the_last_release() {
    for passive in [false, true] {
        let (site, env) = (site(), env());
        let script = Script::passive();
        let (top, subs) = striped_object(&site, std::slice::from_ref(&script), passive, false);
        let n = need(0, 4096, Pw);
        drop(request(&env, &top, &n).expect("lock"));
        let user = request(&env, &top, &n).expect("lock");
        let sub = subs[0].locks().all()[0].clone();
        assert_eq!(sub.counts().0, u32::from(!passive), "a passive top-lock takes no users of sub-locks");
        assert_eq!(sub.cancel(&env), Retired::Later);
        assert_eq!(sub.cancel(&env), Retired::Later);
        assert!(sub.is_granted() && script.cancelled.load(SeqCst) == 0);
        let lock = user.lock().clone();
        drop(user);
        assert!(sub.is_gone());
        assert_eq!((lock.state(), script.cancelled.load(SeqCst)), (LockState::New, 1));
        let again = request(&env, &top, &n).expect("lock");
        assert!(Arc::ptr_eq(again.lock(), &lock));
    }
}

#[test]
fn sub_locks_are_enqueued_in_turn_or_at_once() {
    for parallel in [false, true] {
        let (site, env) = (site(), env());
        let scripts = [Script::manual(), Script::manual()];
        let (top, _subs) = striped_object(&site, &scripts, false, parallel);
        let mut user = find_user(&env, &top, &need(0, 4096, Pw)).expect("lock");
        assert_eq!(user.step(&env).expect("step"), Step::Wait);
        assert_eq!(scripts[0].enqueued.load(SeqCst), 1);
        assert_eq!(scripts[1].enqueued.load(SeqCst), usize::from(parallel));
        let waiter = thread::spawn(move || user.hold(&super::scripted::env()).map(|()| user));
        scripts[0].next().expect("first").answer(Ok(None));
        scripts[1].next().expect("second").answer(Ok(None));
        let user = waiter.join().expect("waiter").expect("granted");
        assert_eq!(user.lock().state(), LockState::Held);
    }
}

#[test]
fn a_stripe_that_fails_lets_go_of_the_others() {
    let (site, env) = (site(), env());
    let scripts = [Script::manual(), Script::manual()];
    let (top, subs) = striped_object(&site, &scripts, false, true);
    let mut user = find_user(&env, &top, &need(0, 4096, Pw)).expect("lock");
    assert_eq!(user.step(&env).expect("step"), Step::Wait);
    scripts[0].next().expect("sent").answer(Ok(None));
    scripts[1].next().expect("sent").answer(Err(Error::new(Errno::EIO, "enqueue", "broken")));
    assert_eq!(user.hold(&env).expect_err("fails").errno(), Errno::EIO);
    drop(user);
    assert!(top.locks().is_empty() && subs[1].locks().is_empty());
    let kept = subs[0].locks().all();
    assert_eq!((kept.len(), kept[0].state(), kept[0].counts()), (1, LockState::Cached, (0, 0)));
}

#[test]
fn kms_questions_and_ages() {
    let (site, env, script) = (site(), env(), Script::passive());
    let object = bottom_object(&site, 1, &script);
    let lock = |s, e| request(&env, &object, &need(s, e, Pr)).expect("lock").lock().clone();
    let (a, b) = (lock(0, 8192), lock(8192, 16384));
    assert_eq!(object.locks().max_end_of_other_granted(&b), 8192);
    assert_eq!(object.locks().max_end_of_other_granted(&a), 16384);
    let seen = object.locks().overlapping(Extent::new(0, 4096));
    assert_eq!(seen.iter().map(|l| l.id()).collect::<Vec<_>>(), [a.id()]);
    assert_eq!(object.locks().overlapping(Extent::new(8191, 8193)).len(), 2);
    assert_eq!(object.locks().covered_around(9000, Pr), Some(Extent::new(8192, 16384)));
    assert_eq!(object.locks().covered_around(9000, Pw), None);
    let age = ExtentLock::advance_age();
    assert!(a.last_used() < age);
    drop(lock(0, 4096));
    assert!(a.last_used() >= age && b.last_used() < age);
}

#[test]
fn locks_that_protect_nothing_do_not_gather() {
    let (site, env) = (site(), env());
    let (top, subs) = striped_object(&site, &[Script::passive()], true, false);
    for at in 0..300 {
        drop(request(&env, &top, &need(at * 4096, (at + 1) * 4096, Pw)).expect("lock"));
        assert!(subs[0].locks().cancel_all(&env).is_empty());
    }
    assert!(top.locks().len() <= 64, "{}", top.locks().len());
}

#[test]
fn wait_idle_waits_for_users_that_pass_the_gate() {
    let (site, env, script) = (site(), env(), Script::passive());
    let object = bottom_object(&site, 1, &script);
    drop(request(&env, &object, &need(0, 4096, Pw)).expect("lock"));
    let user = request(&env, &object, &need(0, 4096, Pw)).expect("lock");
    let lock = user.lock().clone();
    let waiter = thread::spawn(move || lock.wait_idle());
    drop(user);
    waiter.join().expect("waiter");
}

#[test]
fn a_lockset_merges_sorts_and_leaves_nothing_behind() {
    let (site, env, script) = (site(), env(), Script::passive());
    let (a, b) = (bottom_object(&site, 2, &script), bottom_object(&site, 1, &script));
    let mut set = LockSet::default();
    set.add(&a, need(0, 4096, Pr));
    set.add(&b, need(0, 4096, Pr));
    set.add(&a, need(8192, 12288, Pw));
    set.acquire(&env).expect("locks");
    assert_eq!((a.locks().len(), b.locks().len()), (1, 1));
    assert!(b.locks().all()[0].id() < a.locks().all()[0].id(), "taken in the order of FIDs");
    assert!(set.covers(a.fid(), Extent::new(0, 12288), Pw) && !set.covers(b.fid(), Extent::new(0, 1), Pw));
    assert!(!set.covers(Fid::new(9, 9), Extent::new(0, 1), Pr));
    set.release(&env);
    assert!(set.is_empty());
    assert_eq!(a.locks().all()[0].counts(), (0, 0));

    let broken = Script::manual();
    let c = bottom_object(&site, 3, &broken);
    set.add(&c, need(0, 4096, Pr));
    set.add(&a, need(0, 4096, Pr));
    let answerer = thread::spawn(move || {
        broken.next().expect("sent").answer(Err(Error::new(Errno::EIO, "enqueue", "broken")));
    });
    assert_eq!(set.acquire(&env).expect_err("fails").errno(), Errno::EIO);
    answerer.join().expect("answerer");
    assert!(set.is_empty() && c.locks().is_empty());
    assert_eq!(a.locks().all()[0].counts(), (0, 0));
}

#[test]
fn try_locks_of_a_set_are_asked_for_at_once() {
    let (site, env) = (site(), env());
    let scripts = [Script::manual(), Script::manual()];
    let objects = [bottom_object(&site, 1, &scripts[0]), bottom_object(&site, 2, &scripts[1])];
    let mut set = LockSet::default();
    for object in &objects {
        let mut n = need(0, 4096, Pr);
        n.flags.try_lock = true;
        set.add(object, n);
    }
    let [first, second] = scripts;
    // The second is answered before the first: with one after another, this would never end.
    let answerer = thread::spawn(move || {
        second.next().expect("sent").answer(Ok(None));
        first.next().expect("sent").answer(Ok(None));
    });
    set.acquire(&env).expect("locks");
    answerer.join().expect("answerer");
    set.release(&env);
}

#[test]
fn many_threads_share_and_lose_locks() {
    let (site, script) = (site(), Script::passive());
    let (top, subs) = striped_object(&site, std::slice::from_ref(&script), true, false);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let (top, sub) = (top.object().clone(), subs[0].object().clone());
            thread::spawn(move || {
                let env = super::scripted::env();
                for round in 0..500u64 {
                    if n == 0 {
                        sub.locks().cancel_all(&env);
                        continue;
                    }
                    let start = (round * n) % 7 * 4096;
                    let user = request(&env, &top, &need(start, start + 8192, Pw)).expect("lock");
                    let covered = sub.locks().overlapping(user.descr().extent).iter().any(|l| l.is_granted());
                    assert!(covered, "a top-lock in use without a sub-lock");
                }
            })
        })
        .collect();
    for t in threads {
        t.join().expect("thread");
    }
    assert!(subs[0].locks().cancel_all(&env()).is_empty());
    assert_eq!(script.enqueued.load(SeqCst), script.cancelled.load(SeqCst));
}
