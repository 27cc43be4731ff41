//! Objects: files (top-objects) and stripes (sub-objects), with one slice for each layer.

mod attrs;
mod latch;
mod site;
mod slice;
mod table;

#[cfg(all(test, clio_loom))]
mod loom_tests;
#[cfg(test)]
mod noting;
#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use attrs::{AttrCell, AttrGroup};
pub use latch::{ErrorCursor, ErrorLatch};
pub use site::{ObjectRef, Site, SiteLimits};
pub use slice::{Device, Glimpse, ObjectConf, ObjectSlice, SubObjectConf};

use crate::attr::{Attr, AttrMask};
use crate::env::Env;
use crate::error::{Errno, Error, Result};
use crate::lock::LockList;
use crate::page::{FolioSlab, PageTree};
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::units::{Fid, MAX_FOLIO_SIZE, PageIndex};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

type Slices = SmallVec<[Box<dyn ObjectSlice>; 2]>;

/// The header of an object: identity, attributes, pages and locks, and the slices of its layers, top first.
#[doc(alias = "cl_object_header")]
pub struct Object {
    fid: Fid,
    slices: OnceLock<Slices>,
    attrs: Arc<AttrCell>,
    group: Arc<AttrGroup>,
    pages: PageTree,
    locks: LockList,
    slab: Arc<FolioSlab>,
    folio_shift: AtomicU32,
    parent: Option<SubObjectConf>,
    errors: ErrorLatch,
    dying: AtomicBool,
    /// References by [`ObjectRef`]: at none, the object rests in the site's LRU, or is destroyed if dying.
    users: AtomicUsize,
    /// Whether the site's LRU has an entry for it, and whether it was used since that entry was made.
    in_lru: AtomicBool,
    referenced: AtomicBool,
    destroyed: AtomicBool,
}

impl Object {
    /// Identity.
    pub fn fid(&self) -> Fid {
        self.fid
    }

    /// The slices, top first.
    pub fn slices(&self) -> &[Box<dyn ObjectSlice>] {
        self.slices.get().map_or(&[], |s| s)
    }

    /// The slice that is a `T`, if that layer lets itself be found ([`ObjectSlice::as_any`]).
    pub fn slice_of<T: 'static>(&self) -> Option<&T> {
        self.slices().iter().find_map(|s| s.as_any()?.downcast_ref())
    }

    /// Attributes as they are now, without a lock: see [`AttrCell`].
    #[inline]
    pub fn attrs(&self) -> &Arc<AttrCell> {
        &self.attrs
    }

    /// The cached pages.
    #[inline]
    pub fn pages(&self) -> &PageTree {
        &self.pages
    }

    /// The cached locks.
    pub fn locks(&self) -> &LockList {
        &self.locks
    }

    /// Where this object's folios live.
    pub fn slab(&self) -> &Arc<FolioSlab> {
        &self.slab
    }

    /// Errors of asynchronous writes, to be reported at fsync and close. Those of a file are kept at its top-object:
    /// see [`Object::latch_error`].
    pub fn errors(&self) -> &ErrorLatch {
        &self.errors
    }

    /// Keeps the error of an asynchronous write, at this object and, for a sub-object, at its file.
    pub fn latch_error(&self, error: &Error) {
        self.errors.latch(error);
        if let Some(top) = self.parent.as_ref().and_then(|p| p.top.upgrade()) {
            top.errors.latch(error);
        }
    }

    /// Place in its file, for a sub-object.
    pub fn parent(&self) -> Option<&SubObjectConf> {
        self.parent.as_ref()
    }

    /// Whether this is a stripe of a file.
    pub fn is_sub(&self) -> bool {
        self.parent.is_some()
    }

    /// Size of this object's folios in bytes: a power of two from 4 KiB to 1 MiB.
    #[inline]
    pub fn folio_size(&self) -> u64 {
        1 << self.folio_shift.load(Ordering::Relaxed)
    }

    /// The folio that contains the byte at `offset`.
    #[inline]
    pub fn folio_of(&self, offset: u64) -> PageIndex {
        PageIndex(offset >> self.folio_shift.load(Ordering::Relaxed))
    }

    /// Changes the folio size. Only while the object has no page.
    ///
    /// # Panics
    /// If the object has pages, or the size is not one that folios can have: programming errors.
    pub fn set_folio_size(&self, size: u64) {
        assert!(size.is_power_of_two() && (4096..=MAX_FOLIO_SIZE).contains(&size), "folio size {size}");
        assert!(self.pages.is_empty() || size == self.folio_size(), "folio size changed under cached pages");
        self.folio_shift.store(size.trailing_zeros(), Ordering::Relaxed);
    }

    /// Whether the object is on its way out: marked not to be cached ("do not cache" in CLIO).
    pub fn is_dying(&self) -> bool {
        self.dying.load(Ordering::SeqCst)
    }

    /// Marks the object not to be cached: it is never found again, and is destroyed when the last reference goes.
    pub fn kill(&self) {
        self.dying.store(true, Ordering::SeqCst);
    }

    /// All attributes, merged over the layers under the attribute lock.
    ///
    /// # Errors
    /// What a layer says.
    #[doc(alias = "cl_object_attr_get")]
    pub fn attr_get(&self, env: &Env) -> Result<Attr> {
        let version = self.group.lock();
        let mut attr = self.attrs.load();
        for slice in self.slices() {
            slice.attr_get(env, *version, &mut attr)?;
        }
        Ok(attr)
    }

    /// Sets the attributes of `mask` at this object and tells the layers, under the attribute lock. Setting those of
    /// a sub-object makes its top-object merge anew.
    ///
    /// # Errors
    /// What a layer says.
    #[doc(alias = "cl_object_attr_update")]
    pub fn attr_update(&self, env: &Env, attr: &Attr, mask: AttrMask) -> Result<()> {
        let mut version = self.group.lock();
        self.attrs.store(attr, mask);
        if self.is_sub() {
            *version += 1;
        }
        self.slices().iter().rev().try_for_each(|s| s.attr_update(env, attr, mask))
    }

    /// Changes attributes by a function of the present ones, under the attribute lock: for read-modify-write such
    /// as "raise KMS" or "cut size". The result replaces all attributes of `mask`.
    pub fn attr_modify(&self, mask: AttrMask, change: impl FnOnce(&mut Attr)) {
        let mut version = self.group.lock();
        let mut attr = self.attrs.load();
        change(&mut attr);
        self.attrs.store(&attr, mask);
        if self.is_sub() {
            *version += 1;
        }
    }

    /// Brings size and times up to date from the targets. Blocks.
    ///
    /// # Errors
    /// What a target says.
    pub fn glimpse(self: &Arc<Self>, env: &Env) -> Result<Attr> {
        self.begin_glimpse(env)?.into_iter().try_for_each(Glimpse::finish)?;
        self.attr_get(env)
    }

    /// Starts to ask the targets, all at once, and returns the answers to come. A layer that splits objects asks all its
    /// sub-objects before it waits for one.
    ///
    /// # Errors
    /// What keeps a target from being asked.
    pub fn begin_glimpse(self: &Arc<Self>, env: &Env) -> Result<SmallVec<[Box<dyn Glimpse>; 1]>> {
        self.slices().iter().filter_map(|slice| slice.glimpse(env, self).transpose()).collect()
    }

    /// Drops cached pages and locks, bottom to top. Blocks.
    ///
    /// # Errors
    /// The first write error; everything is dropped all the same.
    pub fn prune(self: &Arc<Self>, env: &Env, discard: bool) -> Result<()> {
        let mut first = Ok(());
        for slice in self.slices().iter().rev() {
            first = first.and(slice.prune(env, self, discard));
        }
        first
    }

    /// The sub-object and the index in it that the folio `index` belongs to; `None` where no layer splits.
    pub fn child_of(&self, index: PageIndex) -> Option<(Arc<Object>, PageIndex)> {
        self.slices().iter().find_map(|s| s.child_of(index))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<_> = self.slices().iter().map(|s| s.layer()).collect();
        f.debug_struct("Object").field("fid", &self.fid).field("layers", &layers).finish_non_exhaustive()
    }
}

/// An object under construction, handed down the device stack.
#[derive(Debug)]
pub struct ObjectBuilder {
    object: Arc<Object>,
    conf: ObjectConf,
    site: Arc<Site>,
    slices: SlicesDebug,
}

struct SlicesDebug(Slices);

impl fmt::Debug for SlicesDebug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|s| s.layer())).finish()
    }
}

impl ObjectBuilder {
    fn new(site: &Arc<Site>, fid: Fid, conf: ObjectConf) -> Result<Self> {
        let group = match &conf.parent {
            None => Arc::new(AttrGroup::default()),
            Some(p) => match p.top.upgrade() {
                Some(top) => top.group.clone(),
                None => return Err(Error::new(Errno::ESTALE, "find", "the file of this stripe is gone").on(fid)),
            },
        };
        let rank_sub = conf.parent.is_some();
        let folio_size = conf.folio_size.unwrap_or(MAX_FOLIO_SIZE);
        let attrs = AttrCell::default();
        attrs.store(&conf.attr, AttrMask::all());
        let object = Arc::new(Object {
            fid,
            slices: OnceLock::new(),
            attrs: Arc::new(attrs),
            group,
            pages: PageTree::new(),
            locks: LockList::new(rank_sub),
            slab: site.slab().clone(),
            folio_shift: AtomicU32::new(folio_size.trailing_zeros()),
            parent: conf.parent.clone(),
            errors: ErrorLatch::default(),
            dying: AtomicBool::new(false),
            users: AtomicUsize::new(0),
            in_lru: AtomicBool::new(false),
            referenced: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
        });
        Ok(Self { object, conf, site: site.clone(), slices: SlicesDebug(Slices::new()) })
    }

    /// The header.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// What the object is made from.
    pub fn conf(&self) -> &ObjectConf {
        &self.conf
    }

    /// The site that the object will live in: where sub-objects are found.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Adds a layer's slice below those already there.
    pub fn push(&mut self, slice: Box<dyn ObjectSlice>) {
        self.slices.0.push(slice);
    }

    fn finish(self) -> Arc<Object> {
        let _ = self.object.slices.set(self.slices.0);
        self.object
    }
}
