//! Changes of a file's layout under the IOs that use it.
//!
//! Components get their targets when they are first written, by this client or another; nothing else changes while a
//! file is in use. An IO goes by the snapshot that was current when its iteration began. Since a change only adds
//! stripes, it disturbs no one but those who took a component for a hole: they are counted, a change waits for the end
//! of their iterations, and new ones wait for the change. So such an iteration must not ask for the layout, nor for the
//! size of the file, which does: that would be to wait for itself. It learns the size when it begins.

use crate::layout::{FileLayout, LayoutGeneration, Location};
use crate::object::LovObject;
use crate::striped::Striped;
use clio_core::env::Env;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::Glimpse;
use clio_core::sync::Condvar;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};

/// Pages looked at in one go when those of a former hole are dropped.
const SWEEP: usize = 64;

/// The layout lock of a file.
pub(crate) struct Change {
    /// Of the current snapshot, to be read without a mutex.
    generation: AtomicU64,
    state: RankedMutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Iterations that take a component for a hole.
    holes: usize,
    /// Threads that wait to change the layout.
    pending: usize,
}

impl Change {
    pub(crate) fn new(generation: LayoutGeneration) -> Self {
        Self {
            generation: AtomicU64::new(generation.0),
            state: RankedMutex::new(LockRank::Layout, State::default()),
            changed: Condvar::new(),
        }
    }

    /// Generation of the current layout.
    pub(crate) fn generation(&self) -> LayoutGeneration {
        LayoutGeneration(self.generation.load(Ordering::Acquire))
    }

    /// Ends what [`LovObject::enter_hole`] began.
    pub(crate) fn leave_hole(&self) {
        self.state.lock().holes -= 1;
        self.changed.notify_all();
    }

    /// Iterations now that take a component for a hole.
    #[cfg(all(test, not(clio_loom)))]
    pub(crate) fn holes(&self) -> usize {
        self.state.lock().holes
    }
}

impl LovObject {
    /// Learns of what other clients changed. Blocks; no mutex is held.
    ///
    /// # Errors
    /// What the source says; as [`LovObject::adopt`].
    pub(crate) fn refresh(&self, env: &Env) -> Result<()> {
        let encoded = self.source().current(self.fid()).map_err(|e| e.on(self.fid()))?;
        self.adopt(env, self.decode(&encoded)?)
    }

    /// Has targets given to all components that `extent` touches. Blocks; no mutex is held.
    ///
    /// # Errors
    /// `ENOSPC` if there are none; as [`LovObject::refresh`].
    pub(crate) fn instantiate(&self, env: &Env, extent: Extent) -> Result<()> {
        if self.snapshot().layout().missing(extent).next().is_none() {
            return Ok(());
        }
        let encoded = self.source().instantiate(self.fid(), extent).map_err(|e| e.on(self.fid()))?;
        self.adopt(env, self.decode(&encoded)?)?;
        match self.snapshot().layout().missing(extent).next() {
            None => Ok(()),
            Some(c) => {
                let why = format!("component {} of the layout got no targets; try again", c.0);
                Err(Error::new(Errno::EIO, "instantiate", why).on(self.fid()))
            }
        }
    }

    /// Makes `layout` current if it is newer. Waits for the end of iterations that take for a hole what isn't any more.
    ///
    /// # Errors
    /// `ESTALE` if the file's stripes are others now: it was striped anew, and must be opened again.
    pub(crate) fn adopt(&self, env: &Env, layout: FileLayout) -> Result<()> {
        let filled: Vec<Extent> = {
            let mut state = self.change().state.lock();
            state.pending += 1;
            while state.holes > 0 && layout.generation() > self.change().generation() {
                state = state.wait(&self.change().changed);
            }
            state.pending -= 1;
            let adopted = self.adopt_locked(layout);
            drop(state);
            self.change().changed.notify_all();
            adopted?
        };
        filled.into_iter().for_each(|extent| self.drop_childless(env, extent));
        Ok(())
    }

    /// The extents that aren't holes any more.
    fn adopt_locked(&self, layout: FileLayout) -> Result<Vec<Extent>> {
        if layout.generation() <= self.change().generation() {
            return Ok(Vec::new());
        }
        let old = self.snapshot();
        if !old.is_kept_by(&layout) {
            let why = "the file was striped anew by somebody else; open it again";
            return Err(Error::new(Errno::ESTALE, "layout", why).on(self.fid()));
        }
        let missing = old.layout().missing(Extent::WHOLE);
        let of = |i| layout.component(i).filter(|c| c.stripes().is_some()).map(|c| c.extent());
        let filled = missing.filter_map(of).collect();
        tracing::debug!(target: "clio::object", fid = %self.fid(), generation = layout.generation().0, "layout changed");
        self.set_layout(old.successor(layout));
        Ok(filled)
    }

    /// Makes `layout` current, whatever was before. There is no IO, nor any page or lock.
    pub(crate) fn replace(&self, layout: FileLayout) {
        let _state = self.change().state.lock();
        self.set_layout(Striped::new(layout));
    }

    fn set_layout(&self, striped: Striped) {
        let generation = striped.layout().generation().0;
        self.publish(striped);
        // After the snapshot: who sees the generation finds the layout. Under the layout lock.
        self.change().generation.store(generation, Ordering::Release);
    }

    /// Takes the component at file offset `offset` for a hole until [`Change::leave_hole`]; returns where it ends. `None`
    /// if it is none any more.
    pub(crate) fn enter_hole(&self, offset: u64) -> Option<u64> {
        let mut state = self.change().state.lock();
        while state.pending > 0 {
            state = state.wait(&self.change().changed);
        }
        match self.snapshot().layout().locate(offset) {
            Location::Missing { end, .. } => {
                state.holes += 1;
                Some(end)
            }
            _ => None,
        }
    }

    /// Asks for the sizes of the stripes that are known, of all targets at once. Waits for no change of the layout, so that
    /// it can be called within a hole.
    ///
    /// # Errors
    /// What keeps a target from being asked.
    pub(crate) fn glimpse_stripes(&self, env: &Env) -> Result<StripeGlimpses> {
        let striped = self.snapshot();
        let mut answers = StripeGlimpses::default();
        for (at, _) in striped.layout().stripes() {
            answers.0.extend(self.sub(env, &striped, at)?.begin_glimpse(env)?);
        }
        Ok(answers)
    }

    /// Drops the pages of a hole: no lock protects them, so that they must not stay.
    pub(crate) fn drop_childless(&self, env: &Env, extent: Extent) {
        let Some(top) = self.top() else { return };
        let size = top.folio_size();
        let (mut from, to) = (extent.start / size, extent.end.div_ceil(size));
        loop {
            let some = top.pages().range(from..to, SWEEP);
            let Some(last) = some.last() else { return };
            from = last.index().0 + 1;
            some.iter().filter(|p| p.child().is_none()).for_each(|p| p.delete(env));
        }
    }
}

/// What the targets of a file's stripes will say of their sizes.
#[derive(Default)]
pub(crate) struct StripeGlimpses(Vec<Box<dyn Glimpse>>);

impl Glimpse for StripeGlimpses {
    /// Waits for all answers, also after one that is an error: what the others say is worth knowing.
    fn finish(self: Box<Self>) -> Result<()> {
        self.0.into_iter().map(Glimpse::finish).fold(Ok(()), Result::and)
    }
}
