//! What wakes those who wait for a lock: an event counter with a mutex of its own, innermost of all.
//!
//! Signals come from completions and ASTs, which may run while somebody holds the lock's mutex, so that a signal
//! must not need it. The parents of a sub-lock are kept here too: they are signalled along with it.

use super::ExtentLock;
use crate::lockrank::{LockRank, RankedMutex};
use crate::sync::Condvar;
use smallvec::SmallVec;
use std::sync::{Arc, Weak};

/// Locks found by walking the parents of a sub-lock.
pub(super) type Parents = SmallVec<[Arc<ExtentLock>; 2]>;

#[derive(Debug)]
struct State {
    /// Signals so far.
    count: u64,
    /// The lock is cut off from everything: no parent can be added.
    severed: bool,
    /// Nothing is left to do for the lock.
    finished: bool,
    parents: SmallVec<[Weak<ExtentLock>; 1]>,
}

#[derive(Debug)]
pub(super) struct Events {
    state: RankedMutex<State>,
    wake: Condvar,
}

impl Events {
    pub(super) fn new() -> Self {
        let state = State { count: 0, severed: false, finished: false, parents: SmallVec::new() };
        Self { state: RankedMutex::new(LockRank::Leaf, state), wake: Condvar::new() }
    }

    /// Signals so far: read before looking at what is waited for.
    pub(super) fn seen(&self) -> u64 {
        self.state.lock().count
    }

    /// Wakes all who sleep here and at the parents.
    pub(super) fn signal(&self) {
        let parents = {
            let mut state = self.state.lock();
            state.count += 1;
            upgrade(&state.parents)
        };
        self.wake.notify_all();
        for parent in parents {
            parent.signal();
        }
    }

    /// Sleeps until there was a signal after the `seen`th.
    pub(super) fn sleep(&self, seen: u64) {
        let mut state = self.state.lock();
        while state.count == seen {
            state = state.wait(&self.wake);
        }
    }

    /// Notes that nothing is left to do.
    pub(super) fn finish(&self) {
        self.state.lock().finished = true;
        self.signal();
    }

    /// Sleeps until [`Events::finish`].
    pub(super) fn wait_finished(&self) {
        let mut state = self.state.lock();
        while !state.finished {
            state = state.wait(&self.wake);
        }
    }

    pub(super) fn add_parent(&self, parent: &Arc<ExtentLock>) -> bool {
        let mut state = self.state.lock();
        if state.severed {
            return false;
        }
        state.parents.retain(|p| p.strong_count() > 0);
        if !state.parents.iter().any(|p| p.as_ptr() == Arc::as_ptr(parent)) {
            state.parents.push(Arc::downgrade(parent));
        }
        true
    }

    pub(super) fn remove_parent(&self, parent: &ExtentLock) {
        self.state.lock().parents.retain(|p| !std::ptr::eq(p.as_ptr(), parent));
    }

    pub(super) fn parents(&self) -> Parents {
        upgrade(&self.state.lock().parents)
    }

    /// Cuts the parents off for good.
    pub(super) fn sever(&self) {
        let mut state = self.state.lock();
        state.severed = true;
        state.parents.clear();
    }
}

fn upgrade(parents: &[Weak<ExtentLock>]) -> Parents {
    parents.iter().filter_map(Weak::upgrade).collect()
}
