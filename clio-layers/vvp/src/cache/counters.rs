//! What the cache counts, at a cost that the fast path can bear.

use crate::read_ahead::Advice;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;

/// What the page cache has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Page memory in use, in bytes.
    pub used_bytes: u64,
    /// The limit, in bytes.
    pub limit_bytes: u64,
    /// Pages (folios) cached.
    pub pages: u64,
    /// Reads served from the cache alone; counted by sampling, so correct to within a few dozen for each thread.
    pub hits: u64,
    /// Blocks that a read had to wait for.
    pub missed_blocks: u64,
    /// Pages evicted to make room.
    pub evictions: u64,
    /// Dirty pages written out to make room.
    pub pressure_writes: u64,
    /// Bytes to be read ahead of readers. Some are read already by somebody else, or find no memory, or the reader is
    /// faster and fetches them itself.
    pub ahead_issued_bytes: u64,
    /// Of these, bytes that readers have come to.
    pub ahead_hit_bytes: u64,
    /// Of these, bytes that lay ahead of a reader who then turned elsewhere.
    pub ahead_wasted_bytes: u64,
}

/// Counters: relaxed, and off the fast path but for a thread's own tick.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    hits: AtomicU64,
    pub(crate) missed_blocks: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) pressure_writes: AtomicU64,
    ahead_issued_bytes: AtomicU64,
    ahead_hit_bytes: AtomicU64,
    ahead_wasted_bytes: AtomicU64,
}

/// Hits of a thread that go into the counter at once.
const SAMPLE: u32 = 64;

thread_local! {
    static TICK: Cell<u32> = const { Cell::new(0) };
}

impl Counters {
    /// Counts a hit: a step of a thread's own counter, most of the time.
    #[inline]
    pub(crate) fn hit(&self) {
        TICK.with(|tick| {
            let n = tick.get() + 1;
            if n < SAMPLE {
                tick.set(n);
            } else {
                tick.set(0);
                self.hits.fetch_add(u64::from(SAMPLE), Ordering::Relaxed);
            }
        });
    }

    /// Counts what is to be read ahead, and what came of what was.
    pub(crate) fn ahead(&self, advice: &Advice) {
        Self::add(&self.ahead_issued_bytes, advice.ahead.iter().map(|e| e.len()).sum());
        Self::add(&self.ahead_hit_bytes, advice.hit_bytes);
        Self::add(&self.ahead_wasted_bytes, advice.wasted_bytes);
    }

    /// Adds `n` to a counter.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        if n > 0 {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(super) fn stats(&self) -> CacheStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            hits: get(&self.hits),
            missed_blocks: get(&self.missed_blocks),
            evictions: get(&self.evictions),
            pressure_writes: get(&self.pressure_writes),
            ahead_issued_bytes: get(&self.ahead_issued_bytes),
            ahead_hit_bytes: get(&self.ahead_hit_bytes),
            ahead_wasted_bytes: get(&self.ahead_wasted_bytes),
            ..CacheStats::default()
        }
    }
}
