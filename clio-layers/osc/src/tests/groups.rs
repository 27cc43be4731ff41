//! Group locks: clients that name the same group share them, all others wait, and none of them does without.

use super::script::Kind;
use super::*;
use clio_core::Errno;
use clio_core::io::LockDemand;
use clio_core::lock::{LockDescr, LockUser, request};
use clio_core::target::{EnqueueFlags, LockMode};
use clio_core::units::Extent;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Takes a lock on all of the file, waiting for it.
fn lock(file: &EchoFile, mode: LockMode) -> clio_core::Result<LockUser> {
    let flags = EnqueueFlags::default();
    let need = LockDescr { extent: Extent::WHOLE, mode, flags, demand: LockDemand::Maybe };
    request(&Env::get(EnvTags::IO), file.object(), &need)
}

/// Gives a lock back, as cancelling it does.
fn leave(client: &Client, user: LockUser) {
    let lock = user.lock().clone();
    drop(user);
    lock.cancel(&client.env);
}

#[test]
fn members_of_a_group_share_a_lock_and_others_wait_for_the_last() {
    let target = Setup::default().target();
    let clients: Vec<_> = (0..4).map(|_| Client::new(&target, config())).collect();
    let files: Vec<_> = clients.iter().map(|c| c.open(1)).collect();
    let [first, second] = [0, 1].map(|n| lock(&files[n], LockMode::Group(7)).expect("shared"));
    assert_eq!(target.inner.lock_counts().granted, 2, "at once, not after an eviction");
    let got = AtomicU64::new(0);
    std::thread::scope(|s| {
        // In turn, so that it's known who waits.
        for (n, mode) in [(2, LockMode::Group(8)), (3, LockMode::Pr)] {
            let (file, got) = (&files[n], &got);
            s.spawn(move || {
                let user = lock(file, mode).expect("in the end");
                got.fetch_add(1, SeqCst);
                drop(user);
            });
            eventually("it waits", || target.inner.lock_counts().waiting == n - 1);
        }
        leave(&clients[0], first);
        eventually("one lock of the group is left", || target.inner.lock_counts().granted == 1);
        assert_eq!((target.inner.lock_counts().waiting, got.load(SeqCst)), (2, 0), "the group still has it");
        leave(&clients[1], second);
    });
    assert_eq!(got.load(SeqCst), 2);
    drop(files);
    clients.into_iter().for_each(|c| c.end(&target));
}

/// Where the target would tell everybody else to do without a lock.
#[test]
fn a_group_lock_is_waited_for_where_others_go_lockless() {
    let dlm = DlmConfig { contended_locks: 0, ..DlmConfig::default() };
    let target = Setup { dlm, ..Setup::default() }.target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    let held = lock(&file, LockMode::Pw).expect("lock");
    drop(lock(&other, LockMode::Pw).expect("without a lock"));
    assert_eq!(d.device.stats().lockless, 1, "the object counts as contended");
    std::thread::scope(|s| {
        let waiting = s.spawn(|| lock(&other, LockMode::Group(7)).expect("a lock"));
        eventually("it waits", || target.inner.lock_counts().waiting == 1);
        drop(held);
        let user = waiting.join().expect("thread");
        assert!(user.lock().is_granted() && target.inner.lock_counts().granted == 1);
        drop(user);
    });
    assert_eq!(d.device.stats().lockless, 1);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

/// A target that refuses it all the same is asked again, and not taken at its word.
#[test]
fn a_group_lock_that_is_refused_is_insisted_on() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { resend_limit: 2, ..config() });
    let file = c.open(1);
    target.fail(Kind::Enqueue, Errno::EUSERS, 1);
    drop(lock(&file, LockMode::Group(7)).expect("at the second try"));
    assert_eq!(target.log(Kind::Enqueue).len(), 2);
    let refused = c.open(2);
    target.fail(Kind::Enqueue, Errno::EUSERS, 1000);
    assert_eq!(lock(&refused, LockMode::Group(7)).map(|_| ()).map_err(|e| e.errno()), Err(Errno::EPROTO));
    assert_eq!(c.device.stats().lockless, 0);
    target.fail_no_more();
    drop((file, refused));
    c.end(&target);
}
