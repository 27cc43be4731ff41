#![expect(unsafe_code, reason = "raw page memory; each block has its proof")]
//! Page memory whose accesses the model checker sees.
//!
//! Of each 4 KiB block, the first and the last word are atomics of loom: what a racing copy gets of them is every mixture
//! that the memory model allows. The bytes between would only make more of the same; they are plain memory.
//!
//! What is not covered: the assembly copies of x86-64 stand for relaxed accesses here, by assumption.

use super::{MemRef, PageMemory};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::units::BLOCK_SIZE;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

thread_local! {
    /// The words that loom sees, by address. A model runs on one thread of the system.
    static WORDS: RefCell<BTreeMap<usize, Arc<AtomicU64>>> = const { RefCell::new(BTreeMap::new()) };
}

const BLOCK: usize = BLOCK_SIZE as usize;

/// The word at `at`, if loom sees it.
pub(super) fn word(at: *const u8) -> Option<Arc<AtomicU64>> {
    // Asked for every word of a copy: most are neither.
    matches!(at.addr() % BLOCK, 0 | 0xff8).then(|| WORDS.with_borrow(|w| w.get(&at.addr()).cloned())).flatten()
}

/// Page memory for models. To be made and dropped in the same run of one.
#[derive(Debug)]
pub struct LoomMemory {
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    /// All that was ever given out.
    pieces: Vec<MemRef>,
    free: Vec<MemRef>,
    blocks_left: usize,
    used: usize,
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, BLOCK).expect("a length of page memory")
}

impl LoomMemory {
    /// At most `blocks` blocks. What is given back is given out again first.
    pub fn new(blocks: usize) -> Arc<Self> {
        Arc::new(Self { pool: Mutex::new(Pool { pieces: Vec::new(), free: Vec::new(), blocks_left: blocks, used: 0 }) })
    }
}

impl PageMemory for LoomMemory {
    fn alloc(&self, len: usize) -> Option<MemRef> {
        let mut pool = self.pool.lock();
        let mem = match pool.free.iter().position(|m| m.len() == len) {
            Some(at) => pool.free.remove(at),
            None => {
                pool.blocks_left = pool.blocks_left.checked_sub(len / BLOCK)?;
                // SAFETY: page memory is never of length 0.
                let at = NonNull::new(unsafe { alloc_zeroed(layout(len)) })?;
                // SAFETY: just allocated; freed with `self`, after which no model uses it.
                let mem = unsafe { MemRef::from_raw(at, len) };
                let ends = (0..len).step_by(BLOCK).flat_map(|b| [b, b + BLOCK - 8]);
                WORDS.with_borrow_mut(|w| w.extend(ends.map(|o| (at.addr().get() + o, Arc::new(AtomicU64::new(0))))));
                pool.pieces.push(mem);
                mem
            }
        };
        pool.used += len;
        Some(mem)
    }

    fn free(&self, mem: MemRef) {
        let mut pool = self.pool.lock();
        pool.used -= mem.len();
        pool.free.push(mem);
    }

    fn used(&self) -> usize {
        self.pool.lock().used
    }
}

impl Drop for LoomMemory {
    fn drop(&mut self) {
        for mem in std::mem::take(&mut self.pool.get_mut().pieces) {
            let bytes = mem.as_ptr().addr()..mem.as_ptr().addr() + mem.len();
            WORDS.with_borrow_mut(|w| w.retain(|at, _| !bytes.contains(at)));
            // SAFETY: allocated in `alloc` with this layout, and freed once.
            unsafe { dealloc(mem.as_ptr(), layout(mem.len())) }
        }
    }
}
