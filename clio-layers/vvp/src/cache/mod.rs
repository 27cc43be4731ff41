//! The page cache: a budget for page memory, and who gives some back when it is spent.

mod counters;
mod reclaim;
mod slots;

pub use counters::CacheStats;
pub(crate) use counters::Counters;
pub(crate) use slots::Slot;

use clio_core::env::Env;
use clio_core::object::Object;
use clio_core::page::FolioSlab;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::units::PageIndex;
use slots::Slots;
use std::sync::Arc;

/// The budget of all objects that share a [`FolioSlab`], and the clock over their pages.
///
/// The limit is soft: who needs room first evicts clean pages, least recently used first, then has dirty ones written
/// out, and goes beyond the limit only if nothing can go. What the page memory itself refuses is `ENOMEM` to a caller
/// for whom no room can be made.
#[derive(Debug)]
pub struct PageCache {
    slab: Arc<FolioSlab>,
    limit_bytes: AtomicU64,
    slots: Slots,
    counters: Counters,
}

impl PageCache {
    /// An empty cache over the folios of `slab`, for up to `limit_bytes` of page memory.
    pub fn new(slab: Arc<FolioSlab>, limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            slab,
            limit_bytes: AtomicU64::new(limit_bytes),
            slots: Slots::default(),
            counters: Counters::default(),
        })
    }

    /// The limit in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit, and makes room down to it. Blocks on write-out.
    pub fn set_limit_bytes(&self, env: &Env, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
        self.reserve(env, 0);
    }

    /// Page memory in use, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.slab.memory().used() as u64
    }

    /// Counters since the start.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            used_bytes: self.used_bytes(),
            limit_bytes: self.limit_bytes(),
            pages: self.slots.len() as u64,
            ..self.counters.stats()
        }
    }

    /// Makes room for `bytes` more, as far as that is possible. Blocks on write-out; the caller owns no page and holds
    /// no mutex. Called before an IO takes its locks: the budget comes before them in the lock order.
    pub fn reserve(&self, env: &Env, bytes: u64) {
        let over = self.used_bytes().saturating_add(bytes).saturating_sub(self.limit_bytes());
        if over > 0 {
            // A little more than needed, so that not every IO of a stream comes here.
            self.reclaim(env, over + self.limit_bytes() / 64);
        }
    }

    /// Whether `bytes` more are within the limit.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.limit_bytes()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a page that is being made under the clock, for as long as the slot lives.
    pub(crate) fn enter(self: &Arc<Self>, object: &Arc<Object>, index: PageIndex) -> Slot {
        Slot::enter(self, object, index)
    }
}
