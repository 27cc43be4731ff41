//! A folio: the memory and the block state that a top-page and its sub-page share.
//!
//! # Protocol
//! All changes happen under the cell's mutex. Changes that a reader without the mutex could notice (data, validity,
//! memory) are bracketed by [`FolioCell::change`], which makes the sequence odd meanwhile. [`FolioCell::read`] copies
//! without the mutex and accepts the copy only if the sequence was even, of the expected generation, and the same
//! before and after. Cells and page memory are never unmapped, so that a reader that is overtaken reads stale
//! bytes, finds out, and discards them.

use super::atomic_blocks::AtomicBlocks;
use super::backing::Backing;
use super::folio_state::FolioState;
use super::segments::Segments;
use super::slab::CellId;
use crate::lockrank::{LockRank, RankedGuard, RankedMutex};
use crate::sync::Condvar;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::units::{BLOCK_SIZE, BlockSet};
use smallvec::SmallVec;
use std::ops::Range;

/// Why a write to a folio was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteRefusal {
    /// No page memory: make room, then try again.
    NoMemory,
    /// The block has too many separate dirty ranges: write it out (or read it) first.
    Fragmented(usize),
    /// The fast path does not apply, or memory that would have to move is in transfer: take the slow path, which
    /// waits.
    NotNow,
}

/// A folio's cell in the slab.
#[derive(Debug)]
pub(super) struct FolioCell {
    /// generation << 32 | count of changes; odd while a change is going on.
    seq: AtomicU64,
    valid: AtomicBlocks,
    dirty: AtomicBlocks,
    segments: Segments,
    /// Looked at since the cache last asked (clock algorithm).
    accessed: AtomicBool,
    state: RankedMutex<FolioState>,
    pub(super) changed: Condvar,
}

impl Default for FolioCell {
    fn default() -> Self {
        Self {
            seq: AtomicU64::new(0),
            valid: AtomicBlocks::default(),
            dirty: AtomicBlocks::default(),
            segments: Segments::default(),
            accessed: AtomicBool::new(false),
            state: RankedMutex::new(LockRank::Folio, FolioState::default()),
            changed: Condvar::new(),
        }
    }
}

impl FolioCell {
    pub(super) fn lock(&self) -> RankedGuard<'_, FolioState> {
        self.state.lock()
    }

    #[inline]
    pub(super) fn generation(&self) -> u32 {
        (self.seq.load(Ordering::Acquire) >> 32) as u32
    }

    /// Starts the life of a folio here; returns its generation.
    pub(super) fn begin_life(&self) -> u32 {
        let _guard = self.state.lock();
        let generation = (self.seq.load(Ordering::Relaxed) >> 32) as u32;
        let generation = generation.wrapping_add(1).max(1);
        self.seq.store(u64::from(generation) << 32, Ordering::Release);
        self.accessed.store(true, Ordering::Relaxed);
        generation
    }

    /// Ends it: memory goes back, and readers of this generation are turned away.
    pub(super) fn end_life(&self, backing: &Backing) {
        let mut state = self.state.lock();
        backing.settle(&mut state, BlockSet::EMPTY);
        self.change(|| {
            self.valid.store(BlockSet::EMPTY);
            self.dirty.store(BlockSet::EMPTY);
            self.segments.detach(backing.memory().as_ref(), BlockSet::EMPTY);
        });
        state.end_life();
        let generation = (self.seq.load(Ordering::Relaxed) >> 32) as u32;
        // Between lives the generation is one that no page ever gets: an odd sequence.
        self.seq.store(u64::from(generation) << 32 | 1, Ordering::Release);
    }

    #[inline]
    pub(super) fn valid(&self) -> BlockSet {
        self.valid.load()
    }

    #[inline]
    pub(super) fn dirty(&self) -> BlockSet {
        self.dirty.load()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.segments.bytes()
    }

    pub(super) fn take_accessed(&self) -> bool {
        self.accessed.swap(false, Ordering::Relaxed)
    }

    pub(super) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Runs `f`, a change that optimistic readers must not see half of. The caller holds the mutex.
    #[inline]
    fn change<R>(&self, f: impl FnOnce() -> R) -> R {
        let seq = self.seq.load(Ordering::Relaxed);
        self.seq.store(seq | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let r = f();
        // The count wraps within its 32 bits, without touching the generation.
        let next = (seq & !0xffff_ffff) | ((seq as u32).wrapping_add(2) & !1) as u64;
        self.seq.store(next, Ordering::Release);
        r
    }

    /// Copies the bytes at `at` to `buf`, without the mutex, if the cell is of generation `generation` and all of
    /// them are valid. False if not, or if they changed meanwhile; `buf` holds anything then.
    #[inline]
    pub(super) fn read(&self, generation: u32, at: usize, buf: &mut [u8]) -> bool {
        let seq = self.seq.load(Ordering::Acquire);
        if (seq >> 32) as u32 != generation || seq & 1 == 1 {
            return false;
        }
        if !self.is_valid(at, buf.len()) || !self.copy_out(at, buf) {
            return false;
        }
        fence(Ordering::Acquire);
        if self.seq.load(Ordering::Relaxed) != seq {
            return false;
        }
        if !self.accessed.load(Ordering::Relaxed) {
            self.accessed.store(true, Ordering::Relaxed);
        }
        true
    }

    #[inline]
    fn is_valid(&self, at: usize, len: usize) -> bool {
        let (first, last) = (at / BLOCK_SIZE as usize, (at + len - 1) / BLOCK_SIZE as usize);
        if first == last {
            return self.valid.has(first);
        }
        self.valid().covers(BlockSet::range(first..last + 1))
    }

    /// Copies out without any check of validity.
    #[inline]
    pub(super) fn copy_out(&self, at: usize, buf: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buf.len() {
            let Some(mem) = self.segments.at(at + done..at + buf.len()) else { return false };
            let n = mem.len();
            mem.read_at(0, &mut buf[done..done + n]);
            done += n;
        }
        true
    }

    /// Writes `buf` at `at`: the caller has checked ownership. `eof` is where the file ended so far, in bytes from
    /// the folio's start: what lies beyond reads as zeros and need not be fetched.
    ///
    /// # Errors
    /// See [`WriteRefusal`]; nothing has been changed then.
    pub(super) fn write(
        &self,
        state: &mut FolioState,
        backing: &Backing,
        at: usize,
        buf: &[u8],
        eof: u64,
    ) -> Result<BlockSet, WriteRefusal> {
        let end = at + buf.len();
        let touched = BlockSet::touching(at as u64, end as u64);
        let full = BlockSet::within(at as u64, end as u64);
        // First and last block at most. Most writes have none.
        let ragged = touched.minus(full);
        for b in ragged.iter() {
            let range = within_block(b, at..end);
            if state.partial.is_full_for(b, &range) {
                return Err(WriteRefusal::Fragmented(b));
            }
        }
        backing.check_room(state, ragged)?;
        if !self.segments.hold(at..end) {
            if !self.segments.growth(touched).and(state.in_flight()).is_empty() {
                return Err(WriteRefusal::NotNow);
            }
            if !self.attach(state, backing, touched) {
                return Err(WriteRefusal::NoMemory);
            }
        }
        backing.claim(state)?;
        self.change(|| {
            let mut valid = self.valid().or(full);
            let dirty = self.dirty();
            for b in ragged.iter() {
                self.dirty_part(state, &mut valid, dirty, b, within_block(b, at..end), eof);
            }
            self.copy_in(at, buf);
            state.partial.remove_all(full);
            self.valid.store(valid);
            self.dirty.store(dirty.or(touched));
        });
        backing.publish(state, &self.segments, touched, ragged);
        if !self.accessed.load(Ordering::Relaxed) {
            self.accessed.store(true, Ordering::Relaxed);
        }
        Ok(touched)
    }

    /// Accounts for a write of a part of block `b`.
    fn dirty_part(
        &self,
        state: &mut FolioState,
        valid: &mut BlockSet,
        dirty: BlockSet,
        b: usize,
        range: Range<usize>,
        eof: u64,
    ) {
        let start = b * BLOCK_SIZE as usize;
        if !valid.contains(b) && !state.partial.contains(b) && start as u64 >= eof {
            // Beyond the end of file: the rest of the block is zeros.
            if let Some(mem) = self.segments.at(start..start + BLOCK_SIZE as usize) {
                mem.zero();
                valid.insert(b);
            }
        }
        let whole_already = dirty.contains(b) && !state.partial.contains(b);
        if !whole_already && state.partial.add(b, range) {
            valid.insert(b);
        }
    }

    fn copy_in(&self, at: usize, buf: &[u8]) {
        let mut done = 0;
        while done < buf.len() {
            let Some(mem) = self.segments.at(at + done..at + buf.len()) else { return };
            let n = mem.len();
            mem.write_at(0, &buf[done..done + n]);
            done += n;
        }
    }

    /// Attaches memory for `blocks`. Blocks in transfer must not move: the caller has made sure that none is, in a
    /// segment that would grow.
    pub(super) fn attach(&self, state: &FolioState, backing: &Backing, blocks: BlockSet) -> bool {
        let keep = self.valid().or(self.dirty());
        let moved = |segment| backing.moved(state, &self.segments, segment);
        self.change(|| self.segments.attach(backing.memory().as_ref(), blocks, keep, moved))
    }

    /// Makes `blocks` valid, after a read.
    pub(super) fn set_valid(&self, blocks: BlockSet) {
        self.change(|| self.valid.store(self.valid().or(blocks)));
    }

    /// Makes `blocks` clean; their dirty ranges stay until the transfer completes.
    pub(super) fn set_clean(&self, blocks: BlockSet) {
        self.dirty.store(self.dirty().minus(blocks));
    }

    /// Forgets the content of `blocks` and gives back memory that nothing else uses.
    pub(super) fn forget(&self, state: &mut FolioState, backing: &Backing, blocks: BlockSet) {
        let valid = self.valid().minus(blocks);
        let dirty = self.dirty().minus(blocks);
        backing.settle(state, dirty);
        self.change(|| {
            self.valid.store(valid);
            self.dirty.store(dirty);
            self.segments.detach(backing.memory().as_ref(), valid.or(dirty).or(state.in_flight()));
        });
        state.partial.remove_all(blocks);
        state.window = state.window.minus(blocks);
    }

    /// Cuts the content at `at`: whole blocks beyond are forgotten, the rest of the block that holds `at` becomes
    /// zeros. None of them may be in transfer.
    pub(super) fn truncate(&self, state: &mut FolioState, backing: &Backing, at: usize, blocks: usize) {
        let first_gone = at.div_ceil(BLOCK_SIZE as usize);
        let block = at / BLOCK_SIZE as usize;
        let within = at % BLOCK_SIZE as usize;
        if within != 0 && (self.valid().contains(block) || self.dirty().contains(block)) {
            let whole = self.dirty().contains(block) && !state.partial.contains(block);
            let left = state.partial.clip(block, within, whole);
            let mut dirty = self.dirty();
            if !left {
                dirty.remove(block);
            }
            backing.clipped(state, block);
            backing.settle(state, dirty);
            self.change(|| {
                self.dirty.store(dirty);
                if let Some(mem) = self.segments.at(at..(block + 1) * BLOCK_SIZE as usize) {
                    mem.zero();
                }
            });
        }
        self.forget(state, backing, BlockSet::range(first_gone.min(blocks)..blocks));
    }

    /// Dirty ranges of block `b` in transfer, in bytes of the folio.
    pub(super) fn dirty_ranges(&self, state: &FolioState, b: usize) -> SmallVec<[Range<usize>; 2]> {
        let start = b * BLOCK_SIZE as usize;
        match state.partial.ranges(b) {
            None => std::iter::once(start..start + BLOCK_SIZE as usize).collect(),
            Some(ranges) => ranges.iter().map(|(s, e)| start + *s as usize..start + *e as usize).collect(),
        }
    }

    pub(super) fn id(&self, index: u32) -> CellId {
        CellId { index, generation: self.generation() }
    }
}

fn within_block(b: usize, bytes: Range<usize>) -> Range<usize> {
    let start = b * BLOCK_SIZE as usize;
    bytes.start.max(start) - start..bytes.end.min(start + BLOCK_SIZE as usize) - start
}
