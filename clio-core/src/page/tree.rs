//! The page index: folios of an object by index.
//!
//! Two views of the same set. A 64-way radix tree of cell names answers [`PageTree::peek`] without a mutex; an
//! ordered map, under one, owns the page headers and answers everything else. Radix nodes live in a table that only
//! grows and goes with the object, so that a reader never meets a freed one; the cell name it finds carries a
//! generation, which is checked when the cell is read.

use super::Page;
use super::slab::CellId;
use crate::env::Env;
use crate::lockrank::{LockRank, RankedMutex};
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::units::PageIndex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const FANOUT_BITS: u32 = 6;
const FANOUT: usize = 1 << FANOUT_BITS;
const FANOUT_MASK: u64 = FANOUT as u64 - 1;

/// Index of an object's pages.
#[derive(Debug)]
pub struct PageTree {
    /// Cell of folio 0: small files need no radix node.
    zero: AtomicU64,
    radix: OnceLock<Box<Radix>>,
    pages: RankedMutex<BTreeMap<u64, Arc<Page>>>,
    len: AtomicUsize,
}

impl Default for PageTree {
    fn default() -> Self {
        Self::new()
    }
}

impl PageTree {
    /// An empty index.
    pub fn new() -> Self {
        Self {
            zero: AtomicU64::new(0),
            radix: OnceLock::new(),
            pages: RankedMutex::new(LockRank::PageIndex, BTreeMap::new()),
            len: AtomicUsize::new(0),
        }
    }

    /// The cell of folio `index`, without a mutex. It may be gone by the time it is looked at: its generation tells.
    #[inline]
    pub(super) fn peek(&self, index: PageIndex) -> Option<CellId> {
        let word = match index.0 {
            0 => self.zero.load(Ordering::Acquire),
            i => self.radix.get()?.get(i),
        };
        CellId::unpack(word)
    }

    /// The page at `index`.
    pub fn get(&self, index: PageIndex) -> Option<Arc<Page>> {
        self.pages.lock().get(&index.0).cloned()
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether there is no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pages in `range`, in order; at most `limit`.
    pub fn range(&self, range: Range<u64>, limit: usize) -> Vec<Arc<Page>> {
        if range.is_empty() {
            return Vec::new();
        }
        self.pages.lock().range(range).take(limit).map(|(_, p)| p.clone()).collect()
    }

    /// Puts `page` in, unless a live page is there already, which is returned then. A dying one is replaced.
    pub(super) fn insert(&self, page: &Arc<Page>) -> Option<Arc<Page>> {
        let index = page.index().0;
        let mut pages = self.pages.lock();
        if let Some(there) = pages.get(&index).filter(|p| !p.is_dying()) {
            return Some(there.clone());
        }
        if pages.insert(index, page.clone()).is_none() {
            self.len.fetch_add(1, Ordering::Relaxed);
        }
        self.set_cell(index, page.cell_id().pack());
        None
    }

    /// Takes `page` out, if it is still there.
    pub(super) fn remove(&self, page: &Page) {
        let index = page.index().0;
        let removed = {
            let mut pages = self.pages.lock();
            if !pages.get(&index).is_some_and(|p| std::ptr::eq(Arc::as_ptr(p), page)) {
                return;
            }
            self.set_cell(index, 0);
            self.len.fetch_sub(1, Ordering::Relaxed);
            pages.remove(&index)
        };
        drop(removed);
    }

    /// Discards and removes every page: the object goes.
    pub(crate) fn clear(&self, env: &Env) {
        loop {
            let some = self.range(0..u64::MAX, 64);
            if some.is_empty() {
                return;
            }
            for page in some {
                page.discard(env, page.all_blocks());
                page.delete(env);
                self.remove(&page);
            }
        }
    }

    /// Caller holds the mutex.
    fn set_cell(&self, index: u64, word: u64) {
        match index {
            0 => self.zero.store(word, Ordering::Release),
            i if word == 0 => {
                if let Some(radix) = self.radix.get() {
                    radix.set(i, 0);
                }
            }
            i => self.radix.get_or_init(Box::default).set(i, word),
        }
    }
}

/// Nodes by number; grows by doubling chunks that are never moved or freed.
#[derive(Debug, Default)]
struct Radix {
    /// height << 32 | node number of the root; height 0: no root yet.
    root: AtomicU64,
    chunks: [OnceLock<Box<[Node]>>; 26],
    used: AtomicUsize,
}

#[derive(Debug)]
struct Node([AtomicU64; FANOUT]);

impl Default for Node {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Radix {
    /// Node `n`, counted from 1. Chunk c holds the nodes 2^c .. 2^(c+1).
    #[inline]
    fn node(&self, n: u64) -> Option<&Node> {
        let chunk = 63 - n.leading_zeros();
        self.chunks.get(chunk as usize)?.get()?.get((n - (1 << chunk)) as usize)
    }

    #[inline]
    fn get(&self, index: u64) -> u64 {
        let root = self.root.load(Ordering::Acquire);
        let mut height = (root >> 32) as u32;
        if height == 0 || (height * FANOUT_BITS < 64 && index >> (height * FANOUT_BITS) != 0) {
            return 0;
        }
        let mut number = root & 0xffff_ffff;
        loop {
            height -= 1;
            let Some(node) = self.node(number) else { return 0 };
            let slot = (index >> (height * FANOUT_BITS) & FANOUT_MASK) as usize;
            let word = node.0[slot].load(Ordering::Acquire);
            if height == 0 || word == 0 {
                return word;
            }
            number = word;
        }
    }

    /// Sets the word at `index`. One writer at a time.
    fn set(&self, index: u64, word: u64) {
        self.grow(index);
        let root = self.root.load(Ordering::Relaxed);
        let mut height = (root >> 32) as u32;
        let mut number = root & 0xffff_ffff;
        loop {
            height -= 1;
            let Some(node) = self.node(number) else { return };
            let slot = &node.0[(index >> (height * FANOUT_BITS) & FANOUT_MASK) as usize];
            if height == 0 {
                slot.store(word, Ordering::Release);
                return;
            }
            number = match slot.load(Ordering::Relaxed) {
                0 if word == 0 => return,
                0 => {
                    let made = self.new_node();
                    slot.store(made, Ordering::Release);
                    made
                }
                there => there,
            };
        }
    }

    /// Makes the tree high enough for `index`.
    fn grow(&self, index: u64) {
        loop {
            let root = self.root.load(Ordering::Relaxed);
            let height = root >> 32;
            if height > 0 && (height * u64::from(FANOUT_BITS) >= 64 || index >> (height * u64::from(FANOUT_BITS)) == 0)
            {
                return;
            }
            let made = self.new_node();
            if height > 0
                && let Some(node) = self.node(made)
            {
                node.0[0].store(root & 0xffff_ffff, Ordering::Relaxed);
            }
            self.root.store((height + 1) << 32 | made, Ordering::Release);
        }
    }

    fn new_node(&self) -> u64 {
        let n = self.used.fetch_add(1, Ordering::Relaxed) as u64 + 1;
        let chunk = 63 - n.leading_zeros();
        self.chunks[chunk as usize].get_or_init(|| (0..1u64 << chunk).map(|_| Node::default()).collect());
        n
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn radix_matches_a_map(ops in prop::collection::vec((prop_oneof![0u64..200, 0u64..100_000, any::<u64>()], 0u64..5), 1..80)) {
            let radix = Radix::default();
            let mut model = BTreeMap::new();
            for (index, word) in ops {
                radix.set(index, word);
                model.insert(index, word);
                for (i, w) in &model {
                    prop_assert_eq!(radix.get(*i), *w);
                }
                prop_assert_eq!(radix.get(index ^ 1), model.get(&(index ^ 1)).copied().unwrap_or(0));
            }
        }
    }
}
