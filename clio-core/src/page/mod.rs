//! Pages: folios of a file in the cache, as top-page and sub-page over one memory.

mod bar;
mod folio;
mod list;
mod owned;
mod partial;
mod segments;
mod slab;
mod slice;
mod state;
mod sync_io;
mod tree;

#[cfg(all(test, clio_loom))]
mod loom_tests;
#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use bar::WindowBar;
pub use folio::WriteRefusal;
pub use list::{PageList, PageQueues, PageSpan};
pub use owned::OwnedPage;
pub use slab::{CellId, FolioSlab};
pub use slice::PageSlice;
pub use state::{IllegalTransition, PageState};
pub use sync_io::SyncIo;
pub use tree::PageTree;

use crate::env::Env;
use crate::error::{Errno, Error, Result};
use crate::io::IoId;
use crate::memory::PageMemory;
use crate::object::{AttrCell, Object};
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::target::{Bulk, BulkSegment};
use crate::units::{BLOCK_SIZE, BlockSet, Extent, Fid, PageIndex};
use folio::FolioCell;
use smallvec::SmallVec;
use std::fmt;
use std::sync::{Arc, Weak};

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rw {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

/// What top- and sub-page share: a cell, given back when the last of them goes.
struct Folio {
    slab: Arc<FolioSlab>,
    id: CellId,
    size: u64,
}

impl Folio {
    #[inline]
    fn cell(&self) -> &FolioCell {
        self.slab.cell(self.id.index)
    }

    fn memory(&self) -> &dyn PageMemory {
        self.slab.memory().as_ref()
    }

    fn blocks(&self) -> usize {
        (self.size / BLOCK_SIZE) as usize
    }
}

impl Drop for Folio {
    fn drop(&mut self) {
        self.slab.free(self.id);
    }
}

/// The header of a page: one folio of one object, with the slices of its object's layers.
#[doc(alias = "cl_page")]
pub struct Page {
    object: Weak<Object>,
    fid: Fid,
    index: PageIndex,
    folio: Arc<Folio>,
    slices: SmallVec<[Box<dyn PageSlice>; 2]>,
    child: Option<Arc<Page>>,
    parent: OnceLock<Weak<Page>>,
    dying: AtomicBool,
}

/// A page under construction.
pub struct PageBuilder<'a> {
    object: &'a Arc<Object>,
    index: PageIndex,
    folio: Arc<Folio>,
}

impl PageBuilder<'_> {
    /// The object.
    pub fn object(&self) -> &Arc<Object> {
        self.object
    }

    /// Index in the object.
    pub fn index(&self) -> PageIndex {
        self.index
    }
}

impl Page {
    /// The page at `index` of `object`: from the index, or made, with its sub-page where a layer splits.
    /// The caller holds a lock that covers what it will use of it.
    ///
    /// # Errors
    /// `ENOMEM`, or what a layer says.
    #[doc(alias = "cl_page_find")]
    pub fn find(env: &Env, object: &Arc<Object>, index: PageIndex) -> Result<Arc<Page>> {
        loop {
            match object.pages().get(index) {
                Some(page) if page.is_dying() => crate::sync::thread::yield_now(),
                // Made where no sub-object was; there is one now, and this page could never be transferred.
                Some(page) if page.child.is_none() && object.child_of(index).is_some() => page.delete(env),
                Some(page) => return Ok(page),
                None => match Self::make(env, object, index)? {
                    Some(page) => return Ok(page),
                    // Another thread was first, or is about to take the sub-page out that is in the way.
                    None => crate::sync::thread::yield_now(),
                },
            }
        }
    }

    /// Makes and inserts; `None` if another thread was first.
    fn make(env: &Env, object: &Arc<Object>, index: PageIndex) -> Result<Option<Arc<Page>>> {
        let slab = object.slab().clone();
        let id = slab
            .alloc()
            .ok_or_else(|| Error::new(Errno::ENOMEM, "page", "too many folios in the cache; lower cache_mb"))?;
        let folio = Arc::new(Folio { slab, id, size: object.folio_size() });
        // The sub-page goes in first, so that whoever sweeps the sub-object for a lock meets every page that exists.
        let child = match object.child_of(index) {
            None => None,
            Some((sub, sub_index)) => {
                let child = Self::build(env, &sub, sub_index, folio.clone(), None)?;
                if sub.pages().insert(&child).is_some() {
                    return Ok(None);
                }
                Some(child)
            }
        };
        let page = Self::build(env, object, index, folio, child.clone());
        let page = match page {
            Ok(page) => page,
            Err(e) => {
                child.inspect(|c| c.delete(env));
                return Err(e);
            }
        };
        if let Some(child) = &child {
            let _ = child.parent.set(Arc::downgrade(&page));
        }
        if object.pages().insert(&page).is_some() {
            page.delete(env);
            return Ok(None);
        }
        // A sweep may have deleted the sub-page before it knew its parent.
        if page.folio.cell().lock().freeing {
            page.forget_header(env);
            // It may also have come between the two, and taken a page out that was not in yet.
            object.pages().remove(&page);
            return Ok(None);
        }
        Ok(Some(page))
    }

    fn build(
        env: &Env,
        object: &Arc<Object>,
        index: PageIndex,
        folio: Arc<Folio>,
        child: Option<Arc<Page>>,
    ) -> Result<Arc<Page>> {
        if child.is_none() {
            folio.cell().lock().sub = Some((object.attrs().clone(), index.0 * object.folio_size()));
        }
        let mut builder = PageBuilder { object, index, folio };
        let mut slices = SmallVec::new();
        for slice in object.slices() {
            slices.extend(slice.page_init(env, &mut builder)?);
        }
        Ok(Arc::new(Page {
            object: Arc::downgrade(object),
            fid: object.fid(),
            index,
            folio: builder.folio,
            slices,
            child,
            parent: OnceLock::new(),
            dying: AtomicBool::new(false),
        }))
    }

    fn folio(&self) -> &Folio {
        &self.folio
    }

    /// The object; `None` if it is gone.
    pub fn object(&self) -> Option<Arc<Object>> {
        self.object.upgrade()
    }

    /// The object's FID.
    pub fn fid(&self) -> Fid {
        self.fid
    }

    /// Index in the object.
    pub fn index(&self) -> PageIndex {
        self.index
    }

    /// Bytes of the object that the page covers.
    pub fn extent(&self) -> Extent {
        Extent::with_len(self.index.0 * self.folio.size, self.folio.size)
    }

    /// Byte offset of the page in its object.
    pub fn offset(&self) -> u64 {
        self.index.0 * self.folio.size
    }

    /// The sub-page.
    pub fn child(&self) -> Option<&Arc<Page>> {
        self.child.as_ref()
    }

    /// The top-page, of a sub-page.
    pub fn parent(&self) -> Option<Arc<Page>> {
        self.parent.get().and_then(Weak::upgrade)
    }

    /// All blocks that the page has.
    pub fn all_blocks(&self) -> BlockSet {
        BlockSet::range(0..self.folio.blocks())
    }

    /// The blocks that the object's bytes `extent` touch, of this page.
    pub fn blocks_of(&self, extent: Extent) -> BlockSet {
        let part = self.extent().intersect(extent);
        BlockSet::touching(part.start.saturating_sub(self.offset()), part.end.saturating_sub(self.offset()))
    }

    /// Whether the page is on its way out.
    pub fn is_dying(&self) -> bool {
        self.dying.load(Ordering::Acquire)
    }

    fn cell_id(&self) -> CellId {
        self.folio.id
    }

    /// Blocks that can be read from the cache.
    pub fn valid(&self) -> BlockSet {
        self.folio.cell().valid()
    }

    /// Blocks with data that is not yet on its way to the target.
    pub fn dirty(&self) -> BlockSet {
        self.folio.cell().dirty()
    }

    /// Blocks in transfer.
    pub fn in_flight(&self) -> BlockSet {
        self.folio.cell().lock().in_flight()
    }

    /// State of block `b`.
    pub fn state(&self, b: usize) -> PageState {
        self.folio.cell().lock().state_of(b)
    }

    /// Bytes of memory that the page pins.
    pub fn memory_bytes(&self) -> usize {
        self.folio.cell().memory_bytes()
    }

    /// Whether the page was used since this was last asked.
    pub fn take_accessed(&self) -> bool {
        self.folio.cell().take_accessed()
    }

    /// Takes exclusive use for `io`, waiting for another owner to leave. `None` if the page is dying.
    #[doc(alias = "cl_page_own")]
    pub fn own(self: &Arc<Self>, io: IoId) -> Option<OwnedPage> {
        self.own_idle(io, BlockSet::EMPTY)
    }

    /// As [`Page::own`], and waits until none of `blocks` is in transfer, nor any block whose memory would have to
    /// move to make room for them.
    pub fn own_idle(self: &Arc<Self>, io: IoId, blocks: BlockSet) -> Option<OwnedPage> {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        loop {
            if state.freeing {
                return None;
            }
            let busy = state.in_flight();
            if state.owner.is_none()
                && (busy.is_empty() || busy.and(blocks.or(cell.segments().growth(blocks))).is_empty())
            {
                state.owner = Some(io);
                return Some(OwnedPage::new(self.clone(), io));
            }
            state = state.wait(&cell.changed);
        }
    }

    /// Takes exclusive use for `io` if that is possible at once.
    #[doc(alias = "cl_page_own_try")]
    pub fn try_own(self: &Arc<Self>, io: IoId) -> Option<OwnedPage> {
        let mut state = self.folio.cell().lock();
        if state.freeing || state.owner.is_some() {
            return None;
        }
        state.owner = Some(io);
        Some(OwnedPage::new(self.clone(), io))
    }

    /// As [`Page::own_idle`], but only if it is possible at once.
    pub fn try_own_idle(self: &Arc<Self>, io: IoId, blocks: BlockSet) -> Option<OwnedPage> {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        let busy = state.in_flight();
        if state.freeing
            || state.owner.is_some()
            || (!busy.is_empty() && !busy.and(blocks.or(cell.segments().growth(blocks))).is_empty())
        {
            return None;
        }
        state.owner = Some(io);
        Some(OwnedPage::new(self.clone(), io))
    }

    /// Gives up exclusive use.
    #[doc(alias = "cl_page_disown")]
    fn disown(&self, io: IoId) {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        debug_assert!(state.owner == Some(io), "disowned by {io:?}, owned by {:?}", state.owner);
        state.owner = None;
        state.watch = None;
        drop(state);
        cell.changed.notify_all();
    }

    /// Waits until none of `blocks` is in transfer.
    pub fn wait_idle(&self, blocks: BlockSet) {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        while !state.in_flight().and(blocks).is_empty() {
            state = state.wait(&cell.changed);
        }
    }

    /// Copies the bytes at `at` of the page to `buf` if they are valid; false if not.
    pub fn read(&self, at: usize, buf: &mut [u8]) -> bool {
        if buf.is_empty() {
            return true;
        }
        let cell = self.folio.cell();
        if cell.read(self.folio.id.generation, at, buf) {
            return true;
        }
        let _state = cell.lock();
        cell.read(self.folio.id.generation, at, buf)
    }

    /// The slices of the sub-page and of the top-page, bottom to top, each with its page.
    fn bottom_up(&self, mut call: impl FnMut(&dyn PageSlice, &Page)) {
        let top = self.parent();
        let (sub, top) = match (&self.child, &top) {
            (Some(child), _) => (Some(child.as_ref()), Some(self)),
            (None, Some(top)) => (Some(self), Some(top.as_ref())),
            (None, None) => (None, Some(self)),
        };
        for page in [sub, top].into_iter().flatten() {
            page.slices.iter().rev().for_each(|s| call(s.as_ref(), page));
        }
    }

    /// Moves `blocks` of a page that `io` owns into an immediate transfer: asks the slices, then Owned → PageIn or
    /// PageOut for those that need it, which are returned. For a read those that are neither valid nor dirty; for a
    /// write the dirty ones. Completion will come for what is returned.
    ///
    /// # Errors
    /// What a slice says; `ENOMEM` if a read finds no memory.
    #[doc(alias = "cl_page_prep")]
    pub fn prep(&self, env: &Env, io: IoId, rw: Rw, blocks: BlockSet) -> Result<BlockSet> {
        let mut moving = blocks;
        let mut refused = Ok(());
        self.bottom_up(|s, page| {
            if refused.is_ok() {
                refused = s.prep(env, page, rw, &mut moving);
            }
        });
        refused?;
        let cell = self.folio.cell();
        let mut state = cell.lock();
        debug_assert!(state.owner == Some(io), "prep by {io:?}, owned by {:?}", state.owner);
        moving = moving.minus(state.in_flight());
        match rw {
            Rw::Read => {
                moving = moving.minus(cell.valid()).minus(cell.dirty());
                if !moving.is_empty() && !cell.attach(self.folio.memory(), moving) {
                    return Err(Error::new(Errno::ENOMEM, "read", "no page memory").on(self.fid));
                }
                state.set(moving, PageState::PageIn);
            }
            Rw::Write => {
                moving = moving.and(cell.dirty());
                state.set(moving, PageState::PageOut);
                cell.set_clean(moving);
                state.window = state.window.minus(moving);
            }
        }
        if let Some((wanted, sync)) = &state.watch {
            let watched = moving.and(*wanted);
            if !watched.is_empty() {
                sync.expect(watched.count());
                let entry = (watched, sync.clone());
                state.sync.push(entry);
            }
        }
        Ok(moving)
    }

    /// Moves the dirty ones of `blocks` from the staging area into a transfer: Cached → PageOut, unless an IO owns
    /// the page, for which this waits if `wait` and else answers with nothing. Closes the write window: returns the
    /// blocks that moved, and those that the window had been open for.
    #[doc(alias = "cl_page_make_ready")]
    pub fn make_ready(&self, env: &Env, blocks: BlockSet, wait: bool) -> (BlockSet, BlockSet) {
        let mut eligible = blocks;
        self.bottom_up(|s, page| s.make_ready(env, page, &mut eligible));
        let cell = self.folio.cell();
        let mut state = cell.lock();
        while state.owner.is_some() || !state.in_flight().and(eligible).and(cell.dirty()).is_empty() {
            if !wait {
                return (BlockSet::EMPTY, BlockSet::EMPTY);
            }
            state = state.wait(&cell.changed);
        }
        let moving = eligible.and(cell.dirty());
        state.set(moving, PageState::PageOut);
        cell.set_clean(moving);
        let window = std::mem::take(&mut state.window);
        (moving, window)
    }

    /// Lets `blocks` be dirtied by [`fast_write`] without a call to the transfer layer, which has set quota and
    /// grant aside for them, under a write lock that covers them. Not those that are barred ([`WindowBar`]).
    pub fn open_window(&self, blocks: BlockSet) {
        let mut state = self.folio.cell().lock();
        state.window = state.window.or(blocks.minus(state.barred));
    }

    /// Closes the window for `blocks` (their lock goes, or their quota does); returns those that had been open.
    pub fn close_window(&self, blocks: BlockSet) -> BlockSet {
        let mut state = self.folio.cell().lock();
        let open = state.window.and(blocks);
        state.window = state.window.minus(blocks);
        open
    }

    /// As [`Page::close_window`], on behalf of a layer that did not open it: those that did are told, and take back
    /// what they had set aside.
    pub fn shut_window(&self, env: &Env, blocks: BlockSet) {
        let open = self.close_window(blocks);
        self.tell_window_closed(env, open);
    }

    fn tell_window_closed(&self, env: &Env, open: BlockSet) {
        if !open.is_empty() {
            self.bottom_up(|s, page| s.window_closed(env, page, open));
        }
    }

    /// Appends the memory of `blocks`, which are in transfer, to `bulk`: all of each block for a read, and exactly
    /// the dirty bytes for a write. Offsets are those of this page's object.
    pub fn bulk(&self, rw: Rw, blocks: BlockSet, bulk: &mut Bulk) {
        let cell = self.folio.cell();
        let state = cell.lock();
        let mut push = |range: std::ops::Range<usize>| {
            let mut at = range.start;
            while let Some(mem) = (at < range.end).then(|| cell.segments().at(at..range.end)).flatten() {
                bulk.push(BulkSegment { offset: self.offset() + at as u64, mem });
                at += mem.len();
            }
        };
        for run in blocks.runs() {
            if rw == Rw::Read || !run.clone().any(|b| state.partial.contains(b)) {
                push(run.start * BLOCK_SIZE as usize..run.end * BLOCK_SIZE as usize);
            } else {
                run.flat_map(|b| cell.dirty_ranges(&state, b)).for_each(&mut push);
            }
        }
    }

    /// Has `sync` told when the transfer of `blocks` (in transfer now) completes, counting blocks.
    pub fn notify(&self, blocks: BlockSet, sync: &Arc<SyncIo>) {
        let mut state = self.folio.cell().lock();
        let pending = blocks.and(state.in_flight());
        if !pending.is_empty() {
            sync.expect(pending.count());
            state.sync.push((pending, sync.clone()));
        }
    }

    /// The transfer of `blocks` is over. Calls the slices bottom to top, then releases the blocks: read ones become
    /// valid, written ones are clean; on failure they are forgotten.
    #[doc(alias = "cl_page_completion")]
    pub fn completion(&self, env: &Env, rw: Rw, blocks: BlockSet, result: &Result<()>) {
        self.bottom_up(|s, page| s.completion(env, page, rw, blocks, result));
        let cell = self.folio.cell();
        let mut state = cell.lock();
        state.set(blocks, PageState::Cached);
        match (rw, result) {
            (Rw::Read, Ok(())) => cell.set_valid(blocks),
            (Rw::Write, Ok(())) => state.partial.remove_all(blocks),
            (_, Err(_)) => cell.forget(&mut state, self.folio.memory(), blocks),
        }
        let mut told = SmallVec::<[(usize, Arc<SyncIo>); 2]>::new();
        state.sync.retain_mut(|(waiting, sync)| {
            let n = waiting.and(blocks).count();
            *waiting = waiting.minus(blocks);
            if n > 0 {
                told.push((n, sync.clone()));
            }
            !waiting.is_empty()
        });
        drop(state);
        cell.changed.notify_all();
        told.iter().for_each(|(n, sync)| sync.note(*n, result));
    }

    /// Invalidates `blocks`: waits for owners and transfers, severs mappings, forgets content, dirty or not.
    #[doc(alias = "cl_page_discard")]
    pub fn discard(&self, env: &Env, blocks: BlockSet) {
        self.bottom_up(|s, page| s.unmap(env, page, blocks));
        let cell = self.folio.cell();
        let mut state = cell.lock();
        while state.owner.is_some() || !state.in_flight().and(blocks).is_empty() {
            state = state.wait(&cell.changed);
        }
        let open = state.window.and(blocks);
        cell.forget(&mut state, self.folio.memory(), blocks);
        drop(state);
        self.tell_window_closed(env, open);
    }

    /// Whether nothing is cached, dirty, in transfer or owned: the page can go.
    pub fn is_unused(&self) -> bool {
        let cell = self.folio.cell();
        let state = cell.lock();
        state.owner.is_none() && state.in_flight().is_empty() && cell.valid().or(cell.dirty()).is_empty()
    }

    /// Evicts the page if nobody uses it and nothing is dirty or in transfer: false if it can't go now.
    pub fn evict(&self, env: &Env) -> bool {
        self.delete_if(env, |state, cell| {
            state.owner.is_none()
                && state.in_flight().is_empty()
                && cell.dirty().is_empty()
                && state.window.or(state.barred).is_empty()
        })
    }

    /// Deletes the page: it is never found again, and goes when the last reference does. Its dirty data, if any, is
    /// dropped: the caller has written it out or means to lose it. Waits for an owner and for transfers.
    #[doc(alias = "cl_page_delete")]
    pub fn delete(&self, env: &Env) {
        let cell = self.folio.cell();
        let idle = |state: &folio::FolioState| state.owner.is_none() && state.in_flight().is_empty();
        loop {
            {
                let mut state = cell.lock();
                while !state.freeing && !idle(&state) {
                    state = state.wait(&cell.changed);
                }
                if state.freeing {
                    return;
                }
            }
            // Somebody may have come to own it in between.
            if self.delete_if(env, |state, _| idle(state)) {
                return;
            }
        }
    }

    /// Deletes the page if it is empty and idle: after an invalidation, when another lock may still cover a part.
    pub fn delete_if_unused(&self, env: &Env) -> bool {
        self.delete_if(env, |state, cell| {
            state.owner.is_none()
                && state.in_flight().is_empty()
                && cell.valid().or(cell.dirty()).or(state.barred).is_empty()
        })
    }

    /// Marks this header dying, has its slices cut their pointers, and takes it out of its index; once.
    fn forget_header(&self, env: &Env) {
        if self.dying.swap(true, Ordering::AcqRel) {
            return;
        }
        self.slices.iter().rev().for_each(|s| s.delete(env, self));
        if let Some(object) = self.object() {
            object.pages().remove(self);
        }
    }

    fn delete_if(&self, env: &Env, may: impl FnOnce(&folio::FolioState, &FolioCell) -> bool) -> bool {
        let cell = self.folio.cell();
        let open = {
            let mut state = cell.lock();
            if state.freeing || !may(&state, cell) {
                return false;
            }
            let open = state.window;
            state.set(self.all_blocks(), PageState::Freeing);
            state.freeing = true;
            let all = self.all_blocks();
            cell.forget(&mut state, self.folio.memory(), all);
            open
        };
        cell.changed.notify_all();
        self.tell_window_closed(env, open);
        let top = self.parent();
        // Bottom to top.
        let (sub, top) = match &self.child {
            Some(child) => (Some(child.as_ref()), Some(self)),
            None => (Some(self), top.as_deref()),
        };
        for page in [sub, top].into_iter().flatten() {
            page.forget_header(env);
        }
        true
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("fid", &self.fid)
            .field("index", &self.index)
            .field("valid", &self.valid())
            .field("dirty", &self.dirty())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PageBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageBuilder").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Reads from the cache alone, without a mutex or a reference count: true if all of `buf` was valid, within one
/// folio. The caller has made sure that the bytes lie below the known size.
#[inline]
pub fn fast_read(object: &Object, offset: u64, buf: &mut [u8]) -> bool {
    let index = object.folio_of(offset);
    let at = (offset & (object.folio_size() - 1)) as usize;
    if buf.is_empty() || at + buf.len() > object.folio_size() as usize {
        return false;
    }
    match object.pages().peek(index) {
        Some(id) => object.slab().cell(id.index).read(id.generation, at, buf),
        None => false,
    }
}

/// Writes into the cache alone, under one mutex: applies where the transfer layer has opened a window for all blocks
/// touched, within one folio, nobody owns the folio, and no block is in transfer. Raises the size and time of
/// the sub-object and of `object`.
///
/// # Errors
/// [`WriteRefusal::NotNow`] if the slow path has to be taken; nothing is changed then.
#[inline]
pub fn fast_write(object: &Object, offset: u64, buf: &[u8], mtime: u64) -> Result<(), WriteRefusal> {
    let index = object.folio_of(offset);
    let at = (offset & (object.folio_size() - 1)) as usize;
    if buf.is_empty() || at + buf.len() > object.folio_size() as usize {
        return Err(WriteRefusal::NotNow);
    }
    let Some(id) = object.pages().peek(index) else { return Err(WriteRefusal::NotNow) };
    let cell = object.slab().cell(id.index);
    let mut state = cell.lock();
    let touched = BlockSet::touching(at as u64, (at + buf.len()) as u64);
    let applies = cell.id(id.index) == id
        && state.owner.is_none()
        && !state.freeing
        && state.window.covers(touched)
        && state.in_flight().and(touched).is_empty();
    if !applies {
        return Err(WriteRefusal::NotNow);
    }
    let end = offset + buf.len() as u64;
    let eof = object.attrs().kms().saturating_sub(offset - at as u64);
    cell.write(&mut state, object.slab().memory().as_ref(), at, buf, eof).map_err(|_| WriteRefusal::NotNow)?;
    // Raised under the folio's mutex: whoever revokes the lock comes after, and sees the size.
    // The sub-object first: whoever sees the file's new size finds it at the stripe too.
    match &state.sub {
        Some((sub, base)) => AttrCell::raise_both(sub, base + (at + buf.len()) as u64, object.attrs(), end, mtime),
        None => object.attrs().raise(end, mtime),
    }
    Ok(())
}
