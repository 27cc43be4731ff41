//! What a step must not do under a lock's mutex, and so leaves for when it is released.

use super::ExtentLock;
use super::users::LockUser;
use crate::env::Env;
use crate::sync::thread;
use smallvec::SmallVec;
use std::sync::Arc;

/// Work put off until no lock's mutex is held.
#[derive(Debug, Default)]
pub(super) struct Later {
    released: SmallVec<[LockUser; 2]>,
    busy: Option<Arc<ExtentLock>>,
}

impl Later {
    pub(super) fn release(&mut self, user: LockUser) {
        self.released.push(user);
    }

    /// Notes the lock whose mutex kept a step from going on.
    pub(super) fn busy(&mut self, lock: &Arc<ExtentLock>) {
        self.busy = Some(lock.clone());
    }

    /// Does it all. No mutex is held.
    pub(super) fn settle(&mut self, env: &Env) {
        for user in self.released.drain(..) {
            user.release(env);
        }
    }

    /// Waits until a step that said `Repeat` has a chance to go on. No mutex is held.
    pub(super) fn wait_busy(&mut self) {
        match self.busy.take() {
            Some(lock) => drop(lock.guard()),
            None => thread::yield_now(),
        }
    }
}
