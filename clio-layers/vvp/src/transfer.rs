//! Immediate transfers: pages are owned, submitted together, given up, and waited for.

use clio_core::Result;
use clio_core::env::Env;
use clio_core::io::{Io, IoCx, IoId, IoKind};
use clio_core::object::Object;
use clio_core::page::{OwnedPage, Page, PageQueues, Rw, SyncIo};
use clio_core::sync::thread;
use clio_core::units::{BlockSet, Extent, PageIndex};
use smallvec::SmallVec;
use std::sync::Arc;

/// Most pages that a walk over an object looks at, or owns, at a time.
const WALK_PAGES: usize = 16;

/// What pages are owned by and submitted through.
pub(crate) trait Carrier {
    /// The owner.
    fn id(&self) -> IoId;
    /// Passes pages to the layers below.
    fn submit(&mut self, rw: Rw, queues: &mut PageQueues) -> Result<()>;
}

impl Carrier for IoCx<'_> {
    fn id(&self) -> IoId {
        self.io.id
    }
    fn submit(&mut self, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        IoCx::submit(self, rw, queues)
    }
}

/// A context for write-out that belongs to no other IO.
pub(crate) struct MiscIo {
    env: Env,
    io: Io,
}

impl MiscIo {
    pub(crate) fn new(env: &Env, object: &Arc<Object>) -> Result<Self> {
        let env = env.nested();
        let io = Io::new(&env, object, IoKind::Misc, 0, u64::MAX)?;
        Ok(Self { env, io })
    }

    pub(crate) fn id(&self) -> IoId {
        self.io.common.id
    }
}

impl Carrier for MiscIo {
    fn id(&self) -> IoId {
        self.io.common.id
    }
    fn submit(&mut self, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        self.io.submit(&self.env, rw, queues)
    }
}

impl Drop for MiscIo {
    fn drop(&mut self) {
        self.io.fini(&self.env);
    }
}

/// Pages owned for one transfer, in ascending order.
pub(crate) struct Batch {
    rw: Rw,
    owned: SmallVec<[OwnedPage; 4]>,
    queues: PageQueues,
    sync: Arc<SyncIo>,
}

impl Batch {
    pub(crate) fn new(rw: Rw) -> Self {
        Self { rw, owned: SmallVec::new(), queues: PageQueues::default(), sync: SyncIo::new() }
    }

    /// Adds `blocks` of a page; those of `wanted` are waited for.
    pub(crate) fn add(&mut self, page: OwnedPage, blocks: BlockSet, wanted: BlockSet) {
        page.watch(wanted, &self.sync);
        self.queues.qin.push(page.page().clone(), blocks);
        self.owned.push(page);
    }

    /// Waits for blocks that others have in transfer, too.
    pub(crate) fn await_others(&self, page: &Page, blocks: BlockSet) {
        page.notify(blocks, &self.sync);
    }

    /// Submits what was added, and gives the pages up. More can be added afterwards.
    pub(crate) fn submit(&mut self, via: &mut impl Carrier) -> Result<()> {
        if self.owned.is_empty() {
            return Ok(());
        }
        let submitted = via.submit(self.rw, &mut self.queues);
        self.queues = PageQueues::default();
        self.owned.clear();
        submitted
    }

    /// Waits for all that was submitted so far and is wanted. Owned pages are not given up: call it after `submit`.
    ///
    /// # Errors
    /// The first error of a transfer since the batch was made.
    pub(crate) fn wait(&self) -> Result<()> {
        debug_assert!(self.owned.is_empty(), "waiting for a transfer with pages owned");
        self.sync.wait()
    }
}

/// The page at `index`, owned, with none of `blocks` in transfer. Waits for both, and for a dying page to go.
///
/// # Errors
/// As [`Page::find`].
pub(crate) fn own_page(cx: &IoCx<'_>, object: &Arc<Object>, index: PageIndex, blocks: BlockSet) -> Result<OwnedPage> {
    loop {
        let page = Page::find(cx.env, object, index)?;
        if let Some(owned) = page.own_idle(cx.io.id, blocks) {
            return Ok(owned);
        }
        thread::yield_now();
    }
}

/// The pages of `object` that have a byte in `extent`, in order.
pub(crate) fn pages_in(object: &Arc<Object>, extent: Extent) -> impl Iterator<Item = Arc<Page>> {
    let object = object.clone();
    let mut next = object.folio_of(extent.start).0;
    let end = if extent.is_empty() { next } else { object.folio_of(extent.end - 1).0 + 1 };
    let mut some = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if some.len() == 0 {
            some = object.pages().range(next..end, WALK_PAGES).into_iter();
        }
        let page: Arc<Page> = some.next()?;
        next = page.index().0 + 1;
        Some(page)
    })
}

/// Writes out what is dirty of `blocks`, and waits. Waits for transfers of them under way too.
pub(crate) fn write_out(via: &mut impl Carrier, page: &Arc<Page>, blocks: BlockSet) -> Result<()> {
    let Some(owned) = page.own_idle(via.id(), blocks) else { return Ok(()) };
    let dirty = blocks.and(page.dirty());
    if dirty.is_empty() {
        return Ok(());
    }
    let mut batch = Batch::new(Rw::Write);
    batch.add(owned, dirty, dirty);
    let written = batch.submit(via).and(batch.wait());
    latch(page.object().as_ref(), written)
}

/// What is written out had been accepted from whoever wrote it: he must hear that it is lost, though somebody else does
/// too.
fn latch(object: Option<&Arc<Object>>, written: Result<()>) -> Result<()> {
    if let (Some(object), Err(e)) = (object, &written) {
        object.latch_error(e);
    }
    written
}

/// Writes out what is dirty in `extent` of `object`, and waits, also for write-out under way.
///
/// # Errors
/// The first error; the rest is written out all the same.
pub(crate) fn write_out_range(via: &mut impl Carrier, object: &Arc<Object>, extent: Extent) -> Result<()> {
    let mut batch = Batch::new(Rw::Write);
    let mut first = Ok(());
    for page in pages_in(object, extent) {
        let blocks = page.blocks_of(extent);
        if batch.owned.len() == WALK_PAGES {
            first = first.and(batch.submit(via));
        }
        let owned = page.try_own_idle(via.id(), blocks).or_else(|| {
            // Nothing is owned while waiting.
            let submitted = batch.submit(via);
            first = std::mem::replace(&mut first, Ok(())).and(submitted);
            page.own_idle(via.id(), blocks)
        });
        let dirty = blocks.and(page.dirty());
        if let Some(owned) = owned.filter(|_| !dirty.is_empty()) {
            batch.add(owned, dirty, dirty);
        }
    }
    let submitted = first.and(batch.submit(via));
    let arrived = batch.wait();
    latch(Some(object), submitted.and(arrived))
}
