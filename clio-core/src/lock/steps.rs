//! The steps of the state machine, under the lock's mutex: each walks the slices and moves on when all are done.

use super::header::LockGuard;
use super::later::Later;
use super::{LockCx, LockSlice, LockState, Step, Unused};
use crate::env::Env;
use crate::error::{Errno, Error, Result};

/// How far a lock is to be advanced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// Asked for everywhere.
    Enqueued,
    /// Granted.
    Held,
}

impl LockGuard<'_> {
    /// Advances the lock towards `goal` as far as that goes without sleeping. The caller has a user of the lock.
    pub(super) fn advance(&mut self, env: &Env, later: &mut Later, goal: Goal) -> Result<Step> {
        debug_assert!(self.users > 0, "a lock is advanced on behalf of a user");
        loop {
            if let Some(e) = &self.error {
                return Err(e.clone());
            }
            let (step, next) = match self.state {
                LockState::New => {
                    self.set_state(LockState::Queuing);
                    continue;
                }
                LockState::Queuing => (self.walk(env, later, |s, cx| s.enqueue(cx)), LockState::Enqueued),
                LockState::Enqueued if goal == Goal::Enqueued => return Ok(Step::Done),
                LockState::Enqueued => (self.walk(env, later, |s, cx| s.wait(cx)), LockState::Held),
                LockState::Cached => {
                    let step = self.walk(env, later, |s, cx| s.use_cached(cx));
                    if let Err(e) = step {
                        tracing::debug!(target: "clio::lock", id = self.lock.id().0, error = %e, "enqueued anew");
                        self.set_state(LockState::New);
                        continue;
                    }
                    (step, LockState::Held)
                }
                LockState::Held => return Ok(Step::Done),
                LockState::Unlocking | LockState::Freeing => return Err(self.vanished()),
            };
            match step {
                Ok(Step::Done) => self.set_state(next),
                Ok(step) => return Ok(step),
                Err(e) => return Err(self.fail(e)),
            }
        }
    }

    /// Calls each slice that isn't done with this step, top to bottom.
    fn walk(
        &mut self,
        env: &Env,
        later: &mut Later,
        call: impl Fn(&dyn LockSlice, &mut LockCx<'_>) -> Result<Step>,
    ) -> Result<Step> {
        let lock = self.lock;
        let object = lock.object()?;
        while let Some(slice) = lock.slices().get(self.progress) {
            let mut cx = LockCx { env, lock, object: &object, descr: &mut self.descr, later };
            match call(slice.as_ref(), &mut cx)? {
                Step::Done => self.progress += 1,
                step => return Ok(step),
            }
        }
        Ok(Step::Done)
    }

    /// The lock can't be had: all who wait for it get the error, and it goes with the last of them.
    fn fail(&mut self, e: Error) -> Error {
        let e = e.on(self.lock.fid());
        tracing::debug!(target: "clio::lock", id = self.lock.id().0, error = %e, "not granted");
        self.error = Some(e.clone());
        self.cancel_pending = true;
        self.lock.signal();
        e
    }

    pub(super) fn vanished(&self) -> Error {
        Error::new(Errno::ESTALE, "lock", "the lock was cancelled while it was asked for; ask again")
            .on(self.lock.fid())
    }

    /// The last user has gone: the slices release what they took for it (bottom to top), if it got that far.
    pub(super) fn unuse(&mut self, env: &Env, later: &mut Later) {
        debug_assert_eq!(self.users, 0);
        let granted = match self.state {
            LockState::Queuing | LockState::Enqueued => false,
            LockState::Held => true,
            _ => return,
        };
        self.set_state(LockState::Unlocking);
        let (keep, cancel) = self.unuse_slices(env, later);
        self.cancel_pending |= cancel;
        self.set_state(if keep && granted { LockState::Cached } else { LockState::New });
    }

    /// Whether all slices keep the lock, and whether one wants it cancelled.
    fn unuse_slices(&mut self, env: &Env, later: &mut Later) -> (bool, bool) {
        let lock = self.lock;
        let Ok(object) = lock.object() else { return (false, true) };
        let (mut keep, mut cancel) = (true, false);
        for slice in lock.slices().iter().rev() {
            let mut cx = LockCx { env, lock, object: &object, descr: &mut self.descr, later };
            match slice.unuse(&mut cx) {
                Unused::Keep => {}
                Unused::Renew => keep = false,
                Unused::Cancel => cancel = true,
            }
        }
        (keep, cancel)
    }
}
