//! Memory of a folio: sixteen segments of 64 KiB, each with nothing, or with memory for 1, 4 or 16 of its blocks, so
//! that a folio of which little is used pins little.

pub(super) use crate::memory::staging::SEGMENT_BLOCKS;
use crate::memory::{MemRef, PageMemory};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::units::{BLOCK_SIZE, BlockSet};
use std::ops::Range;
use std::ptr::NonNull;

const SEGMENTS: usize = 16;

/// A segment's memory, packed in a word: the address (block-aligned), and in the low bits the first block that it
/// is for and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    at: NonNull<u8>,
    first: usize,
    blocks: usize,
}

impl Piece {
    fn pack(self) -> u64 {
        let class = match self.blocks {
            1 => 0,
            4 => 1,
            _ => 2,
        };
        self.at.as_ptr().expose_provenance() as u64 | class << 4 | self.first as u64
    }

    #[inline]
    fn unpack(word: u64) -> Option<Self> {
        let at = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>((word & !0xfff) as usize))?;
        Some(Self { at, first: (word & 0xf) as usize, blocks: 1 << (2 * (word >> 4 & 3)) })
    }

    #[expect(unsafe_code, reason = "makes page memory references from packed addresses")]
    fn mem(self) -> MemRef {
        // SAFETY: the address came from a `PageMemory`, which never unmaps what it gave out; exclusive use is
        // governed by the folio's state and sequence.
        unsafe { MemRef::from_raw(self.at, self.blocks * BLOCK_SIZE as usize) }
    }
}

/// The segment table. Changed under the folio's mutex and sequence only; read at any time.
#[derive(Debug, Default)]
pub(super) struct Segments {
    words: [AtomicU64; SEGMENTS],
}

impl Segments {
    /// The memory of the bytes `range` of the folio up to the end of the piece that holds their start; `None` if
    /// there is none for the first of them.
    #[inline]
    pub(super) fn at(&self, range: Range<usize>) -> Option<MemRef> {
        let block = range.start / BLOCK_SIZE as usize;
        let segment = block / SEGMENT_BLOCKS;
        let piece = Piece::unpack(self.words.get(segment)?.load(Ordering::Relaxed))?;
        let start = (segment * SEGMENT_BLOCKS + piece.first) * BLOCK_SIZE as usize;
        let end = start + piece.blocks * BLOCK_SIZE as usize;
        if range.start < start || range.start >= end {
            return None;
        }
        Some(piece.mem().slice(range.start - start..range.end.min(end) - start))
    }

    /// Whether the bytes `range` of the folio all have memory.
    #[inline]
    pub(super) fn hold(&self, range: Range<usize>) -> bool {
        let mut at = range.start;
        while at < range.end {
            match self.at(at..range.end) {
                Some(mem) => at += mem.len(),
                None => return false,
            }
        }
        true
    }

    /// Blocks that have memory.
    pub(super) fn backed(&self) -> BlockSet {
        let mut set = BlockSet::EMPTY;
        for (s, word) in self.words.iter().enumerate() {
            if let Some(p) = Piece::unpack(word.load(Ordering::Relaxed)) {
                let first = s * SEGMENT_BLOCKS + p.first;
                set = set.or(BlockSet::range(first..first + p.blocks));
            }
        }
        set
    }

    /// Bytes of memory attached.
    pub(super) fn bytes(&self) -> usize {
        self.backed().count() * BLOCK_SIZE as usize
    }

    /// All blocks of the segments whose memory would have to grow for `blocks`: while it does, none of them may be in
    /// transfer.
    pub(super) fn growth(&self, blocks: BlockSet) -> BlockSet {
        let missing = blocks.minus(self.backed());
        (0..SEGMENTS).fold(BlockSet::EMPTY, |all, s| {
            let segment = BlockSet::range(s * SEGMENT_BLOCKS..(s + 1) * SEGMENT_BLOCKS);
            if missing.and(segment).is_empty() { all } else { all.or(segment) }
        })
    }

    /// Attaches memory for `blocks`; `keep` names blocks whose content must survive a move to a larger piece. `moved` is
    /// told of each segment whose blocks have moved, before their old memory is given back.
    /// Returns false if memory ran out: what was attached before stays.
    pub(super) fn attach(
        &self,
        memory: &dyn PageMemory,
        blocks: BlockSet,
        keep: BlockSet,
        moved: impl Fn(usize),
    ) -> bool {
        (0..SEGMENTS).all(|s| {
            let base = s * SEGMENT_BLOCKS;
            let wanted = blocks.and(BlockSet::range(base..base + SEGMENT_BLOCKS));
            wanted.is_empty() || self.attach_one(memory, s, wanted, keep, &moved)
        })
    }

    /// The memory of segment `segment`, and its first block there.
    pub(super) fn piece(&self, segment: usize) -> Option<(usize, MemRef)> {
        let piece = Piece::unpack(self.words.get(segment)?.load(Ordering::Relaxed))?;
        Some((piece.first, piece.mem()))
    }

    fn attach_one(
        &self,
        memory: &dyn PageMemory,
        segment: usize,
        wanted: BlockSet,
        keep: BlockSet,
        moved: &impl Fn(usize),
    ) -> bool {
        let base = segment * SEGMENT_BLOCKS;
        let old = Piece::unpack(self.words[segment].load(Ordering::Relaxed));
        let had = old.map_or(BlockSet::EMPTY, |p| BlockSet::range(base + p.first..base + p.first + p.blocks));
        let all = wanted.or(had);
        if had == all {
            return true;
        }
        let (lo, hi) = match (all.iter().next(), all.iter().last()) {
            (Some(lo), Some(hi)) => (lo - base, hi - base),
            _ => return true,
        };
        let blocks = match (lo / 4 == hi / 4, lo == hi) {
            (_, true) => 1,
            (true, _) => 4,
            _ => SEGMENT_BLOCKS,
        };
        let first = lo / blocks * blocks;
        let Some(mem) = memory.alloc(blocks * BLOCK_SIZE as usize) else { return false };
        let Some(at) = NonNull::new(mem.as_ptr()) else { return false };
        if let Some(old) = old {
            for b in keep.and(had).iter() {
                let from = (b - base - old.first) * BLOCK_SIZE as usize;
                let to = (b - base - first) * BLOCK_SIZE as usize;
                let one = BLOCK_SIZE as usize;
                mem.slice(to..to + one).copy_from(old.mem().slice(from..from + one));
            }
        }
        self.words[segment].store(Piece { at, first, blocks }.pack(), Ordering::Relaxed);
        if let Some(old) = old {
            moved(segment);
            memory.free(old.mem());
        }
        true
    }

    /// Detaches the memory of segments none of whose blocks is in `keep`.
    pub(super) fn detach(&self, memory: &dyn PageMemory, keep: BlockSet) {
        for (s, word) in self.words.iter().enumerate() {
            let base = s * SEGMENT_BLOCKS;
            if !keep.and(BlockSet::range(base..base + SEGMENT_BLOCKS)).is_empty() {
                continue;
            }
            if let Some(piece) = Piece::unpack(word.load(Ordering::Relaxed)) {
                word.store(0, Ordering::Relaxed);
                memory.free(piece.mem());
            }
        }
    }
}
