//! Pages: folios of a file in the cache, as top-page and sub-page over one memory.

mod atomic_blocks;
mod backing;
mod bar;
mod fast;
mod folio;
mod folio_state;
mod list;
mod owned;
mod ownership;
mod partial;
mod removal;
mod segments;
mod slab;
mod slice;
mod state;
mod sync_io;
mod transfer;
mod tree;

#[cfg(all(test, not(clio_loom)))]
mod backing_tests;

#[cfg(all(test, clio_loom))]
mod loom_tests;
#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use bar::WindowBar;
pub use fast::{fast_read, fast_write};
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
use crate::object::Object;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::units::{BLOCK_SIZE, BlockSet, Extent, Fid, PageIndex};
use backing::Backing;
use folio::FolioCell;
use folio_state::Sub;
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

    fn backing(&self) -> &Backing {
        self.slab.backing()
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
        if page.folio.cell().lock().is_freeing() {
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
            let sub = Sub { fid: object.fid(), attrs: object.attrs().clone(), offset: index.0 * object.folio_size() };
            folio.cell().lock().sub = Some(sub);
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
