//! The device of this layer, and its slices of objects and pages.

use crate::cache::{PageCache, Slot};
use crate::config::VvpConfig;
use crate::part_writes::PartWrites;
use crate::range_lock::RangeLock;
use crate::read_ahead::Limits;
use clio_core::Result;
use clio_core::env::Env;
use clio_core::io::{Io, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::object::{Device, Object, ObjectBuilder, ObjectSlice};
use clio_core::page::{PageBuilder, PageSlice};
use clio_core::sync::atomic::AtomicU64;
use std::any::Any;
use std::sync::Arc;

/// The device: the top of a file's stack.
pub struct VvpDevice {
    below: Arc<dyn Device>,
    cache: Arc<PageCache>,
    config: VvpConfig,
}

impl VvpDevice {
    /// A device on top of `below`, whose objects' pages count against `cache`.
    pub fn new(below: Arc<dyn Device>, cache: Arc<PageCache>, config: VvpConfig) -> Self {
        Self { below, cache, config }
    }

    /// The page cache.
    pub fn cache(&self) -> &Arc<PageCache> {
        &self.cache
    }
}

impl std::fmt::Debug for VvpDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VvpDevice").field("below", &self.below.layer()).field("config", &self.config).finish()
    }
}

impl Device for VvpDevice {
    fn layer(&self) -> &'static str {
        "vvp"
    }

    fn object_init(&self, env: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        let state = ObjectState {
            cache: self.cache.clone(),
            ranges: RangeLock::default(),
            part_writes: PartWrites::default(),
            access_told: AtomicU64::new(0),
            config: self.config,
        };
        builder.push(Box::new(VvpObject { state: Arc::new(state) }));
        self.below.object_init(env, builder)
    }
}

/// What this layer keeps for a file, shared with its open files.
#[derive(Debug)]
pub(crate) struct ObjectState {
    pub(crate) cache: Arc<PageCache>,
    pub(crate) ranges: RangeLock,
    pub(crate) part_writes: PartWrites,
    /// Time of the last read that somebody was told of, nanoseconds since 1970.
    pub(crate) access_told: AtomicU64,
    config: VvpConfig,
}

impl ObjectState {
    pub(crate) fn read_ahead_limits(&self) -> Limits {
        let share = self.cache.limit_bytes() / 8;
        Limits {
            max_bytes: self.config.read_ahead_max_bytes.min(share),
            small_file_bytes: self.config.small_file_bytes.min(share),
        }
    }
}

/// This layer's slice of an object.
#[derive(Debug)]
pub(crate) struct VvpObject {
    pub(crate) state: Arc<ObjectState>,
}

impl ObjectSlice for VvpObject {
    fn layer(&self) -> &'static str {
        "vvp"
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn page_init(&self, _env: &Env, page: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        let slot = self.state.cache.enter(page.object(), page.index());
        Ok(Some(Box::new(VvpPage { _slot: slot })))
    }

    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(None)
    }

    /// None: the entry points bring their own slice, with the caller's buffers.
    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(None)
    }
}

/// This layer's slice of a page: its place under the clock.
#[derive(Debug)]
struct VvpPage {
    _slot: Slot,
}

impl PageSlice for VvpPage {
    fn layer(&self) -> &'static str {
        "vvp"
    }
}
