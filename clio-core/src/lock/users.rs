//! Holds and users of a lock, as guards.

use super::header::LockGuard;
use super::later::Later;
use super::steps::Goal;
use super::{ExtentLock, LockCx, LockDescr, LockState, Step};
use crate::env::{Env, EnvTags};
use crate::error::Result;
use smallvec::SmallVec;
use std::sync::Arc;

/// Keeps a lock from being cancelled or destroyed: such requests are recorded, and honoured when the last hold goes.
///
/// Dropping the last hold may thus cancel the lock, which blocks: not under a mutex.
#[derive(Debug)]
#[doc(alias = "cll_holds")]
pub struct LockHold {
    lock: Arc<ExtentLock>,
}

impl LockHold {
    /// For a hold that was already counted.
    pub(super) fn counted(lock: Arc<ExtentLock>) -> Self {
        Self { lock }
    }

    /// The lock.
    pub fn lock(&self) -> &Arc<ExtentLock> {
        &self.lock
    }

    /// Adds a user, which carries a hold of its own.
    pub fn user(&self) -> LockUser {
        let mut guard = self.lock.guard();
        guard.users += 1;
        let descr = guard.descr;
        drop(guard);
        LockUser::counted(self.lock.clone(), descr)
    }
}

impl Drop for LockHold {
    fn drop(&mut self) {
        let mut guard = self.lock.guard();
        guard.holds -= 1;
        let due = is_due(&guard);
        drop(guard);
        if due {
            self.lock.retire(&Env::get(EnvTags::ANY));
        }
    }
}

/// The use of a lock: once the lock is Held, it stays so until the last user goes. Each user carries a hold.
///
/// Dropping the last user returns the lock to the cache, or cancels it if that was asked for meanwhile, which blocks:
/// not under a mutex; a slice that is called under a lock's mutex uses [`LockCx::release_later`].
#[derive(Debug)]
#[doc(alias = "cll_users")]
pub struct LockUser {
    lock: Arc<ExtentLock>,
    descr: LockDescr,
    left: bool,
}

impl LockUser {
    /// For a user that was already counted.
    #[inline]
    pub(super) fn counted(lock: Arc<ExtentLock>, descr: LockDescr) -> Self {
        Self { lock, descr, left: false }
    }

    /// The lock.
    #[inline]
    pub fn lock(&self) -> &Arc<ExtentLock> {
        &self.lock
    }

    /// What the lock covers, once a step of this user said that it is Held; before, what it asks for.
    #[inline]
    pub fn descr(&self) -> &LockDescr {
        &self.descr
    }

    /// For a slice of a top-lock, under its mutex: advances this sub-lock until it is asked for at its target
    /// (Enqueued or Held). Several sub-locks may be on their way at once: that is how to enqueue in parallel.
    ///
    /// `Wait`: this sub-lock's next signal wakes those who wait for the top-lock, its parent ([`ExtentLock::add_parent`]
    /// comes first). `Repeat`: its mutex is busy; return it from the slice.
    ///
    /// # Errors
    /// Why the lock can't be had; this user is then of no more use.
    pub fn enqueue_try(&mut self, cx: &mut LockCx<'_>) -> Result<Step> {
        self.step_try(cx, Goal::Enqueued)
    }

    /// As [`LockUser::enqueue_try`], but until the sub-lock is Held: enqueues one not enqueued, waits for its grant,
    /// takes a cached one into use.
    ///
    /// # Errors
    /// As [`LockUser::enqueue_try`].
    pub fn hold_try(&mut self, cx: &mut LockCx<'_>) -> Result<Step> {
        self.step_try(cx, Goal::Held)
    }

    fn step_try(&mut self, cx: &mut LockCx<'_>, goal: Goal) -> Result<Step> {
        let Some(mut guard) = self.lock.try_guard() else {
            cx.later.busy(&self.lock);
            return Ok(Step::Repeat);
        };
        let step = guard.advance(cx.env, cx.later, goal)?;
        self.descr = guard.descr;
        Ok(step)
    }

    /// One step towards Held, without sleeping: for whoever has several locks on their way at once.
    ///
    /// # Errors
    /// As [`LockUser::hold`].
    pub fn step(&mut self, env: &Env) -> Result<Step> {
        let mut later = Later::default();
        let step = self.step_in(env, &mut later);
        later.settle(env);
        step
    }

    fn step_in(&mut self, env: &Env, later: &mut Later) -> Result<Step> {
        let mut guard = self.lock.guard();
        let step = guard.advance(env, later, Goal::Held)?;
        self.descr = guard.descr;
        Ok(step)
    }

    /// Enqueues the lock if need be, helping whoever does so too, and waits until it is Held. Blocks. This is the one
    /// place where threads sleep for a lock.
    ///
    /// # Errors
    /// Why the lock can't be had.
    #[doc(alias = "cl_enqueue")]
    #[doc(alias = "cl_wait")]
    pub fn hold(&mut self, env: &Env) -> Result<()> {
        loop {
            let seen = self.lock.events.seen();
            let mut later = Later::default();
            let step = self.step_in(env, &mut later);
            later.settle(env);
            match step? {
                Step::Done => return Ok(()),
                Step::Wait => self.lock.events.sleep(seen),
                Step::Repeat => later.wait_busy(),
            }
        }
    }

    /// Releases the use, with an environment at hand; dropping does the same with one from the pool.
    #[doc(alias = "cl_unuse")]
    #[inline]
    pub fn release(mut self, env: &Env) {
        self.left = true;
        if !self.lock.gate.leave() {
            leave(&self.lock, env);
        }
    }
}

impl Drop for LockUser {
    #[inline]
    fn drop(&mut self) {
        if !self.left && !self.lock.gate.leave() {
            leave(&self.lock, &Env::get(EnvTags::ANY));
        }
    }
}

#[cfg(test)]
impl ExtentLock {
    /// For a slice of a top-lock of the tests, under its mutex: adds a user to this sub-lock. `None` if its mutex is busy: the slice
    /// returns [`Step::Repeat`].
    ///
    /// # Errors
    /// `ESTALE` if the lock takes no more users: the slice finds another with [`find_user_try`](super::find_user_try).
    pub(super) fn user_try(self: &Arc<Self>, cx: &mut LockCx<'_>) -> Result<Option<LockUser>> {
        let Some(mut guard) = self.try_guard() else {
            cx.later.busy(self);
            return Ok(None);
        };
        if guard.is_doomed() || guard.state == LockState::Freeing {
            return Err(guard.vanished());
        }
        guard.users += 1;
        let descr = guard.descr;
        drop(guard);
        self.touch();
        Ok(Some(LockUser::counted(self.clone(), descr)))
    }
}

/// Takes a user away where the gate is closed: does what is due if it was the last.
#[cold]
fn leave(lock: &Arc<ExtentLock>, env: &Env) {
    let mut later = Later::default();
    let mut guard = lock.guard();
    guard.users -= 1;
    let mut subs = SmallVec::new();
    if guard.users == 0 {
        guard.unuse(env, &mut later);
        subs = std::mem::take(&mut guard.subs_waiting);
        if guard.idle_waiters > 0 {
            lock.signal();
        }
    }
    let due = is_due(&guard);
    drop(guard);
    later.settle(env);
    for sub in subs {
        sub.retire(env);
    }
    if due {
        lock.retire(env);
    }
}

/// Whether the last hold has gone from a lock that is to be cancelled or destroyed.
fn is_due(guard: &LockGuard<'_>) -> bool {
    guard.all_holds() == 0 && (guard.cancel_pending || guard.delete_pending) && guard.state != LockState::Freeing
}
