//! A type-stable home for folios: cells are recycled, never freed, so that an optimistic reader may look at a cell
//! that has meanwhile become another folio's, and finds out by its generation.

use super::backing::Backing;
use super::folio::FolioCell;
use crate::lockrank::{LockRank, RankedMutex};
use crate::memory::PageMemory;
use crate::sync::OnceLock;
use std::fmt;
use std::sync::Arc;

// Each cell is some thirty atomics, made anew in each run of a model.
const CHUNK: usize = if cfg!(clio_loom) { 2 } else { 256 };
const MAX_CHUNKS: usize = if cfg!(clio_loom) { 4 } else { 1 << 14 };

/// Names a cell at a generation. A stale one is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl CellId {
    /// Packed into a non-zero word (generations start at 1).
    pub(super) fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The inverse of [`CellId::pack`]; `None` for 0.
    #[inline]
    pub(super) fn unpack(word: u64) -> Option<Self> {
        (word != 0).then_some(Self { index: word as u32, generation: (word >> 32) as u32 })
    }
}

/// All folio cells of a client, and the page memory that they draw on.
pub struct FolioSlab {
    chunks: Box<[OnceLock<Box<[FolioCell]>>]>,
    free: RankedMutex<FreeCells>,
    backing: Backing,
}

#[derive(Debug, Default)]
struct FreeCells {
    recycled: Vec<u32>,
    next: u32,
}

impl FolioSlab {
    /// An empty slab over `memory`.
    pub fn new(memory: Arc<dyn PageMemory>) -> Arc<Self> {
        Arc::new(Self {
            chunks: (0..MAX_CHUNKS).map(|_| OnceLock::new()).collect(),
            free: RankedMutex::new(LockRank::Leaf, FreeCells::default()),
            backing: Backing::new(memory),
        })
    }

    /// The page memory.
    pub fn memory(&self) -> &Arc<dyn PageMemory> {
        self.backing.memory()
    }

    /// The page memory, and where it is said what of it is dirty.
    #[inline]
    pub(super) fn backing(&self) -> &Backing {
        &self.backing
    }

    /// Folios alive.
    pub fn folios(&self) -> usize {
        let free = self.free.lock();
        free.next as usize - free.recycled.len()
    }

    /// A free cell, under a generation that was never used for it before; `None` if there are four million folios.
    pub(super) fn alloc(&self) -> Option<CellId> {
        let index = {
            let mut free = self.free.lock();
            match free.recycled.pop() {
                Some(index) => index,
                None if (free.next as usize) < CHUNK * MAX_CHUNKS => {
                    free.next += 1;
                    free.next - 1
                }
                None => return None,
            }
        };
        let cell = self.cell(index);
        Some(CellId { index, generation: cell.begin_life() })
    }

    /// Takes a cell back; its memory returns to the provider.
    pub(super) fn free(&self, id: CellId) {
        self.cell(id.index).end_life(&self.backing);
        self.free.lock().recycled.push(id.index);
    }

    #[inline]
    pub(super) fn cell(&self, index: u32) -> &FolioCell {
        let chunk = &self.chunks[index as usize / CHUNK];
        let cells = chunk.get_or_init(|| (0..CHUNK).map(|_| FolioCell::default()).collect());
        &cells[index as usize % CHUNK]
    }
}

impl fmt::Debug for FolioSlab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolioSlab").field("folios", &self.folios()).field("memory", self.memory()).finish()
    }
}
