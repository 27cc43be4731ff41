//! The sub-locks of a top-lock.

use crate::layout::{FileLayout, LayoutGeneration, Location, StripeRef};
use crate::object::LovObject;
use clio_core::lock::{ExtentLock, LockCx, LockDescr, LockUser, Step, find_user_try};
use clio_core::object::Object;
use clio_core::units::{Extent, MAX_FILE_SIZE};
use clio_core::{Errno, Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// How often a sub-lock that others lost is asked for anew.
const MAX_ATTEMPTS: usize = 16;

/// One stripe of a top-lock.
pub(crate) struct Part {
    at: StripeRef,
    object: Arc<Object>,
    /// What is needed of the stripe, in bytes of its object.
    extent: Extent,
    /// The sub-lock, of which the top-lock is a parent.
    lock: Option<Arc<ExtentLock>>,
    /// The use of it, while it is being asked for and until the top-lock's first use is over.
    user: Option<LockUser>,
    /// Why it can't be had.
    error: Option<Error>,
    attempts: usize,
}

/// The parts of a top-lock, in order of FIDs.
#[derive(Default)]
pub(crate) struct Parts {
    parts: SmallVec<[Part; 1]>,
    planned: Option<LayoutGeneration>,
    /// Parts before this one are held.
    next: usize,
}

impl Parts {
    /// Decides which sub-locks are needed, if the layout changed since that was last done. What there is of them stays.
    ///
    /// # Errors
    /// As [`LovObject::sub`].
    pub(crate) fn plan(&mut self, lov: &LovObject, cx: &LockCx<'_>) -> Result<LayoutGeneration> {
        let striped = lov.snapshot();
        let generation = striped.layout().generation();
        if self.planned == Some(generation) {
            return Ok(generation);
        }
        let mut old = std::mem::take(&mut self.parts);
        let mut planned = Ok(());
        for sub in striped.layout().sub_extents(cx.descr.extent) {
            if let Some(have) = old.iter().position(|p| p.at == sub.at) {
                self.parts.push(old.remove(have));
                continue;
            }
            match lov.sub(cx.env, &striped, sub.at) {
                Ok(object) => self.parts.push(Part::new(sub.at, object, sub.object)),
                Err(e) => planned = Err(e),
            }
        }
        self.next = 0;
        planned?;
        self.planned = Some(generation);
        Ok(generation)
    }

    /// Takes one sub-lock after another, each held before the next is asked for: two top-locks that did otherwise could
    /// wait for each other.
    ///
    /// # Errors
    /// Why a sub-lock can't be had.
    pub(crate) fn take_in_order(&mut self, cx: &mut LockCx<'_>) -> Result<Step> {
        while let Some(part) = self.parts.get_mut(self.next) {
            match part.advance(cx, LockUser::hold_try)? {
                Step::Done => self.next += 1,
                step => return Ok(step),
            }
        }
        Ok(Step::Done)
    }

    /// Asks for all sub-locks at once, and waits for all if `held`. Nothing waits for a conflict here.
    ///
    /// # Errors
    /// Why a sub-lock can't be had, once all others were answered: each answer to a glimpse is wanted.
    pub(crate) fn take_at_once(&mut self, cx: &mut LockCx<'_>, held: bool) -> Result<Step> {
        let step = if held { LockUser::hold_try } else { LockUser::enqueue_try };
        let mut sum = Step::Done;
        for part in self.parts.iter_mut().filter(|p| p.error.is_none()) {
            match part.advance(cx, step) {
                Ok(Step::Done) => {}
                Ok(Step::Wait) => sum = Step::Wait,
                Ok(Step::Repeat) => return Ok(Step::Repeat),
                Err(e) => part.error = Some(e),
            }
        }
        match self.parts.iter().find_map(|p| p.error.clone()) {
            Some(e) if held && sum == Step::Done => Err(e),
            _ => Ok(sum),
        }
    }

    /// Releases all uses of sub-locks.
    pub(crate) fn release(&mut self, cx: &mut LockCx<'_>) {
        for part in &mut self.parts {
            part.error = None;
            part.attempts = 0;
            if let Some(user) = part.user.take() {
                cx.release_later(user);
            }
        }
        self.next = 0;
    }

    /// Leaves all sub-locks: the top-lock goes.
    pub(crate) fn leave(&mut self, top: &ExtentLock) {
        for part in self.parts.drain(..) {
            if let Some(lock) = &part.lock {
                lock.remove_parent(top);
            }
        }
    }

    /// Whether all sub-locks are there and protect their extents; not so for none.
    pub(crate) fn are_granted(&self) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(|p| p.lock.as_ref().is_some_and(|l| l.is_granted()))
    }

    /// Whether no sub-lock is in use on behalf of the top-lock.
    pub(crate) fn are_unused(&self) -> bool {
        self.parts.iter().all(|p| p.user.is_none())
    }

    /// How many stripes there are.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// What the top-lock covers if its one sub-lock was granted more than asked for: as much as lies in one row in the
    /// file and in the object. With several stripes, exactly what was asked for.
    pub(crate) fn widen(&self, layout: &FileLayout, descr: &mut LockDescr) {
        let [Part { user: Some(user), .. }] = self.parts.as_slice() else { return };
        let granted = user.descr();
        descr.extent = descr.extent.hull(in_file(layout, descr.extent.start, granted.extent));
        if granted.mode.serves(descr.mode) {
            descr.mode = granted.mode;
        }
    }
}

impl Part {
    fn new(at: StripeRef, object: Arc<Object>, extent: Extent) -> Self {
        Self { at, object, extent, lock: None, user: None, error: None, attempts: 0 }
    }

    /// Takes the sub-lock a step further; finds it first if need be.
    fn advance(
        &mut self,
        cx: &mut LockCx<'_>,
        step: fn(&mut LockUser, &mut LockCx<'_>) -> Result<Step>,
    ) -> Result<Step> {
        loop {
            let user = match &mut self.user {
                Some(user) => user,
                None => {
                    let need = LockDescr { extent: self.extent, ..*cx.descr };
                    let Some(found) = find_user_try(cx, &self.object, &need)? else { return Ok(Step::Repeat) };
                    self.adopt(cx, found)
                }
            };
            let failure = match step(user, cx) {
                Ok(Step::Done) if self.suffices(cx.descr) => return Ok(Step::Done),
                Ok(Step::Done) => None,
                Ok(step) => return Ok(step),
                Err(e) => Some(e),
            };
            // A lock that others asked for, and lost, or have less of now.
            if let Some(user) = self.user.take() {
                cx.release_later(user);
            }
            self.attempts += 1;
            match failure {
                Some(e) if e.errno() != Errno::ESTALE || self.attempts > MAX_ATTEMPTS => return Err(e),
                None if self.attempts > MAX_ATTEMPTS => {
                    return Err(Error::new(Errno::EBUSY, "lock", "others keep losing the stripe's lock; try again"));
                }
                _ => {}
            }
        }
    }

    /// Makes the top-lock a parent of the sub-lock that was found.
    fn adopt(&mut self, cx: &LockCx<'_>, found: LockUser) -> &mut LockUser {
        found.lock().add_parent(cx.lock);
        if let Some(old) = self.lock.replace(found.lock().clone())
            && !Arc::ptr_eq(&old, found.lock())
        {
            old.remove_parent(cx.lock);
        }
        self.user.insert(found)
    }

    fn suffices(&self, need: &LockDescr) -> bool {
        let have = self.user.as_ref().map(LockUser::descr);
        have.is_some_and(|d| d.extent.covers(self.extent) && d.mode.serves(need.mode))
    }
}

/// What of `granted`, bytes of the object that holds file offset `offset`, lies in one row with that offset in the file.
/// Empty if the row has nothing of it.
pub(crate) fn in_file(layout: &FileLayout, offset: u64, granted: Extent) -> Extent {
    let Location::Stripe(place) = layout.locate(offset) else { return Extent::new(offset, offset) };
    let Some(component) = layout.component(place.at.component) else { return Extent::new(offset, offset) };
    let one = component.stripes().is_some_and(|s| s.len() == 1);
    let stripe_size = component.striping().stripe_size;
    let unit = if one { 0 } else { offset / stripe_size * stripe_size };
    let row_start = unit.max(component.extent().start);
    let row_end = match place.run_end {
        MAX_FILE_SIZE if one && component.extent().end == Extent::EOF => Extent::EOF,
        end => end,
    };
    // In a row, file offset and object offset differ by a constant; the first is never the smaller one.
    let apart = offset - place.object_offset;
    let start = row_start.max(granted.start.saturating_add(apart));
    let end = if granted.end == Extent::EOF { row_end } else { row_end.min(granted.end.saturating_add(apart)) };
    if start < end { Extent::new(start, end) } else { Extent::new(offset, offset) }
}
