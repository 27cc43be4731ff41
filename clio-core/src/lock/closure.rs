//! Lock closures: the mutexes of several locks, taken against the lock order and so all or none.

use super::events::Parents;
use super::header::LockGuard;
use super::{ExtentLock, LockState};
use smallvec::SmallVec;
use std::sync::Arc;

/// Holds the mutexes of all top-locks of a sub-lock whose mutex is held too.
#[doc(alias = "cl_lock_closure")]
pub(super) struct LockClosure<'a> {
    guards: SmallVec<[LockGuard<'a>; 2]>,
}

impl<'a> LockClosure<'a> {
    /// Takes all mutexes without waiting. If one is busy, none is kept, and its lock is the error: the caller releases
    /// what else it holds, waits for that mutex, and tries again.
    pub(super) fn enclose(locks: &'a Parents) -> Result<Self, &'a Arc<ExtentLock>> {
        let mut guards = SmallVec::new();
        for lock in locks {
            guards.push(lock.try_guard().ok_or(lock)?);
        }
        Ok(Self { guards })
    }

    /// Whether a lock of the closure is in use; if so, it retires `sub` at its last release, and takes no new users
    /// until then, so that others' use doesn't keep the sub-lock for ever.
    pub(super) fn await_use(&mut self, sub: &Arc<ExtentLock>) -> bool {
        let in_use = self.guards.iter_mut().find(|g| g.state == LockState::Held && g.users > 0);
        let Some(guard) = in_use else { return false };
        if !guard.subs_waiting.iter().any(|s| Arc::ptr_eq(s, sub)) {
            guard.subs_waiting.push(sub.clone());
        }
        true
    }

    /// Cached locks of the closure are not complete any more: they move to New.
    pub(super) fn renew(&mut self) {
        for guard in self.guards.iter_mut().filter(|g| g.state == LockState::Cached) {
            guard.set_state(LockState::New);
        }
    }
}
