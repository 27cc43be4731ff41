//! What a layer implements for extent locks.

use super::ExtentLock;
use super::later::Later;
use super::users::LockUser;
use crate::env::Env;
use crate::error::Result;
use crate::io::LockDemand;
use crate::object::Object;
use crate::target::{EnqueueFlags, LockMode};
use crate::units::Extent;
use std::sync::Arc;

/// What a lock is wanted for, and (once granted) what it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "cl_lock_descr")]
pub struct LockDescr {
    /// Block-aligned bytes of the lock's object.
    pub extent: Extent,
    /// Mode.
    pub mode: LockMode,
    /// How the enqueue behaves.
    pub flags: EnqueueFlags,
    /// How much coherence is asked for: decides whether a lower layer may go lockless.
    pub demand: LockDemand,
}

/// Outcome of a step of a lock's state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "cl_lock_transition")]
pub enum Step {
    /// The step is done.
    Done,
    /// An event must come first (a reply, an AST, another thread): the lock is signalled then; call again.
    Wait,
    /// A sub-lock's mutex was busy: let go of everything, and call again. The generic code does both, and waits for
    /// the mutex in between.
    Repeat,
}

/// What a lock slice is given. The lock's mutex is held, except in [`LockSlice::cancel`].
#[derive(Debug)]
pub struct LockCx<'a> {
    /// The environment.
    pub env: &'a Env,
    /// The lock.
    pub lock: &'a Arc<ExtentLock>,
    /// Its object.
    pub object: &'a Arc<Object>,
    /// Its description. A layer that is granted more than was asked widens `descr.extent` here; it goes back to what
    /// was asked for when the lock moves to New.
    pub descr: &'a mut LockDescr,
    pub(super) later: &'a mut Later,
}

impl LockCx<'_> {
    /// Releases the use of another lock as soon as no mutex is held: releasing it may cancel that lock, which blocks,
    /// and takes mutexes that must not be taken under this lock's.
    pub fn release_later(&mut self, user: LockUser) {
        self.later.release(user);
    }
}

/// A layer's part of an extent lock. The lock's mutex serialises all calls but `cancel`.
#[doc(alias = "cl_lock_operations")]
pub trait LockSlice: Send + Sync {
    /// Name of the layer.
    fn layer(&self) -> &'static str;

    /// Advance the enqueue (top to bottom, in Queuing). `Done` from all slices moves the lock to Enqueued; a slice that
    /// said so is not asked again.
    ///
    /// # Errors
    /// The error goes to all requesters (`EAGAIN` for a refused try-lock); the lock takes no more of them, and moves to
    /// Freeing when the last one has gone.
    fn enqueue(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        let _ = cx;
        Ok(Step::Done)
    }

    /// Wait for the grant (top to bottom, in Enqueued). `Done` from all slices moves the lock to Held.
    ///
    /// # Errors
    /// As [`LockSlice::enqueue`].
    fn wait(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        let _ = cx;
        Ok(Step::Done)
    }

    /// Take a cached lock into use again (top to bottom, in Cached). `Done` from all moves it to Held.
    ///
    /// # Errors
    /// The lock has to be enqueued anew: it moves to New, and `enqueue` is called next. What slices took so far stays
    /// with them.
    fn use_cached(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        let _ = cx;
        Ok(Step::Done)
    }

    /// The last user is gone (bottom to top, in Unlocking): release what was taken for it, users of sub-locks by
    /// [`LockCx::release_later`]. Also called when the users gave up before the grant.
    /// Returns whether the lock can be cached ([`Unused::Keep`]; means `Renew` for a lock that was not granted) or has
    /// nothing left that is worth it. The answer of most consequence counts.
    fn unuse(&self, cx: &mut LockCx<'_>) -> Unused {
        let _ = cx;
        Unused::Keep
    }

    /// Whether `use_cached` and `unuse` would have nothing to do now, so that a granted lock may be used and left
    /// without them, and without the lock's mutex. Asked under the mutex, whenever it is about to be released.
    ///
    /// A layer with sub-locks that says so holds no users of them: sub-locks are not cancelled while a parent is
    /// in use, whether or not they have holds.
    fn is_passive(&self) -> bool {
        false
    }

    /// Undo the protection (bottom to top): write out what is dirty under the lock, wait, discard pages, give the
    /// lock back to its target. The lock is in Freeing, has no holds, and its mutex is **not** held. Blocks.
    fn cancel(&self, env: &Env, object: &Arc<Object>, lock: &Arc<ExtentLock>, descr: &LockDescr) {
        let _ = (env, object, lock, descr);
    }

    /// The lock is in Freeing and no longer in its object's list: cut internal pointers, leave sub-locks' parents,
    /// release what is held of other locks (bottom to top; no mutex).
    fn delete(&self, env: &Env, lock: &Arc<ExtentLock>) {
        let _ = (env, lock);
    }

    /// Whether this lock, which covers `need`, may serve it (asked of every slice, under the mutex of the object's list
    /// of locks and perhaps the lock's: must not block).
    fn fits_into(&self, descr: &LockDescr, need: &LockDescr) -> bool {
        let _ = (descr, need);
        true
    }

    /// How much would be lost if the lock was cancelled now: 0 for one that is worth nothing (nothing cached or
    /// dirty under it).
    fn weigh(&self, env: &Env, object: &Arc<Object>, descr: &LockDescr) -> u64 {
        let _ = (env, object, descr);
        0
    }
}

/// What remains of a lock that nobody uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unused {
    /// It still protects its extent: cache it.
    Keep,
    /// Nothing is left of it (a sub-lock is gone): back to New.
    Renew,
    /// It must go as soon as its last hold is released (lockless, or a blocking AST came).
    Cancel,
}
