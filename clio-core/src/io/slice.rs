//! What a layer implements for IO.

use super::IoCommon;
use crate::env::Env;
use crate::error::Result;
use crate::page::{PageList, PageQueues, Rw, SyncIo};
use crate::target::Bulk;
use crate::units::Extent;
use std::sync::Arc;

/// What a slice is given: the common part of its IO, the environment, and the slices below it.
///
/// `below` is private: a slice reaches lower layers only through the generic calls here, which walk them in order.
pub struct IoCx<'a> {
    /// The common part.
    pub io: &'a mut IoCommon,
    /// The environment.
    pub env: &'a Env,
    pub(super) below: &'a mut [Box<dyn IoSlice>],
}

impl IoCx<'_> {
    /// See [`IoSlice::submit`]: passes the queues down until a layer takes them.
    ///
    /// # Errors
    /// What the layer says.
    pub fn submit(&mut self, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        match self.below.split_first_mut() {
            None => Ok(()),
            Some((next, below)) => next.submit(&mut IoCx { io: self.io, env: self.env, below }, rw, queues),
        }
    }

    /// See [`IoSlice::commit`]: passes the pages down until a layer takes them.
    ///
    /// # Errors
    /// What the layer says.
    pub fn commit(&mut self, pages: &mut PageList) -> Result<()> {
        match self.below.split_first_mut() {
            None => Ok(()),
            Some((next, below)) => next.commit(&mut IoCx { io: self.io, env: self.env, below }, pages),
        }
    }

    /// See [`IoSlice::direct`]: passes the segments down until a layer takes them.
    ///
    /// # Errors
    /// What the layer says.
    pub fn direct(&mut self, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        match self.below.split_first_mut() {
            None => Ok(()),
            Some((next, below)) => next.direct(&mut IoCx { io: self.io, env: self.env, below }, rw, bulk, sync),
        }
    }

    /// See [`IoSlice::read_ahead`].
    ///
    /// # Errors
    /// What the layer says.
    pub fn read_ahead(&mut self, offset: u64) -> Result<Extent> {
        match self.below.split_first_mut() {
            None => Ok(Extent::new(offset, offset)),
            Some((next, below)) => next.read_ahead(&mut IoCx { io: self.io, env: self.env, below }, offset),
        }
    }
}

/// A layer's part of an IO. Methods that a layer has no use for keep their defaults.
///
/// After a successful `lock` step, `end` and `unlock` are always called, even if `start` failed; after a successful
/// `iter_init` of any layer, `iter_fini` is; `fini` always is.
#[doc(alias = "cl_io_operations")]
pub trait IoSlice: Send {
    /// Name of the layer.
    fn layer(&self) -> &'static str;

    /// Decide what part of the rest this iteration does: shrink `cx.io.iteration` (top to bottom).
    ///
    /// # Errors
    /// Ends the IO.
    fn iter_init(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let _ = cx;
        Ok(())
    }

    /// Add the locks that the iteration needs to `cx.io.lockset`; they are enqueued afterwards (top to bottom).
    ///
    /// # Errors
    /// Ends the IO.
    fn lock(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let _ = cx;
        Ok(())
    }

    /// Do the work, or start it (top to bottom). Add to `cx.io.moved` what was moved.
    ///
    /// # Errors
    /// Ends the IO after what was moved so far.
    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let _ = cx;
        Ok(())
    }

    /// Wait for what was started (bottom to top).
    fn end(&mut self, cx: &mut IoCx<'_>) {
        let _ = cx;
    }

    /// The locks are about to go (bottom to top).
    fn unlock(&mut self, cx: &mut IoCx<'_>) {
        let _ = cx;
    }

    /// The iteration is over (bottom to top).
    fn iter_fini(&mut self, cx: &mut IoCx<'_>) {
        let _ = cx;
    }

    /// `bytes` were moved: `cx.io.pos` and `count` have been advanced (bottom to top).
    fn advance(&mut self, cx: &mut IoCx<'_>, bytes: u64) {
        let _ = (cx, bytes);
    }

    /// The IO is over (bottom to top): give pooled state back to the environment.
    fn fini(self: Box<Self>, env: &Env, io: &mut IoCommon) {
        let _ = (env, io);
    }

    /// Submit owned pages on `queues.qin` for immediate transfer. Those whose transfer was started, and for which
    /// completion will come, move to `queues.qout`; those that need none (already valid, not dirty) or could not be
    /// submitted stay. A layer without transfers passes the call on with [`IoCx::submit`], as the default does; a
    /// layer that splits maps pages to their children and submits them to its sub-IOs.
    ///
    /// # Errors
    /// The first unrecoverable submission error.
    fn submit(&mut self, cx: &mut IoCx<'_>, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        cx.submit(rw, queues)
    }

    /// Stage dirty pages for opportunistic transfer. Staged ones are removed from `pages`; those for which there is
    /// no quota (or no grant) stay: the caller submits them for immediate transfer.
    ///
    /// # Errors
    /// The first error.
    fn commit(&mut self, cx: &mut IoCx<'_>, pages: &mut PageList) -> Result<()> {
        cx.commit(pages)
    }

    /// Transfer `bulk` (offsets in this IO's object) past the cache. For each request made of it, `sync` expects one
    /// completion; the memory must stay valid until `sync` has been waited for. The caller has made the cache
    /// coherent: nothing of the range is dirty, nor valid after a write.
    ///
    /// # Errors
    /// The first submission error; what was submitted before still completes.
    fn direct(&mut self, cx: &mut IoCx<'_>, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        cx.direct(rw, bulk, sync)
    }

    /// How far a read may go beyond what was asked: the bytes that locks held now cover, around `offset` (bytes in this
    /// IO's object); empty if none does.
    ///
    /// # Errors
    /// What a lower layer says.
    fn read_ahead(&mut self, cx: &mut IoCx<'_>, offset: u64) -> Result<Extent> {
        cx.read_ahead(offset)
    }
}
