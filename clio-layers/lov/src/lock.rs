//! The LOV slice of a top-lock: a hint of which sub-locks exist.
//!
//! # Holding sub-locks
//! While it is asked for, and during its first use, a top-lock is a user of its sub-locks. Afterwards it is merely their
//! parent, which is as good: a sub-lock with a parent in use isn't cancelled before the last user of the parent has gone,
//! and its cancellation moves cached parents to New. So a cached top-lock can be used and left without a look at its
//! sub-locks, however many there are.
//!
//! # What it covers
//! With one stripe, as much as its sub-lock does, within the row of bytes that is the same in file and object: the stripe
//! unit, or all of a component with one stripe. With several, exactly what was asked for; regular IO isn't served by such
//! a lock ([`LockSlice::fits_into`]), as its users would all hold on to stripes that they have no use for, and keep other
//! clients from them. Most needs of a new top-lock are met by sub-locks in the cache, which makes it cheap.
//!
//! Where a component has no targets, nothing is locked, and the top-lock is good until the layout changes.

use crate::layout::FileLayout;
use crate::object::LovObject;
use crate::parts::Parts;
use clio_core::env::Env;
use clio_core::io::LockDemand;
use clio_core::lock::{ExtentLock, LockCx, LockDescr, LockSlice, Step, Unused};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::Object;
use clio_core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// Top-locks of an object beyond which idle ones are dropped.
pub(crate) const MAX_IDLE: usize = 64;
/// [`LovLock::hole_of`] of a lock that covers no hole.
const NO_HOLE: u64 = u64::MAX;

/// LOV's slice of a top-lock.
#[doc(alias = "lov_lock")]
pub(crate) struct LovLock {
    lov: Arc<LovObject>,
    /// Guarded by the lock's mutex, in effect: this one is never waited for.
    parts: RankedMutex<Parts>,
    /// Whether there are several stripes.
    is_multi: AtomicBool,
    /// The generation of the layout in which the extent touches a hole.
    hole_of: AtomicU64,
}

impl LovLock {
    pub(crate) fn new(lov: &Arc<LovObject>, descr: &LockDescr) -> Self {
        let striped = lov.snapshot();
        let slice = Self {
            lov: lov.clone(),
            parts: RankedMutex::new(LockRank::LockParts, Parts::default()),
            is_multi: AtomicBool::new(striped.layout().sub_extents(descr.extent).nth(1).is_some()),
            hole_of: AtomicU64::new(NO_HOLE),
        };
        slice.note_hole(striped.layout(), descr.extent);
        slice
    }

    /// Drops top-locks that nobody uses if there are many: they are only hints, and cheap to make.
    pub(crate) fn drop_idle(env: &Env, object: &Arc<Object>) {
        if object.locks().len() < MAX_IDLE {
            return;
        }
        for lock in object.locks().all().iter().filter(|l| l.counts() == (0, 0)) {
            lock.discard(env);
        }
    }

    fn note_hole(&self, layout: &FileLayout, extent: Extent) {
        let has_hole = layout.missing(extent).next().is_some();
        self.hole_of.store(if has_hole { layout.generation().0 } else { NO_HOLE }, Ordering::Release);
    }

    /// Whether the lock covers what was a hole when it was granted, and may not be one now.
    fn is_stale(&self) -> bool {
        let hole_of = self.hole_of.load(Ordering::Acquire);
        hole_of != NO_HOLE && hole_of != self.lov.change().generation().0
    }

    /// Whether one IO iteration needs `need` of more than one stripe.
    fn is_spread(&self, need: &LockDescr) -> bool {
        self.lov.snapshot().layout().stripe_end(need.extent.start).is_none_or(|end| end < need.extent.end)
    }
}

impl LockSlice for LovLock {
    fn layer(&self) -> &'static str {
        "lov"
    }

    fn enqueue(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        let mut parts = self.parts.lock();
        let generation = parts.plan(&self.lov, cx)?;
        self.is_multi.store(parts.len() > 1, Ordering::Release);
        let striped = self.lov.snapshot();
        if striped.layout().generation() == generation {
            self.note_hole(striped.layout(), cx.descr.extent);
        }
        match cx.descr.flags.try_lock || cx.descr.flags.glimpse {
            true => parts.take_at_once(cx, false),
            false => parts.take_in_order(cx),
        }
    }

    fn wait(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        let mut parts = self.parts.lock();
        let step = parts.take_at_once(cx, true)?;
        if step == Step::Done {
            parts.widen(self.lov.snapshot().layout(), cx.descr);
        }
        Ok(step)
    }

    /// The sub-locks are there, or the lock would be New by now.
    fn use_cached(&self, _: &mut LockCx<'_>) -> Result<Step> {
        match self.is_stale() {
            false => Ok(Step::Done),
            true => Err(Error::new(Errno::ESTALE, "lock", "a hole under the lock has been filled")),
        }
    }

    fn unuse(&self, cx: &mut LockCx<'_>) -> Unused {
        let mut parts = self.parts.lock();
        parts.release(cx);
        if parts.are_granted() { Unused::Keep } else { Unused::Renew }
    }

    fn is_passive(&self) -> bool {
        let parts = self.parts.lock();
        parts.are_unused() && !self.is_stale()
    }

    fn delete(&self, _: &Env, lock: &Arc<ExtentLock>) {
        let mut parts = std::mem::take(&mut *self.parts.lock());
        parts.leave(lock);
    }

    /// Mandatory and size needs (append, truncate, glimpse) take what they can get.
    fn fits_into(&self, _: &LockDescr, need: &LockDescr) -> bool {
        if self.is_stale() {
            return false;
        }
        let is_whole = need.flags.mandatory
            || need.flags.glimpse
            || need.demand == LockDemand::Mandatory
            || need.extent.end == Extent::EOF;
        !self.is_multi.load(Ordering::Acquire) || is_whole || self.is_spread(need)
    }
}
