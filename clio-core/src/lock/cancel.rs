//! The end of a lock: cancellation, destruction without it, and how parents hear of it.

use super::closure::LockClosure;
use super::header::LockGuard;
use super::{ExtentLock, LockDescr, LockState};
use crate::env::Env;
use std::sync::Arc;

/// What became of a request to cancel or destroy a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retired {
    /// The lock is gone.
    Now,
    /// The lock, or a parent of it, is in use: the last one to release it does what was asked.
    Later,
    /// Somebody else has done it, or is doing it.
    Already,
}

impl ExtentLock {
    /// Cancels the lock: when this returns [`Retired::Now`], what was dirty under it is written out, what was cached is
    /// dropped, and its target has it back. Blocks; the caller holds no mutex. A lock with holds is marked instead; it
    /// takes no new users, and is cancelled when the last hold goes.
    #[doc(alias = "cl_lock_cancel")]
    pub fn cancel(self: &Arc<Self>, env: &Env) -> Retired {
        self.request_end(env, |guard| guard.cancel_pending = true)
    }

    /// Destroys the lock without cancellation: its target has taken it (eviction), or its object goes and nothing is
    /// cached. What is cached under it is the caller's business. As [`ExtentLock::cancel`] otherwise.
    #[doc(alias = "cl_lock_delete")]
    pub fn discard(self: &Arc<Self>, env: &Env) -> Retired {
        self.request_end(env, |guard| guard.delete_pending = true)
    }

    /// Waits until the lock has no user. New users may come meanwhile and after. Blocks; the caller is no user.
    pub fn wait_idle(self: &Arc<Self>) {
        let mut guard = self.guard();
        guard.idle_waiters += 1;
        while guard.users > 0 {
            let seen = self.events.seen();
            drop(guard);
            self.events.sleep(seen);
            guard = self.guard();
        }
        guard.idle_waiters -= 1;
    }

    /// Waits until a lock that was cancelled or discarded, by whomever, is gone, its data written and dropped. Blocks;
    /// the caller has no hold of it.
    pub fn wait_gone(&self) {
        self.events.wait_finished();
    }

    /// Destroys a lock that protects nothing and that nobody has or asks for.
    pub(super) fn discard_if_void(self: &Arc<Self>, env: &Env) {
        self.request_end(env, |guard| {
            guard.delete_pending |= guard.state == LockState::New && guard.all_holds() == 0;
        });
    }

    /// Does what was asked for before, if nothing is in the way any more.
    pub(super) fn retire(self: &Arc<Self>, env: &Env) -> Retired {
        self.request_end(env, |_| {})
    }

    fn request_end(self: &Arc<Self>, env: &Env, mark: impl Fn(&mut LockGuard<'_>)) -> Retired {
        loop {
            let mut guard = self.guard();
            if guard.state == LockState::Freeing {
                return Retired::Already;
            }
            mark(&mut guard);
            if guard.all_holds() > 0 || !(guard.cancel_pending || guard.delete_pending) {
                return Retired::Later;
            }
            let parents = self.events.parents();
            match LockClosure::enclose(&parents) {
                Err(busy) => {
                    drop(guard);
                    drop(busy.guard());
                }
                Ok(mut closure) => {
                    if closure.await_use(self) {
                        return Retired::Later;
                    }
                    closure.renew();
                    drop(closure);
                    let descr = self.cut_off(guard);
                    self.finish(env, descr.as_ref());
                    return Retired::Now;
                }
            }
        }
    }

    /// First phase: the lock is not found any more. The description if the lock is to be cancelled.
    fn cut_off(self: &Arc<Self>, mut guard: LockGuard<'_>) -> Option<LockDescr> {
        let cancel = !guard.delete_pending;
        guard.set_state(LockState::Freeing);
        self.events.sever();
        if let Some(object) = self.weak_object().upgrade() {
            object.locks().remove(self);
        }
        cancel.then_some(guard.descr)
    }

    /// Second phase, without the mutex: the slices cancel and let go. The memory goes with the last pointer.
    pub(super) fn finish(self: &Arc<Self>, env: &Env, cancel: Option<&LockDescr>) {
        if let (Some(descr), Some(object)) = (cancel, self.weak_object().upgrade()) {
            for slice in self.slices().iter().rev() {
                slice.cancel(env, &object, self, descr);
            }
        }
        for slice in self.slices().iter().rev() {
            slice.delete(env, self);
        }
        self.events.finish();
    }
}
