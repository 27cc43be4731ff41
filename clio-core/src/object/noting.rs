//! A layer for the tests of the site: it notes what becomes of its objects.

use super::*;
use crate::env::EnvTags;
use crate::io::{Io, IoSlice};
use crate::lock::{LockDescr, LockSlice};
use crate::memory::{MemRef, PageMemory};
use crate::page::{PageBuilder, PageSlice};
use std::any::Any;
// Not loom's: what is noted is no part of what is checked.
use std::sync::atomic::AtomicBool;

#[derive(Debug)]
struct NoMemory;

impl PageMemory for NoMemory {
    fn alloc(&self, _: usize) -> Option<MemRef> {
        None
    }
    fn free(&self, _: MemRef) {}
    fn used(&self) -> usize {
        0
    }
}

/// A site that keeps `idle_objects` that nobody uses.
pub(super) fn site(idle_objects: usize) -> Arc<Site> {
    Site::new(SiteLimits { idle_objects }, FolioSlab::new(Arc::new(NoMemory)))
}

pub(super) fn env() -> Env {
    Env::get(EnvTags::ANY)
}

/// The stack of one layer.
pub(super) struct Noting;

/// Its slice.
#[derive(Default)]
struct Note {
    deleted: AtomicBool,
}

impl Device for Noting {
    fn layer(&self) -> &'static str {
        "noting"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(Note::default()));
        Ok(())
    }
}

impl ObjectSlice for Note {
    fn layer(&self) -> &'static str {
        "noting"
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }
    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(None)
    }
    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(None)
    }
    fn delete(&self, _: &Env, _: &Arc<Object>) {
        let again = self.deleted.swap(true, std::sync::atomic::Ordering::SeqCst);
        assert!(!again, "deleted twice");
    }
}

/// The object `n`.
pub(super) fn find(site: &Arc<Site>, n: u64) -> ObjectRef {
    site.find(&env(), Fid::new(1, n as u32), &Noting, &ObjectConf::default()).expect("find")
}

/// Whether the layer was told that the object goes.
pub(super) fn is_deleted(object: &Object) -> bool {
    object.slice_of::<Note>().expect("its slice").deleted.load(std::sync::atomic::Ordering::SeqCst)
}
