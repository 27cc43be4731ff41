//! The lock state machine under the model checker: no wake-up is lost, no lock with holds is freed (asserted by the
//! setter of the state and by the scripted layer), a cancellation is honoured once, nothing deadlocks.

use super::scripted::*;
use super::*;
use crate::object::Object;
use crate::sync::thread;
use crate::target::LockMode::Pw;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(run);
}

fn use_once(object: &Arc<Object>) {
    let env = env();
    let user = request(&env, object, &need(0, 4096, Pw)).expect("lock");
    assert!(user.lock().is_granted() && !user.lock().is_gone());
    user.release(&env);
}

/// Users and a canceller of one lock, and whoever answers the requests.
fn users_canceller_and_granter(users: usize, passive: bool, preemptions: usize) {
    model(preemptions, move || {
        let (site, script) = (site(), Script::manual());
        script.passive.store(passive, SeqCst);
        let object = bottom_object(&site, 1, &script);
        let lock = find(&env(), &object, &need(0, 4096, Pw)).expect("lock").lock().clone();
        let left = Arc::new(AtomicUsize::new(users));
        let user = |_| {
            let (object, script, left) = (object.object().clone(), script.clone(), left.clone());
            thread::spawn(move || {
                use_once(&object);
                if left.fetch_sub(1, SeqCst) == 1 {
                    script.close();
                }
            })
        };
        let users: Vec<_> = (0..users).map(user).collect();
        let canceller = {
            let lock = lock.clone();
            thread::spawn(move || lock.cancel(&env()))
        };
        while let Some(sent) = script.next() {
            sent.answer(Ok(None));
        }
        for user in users {
            user.join().expect("user");
        }
        assert_ne!(canceller.join().expect("canceller"), Retired::Already);
        assert!(lock.is_gone(), "the request to cancel was forgotten");
        assert_eq!(lock.counts(), (0, 0));
        assert!(object.locks().cancel_all(&env()).is_empty());
        // A lock whose maker found another in the list when it wanted to add it ends without cancellation.
        let [enqueued, cancelled, deleted] =
            [&script.enqueued, &script.cancelled, &script.deleted].map(|n| n.load(SeqCst));
        assert!(enqueued <= cancelled && cancelled <= deleted, "{enqueued} {cancelled} {deleted}");
    });
}

#[test]
fn loom_two_users_canceller_granter() {
    users_canceller_and_granter(2, false, 1);
}

#[test]
fn loom_two_users_canceller_granter_passive() {
    users_canceller_and_granter(2, true, 1);
}

#[test]
fn loom_user_canceller_granter() {
    users_canceller_and_granter(1, false, 2);
}

/// Users pass the gate of a cached lock while it is cancelled.
#[test]
fn loom_gate() {
    model(3, || {
        let (site, script) = (site(), Script::passive());
        let object = bottom_object(&site, 1, &script);
        let user = request(&env(), &object, &need(0, 4096, Pw)).expect("lock");
        let lock = user.lock().clone();
        drop(user);
        let users: Vec<_> = (0..2)
            .map(|_| {
                let object = object.object().clone();
                thread::spawn(move || {
                    if let Some(user) = object.locks().match_granted(&need(0, 4096, Pw)) {
                        assert!(user.lock().is_granted(), "a lock in use was freed");
                        drop(user);
                    }
                })
            })
            .collect();
        assert_ne!(lock.cancel(&env()), Retired::Already);
        for u in users {
            u.join().expect("user");
        }
        assert!(lock.is_gone());
        assert_eq!(script.cancelled.load(SeqCst), 1);
    });
}

/// A top-lock is asked for while its sub-lock is cancelled from below.
fn top_against_sub(passive: bool) {
    model(2, move || {
        let (site, script) = (site(), Script::passive());
        let (top, subs) = striped_object(&site, std::slice::from_ref(&script), passive, false);
        use_once(&top);
        let sub = subs[0].locks().all()[0].clone();
        let user = {
            let (top, sub_object) = (top.object().clone(), subs[0].object().clone());
            thread::spawn(move || {
                let user = request(&env(), &top, &need(0, 4096, Pw)).expect("lock");
                let granted = sub_object.locks().all().iter().any(|s| s.is_granted());
                assert!(granted, "a top-lock in use without its sub-lock");
                drop(user);
            })
        };
        assert_ne!(sub.cancel(&env()), Retired::Already);
        user.join().expect("user");
        assert!(sub.is_gone(), "the request to cancel was forgotten");
        assert_eq!(top.locks().len(), 1);
        assert!(subs[0].locks().cancel_all(&env()).is_empty());
        assert_eq!(script.cancelled.load(SeqCst), script.enqueued.load(SeqCst));
    });
}

#[test]
fn loom_top_against_sub() {
    top_against_sub(false);
}

#[test]
fn loom_top_against_sub_passive() {
    top_against_sub(true);
}
