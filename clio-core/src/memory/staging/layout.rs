//! Which word of a record holds what. Both sides are processes of one machine: words are in its byte order.

use crate::units::BLOCK_SIZE;
use std::ops::Range;

/// Words of 64 bits in a record. The table is an array of them.
pub const RECORD_WORDS: usize = 64;
/// Most ranges of blocks that are dirty in part, in one record.
pub const MAX_RANGES: usize = RANGES.end - RANGES.start;

/// 0 if the record is nobody's, else 1.
pub(super) const STATE: usize = 0;
pub(super) const FID_SEQ: usize = 1;
/// `oid << 32 | ver`
pub(super) const FID_OID_VER: usize = 2;
/// Where the folio starts in its object, in bytes.
pub(super) const OFFSET: usize = 3;
/// Four words: the blocks that are dirty.
pub(super) const DIRTY: usize = 4;
/// Four words: the blocks of which only the ranges are dirty.
pub(super) const IN_PARTS: usize = 8;
/// Sixteen words: the memory of each segment of sixteen blocks, see [`Piece`].
pub(super) const PIECES: usize = 12;
/// One word for each range, see [`Part`].
pub(super) const RANGES: Range<usize> = 28..RECORD_WORDS;

/// Blocks in a segment of a folio, which has memory in one piece.
pub(crate) const SEGMENT_BLOCKS: usize = 16;

/// Memory of a segment: `(block of the shared memory + 1) << 8 | class << 4 | first block`; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Byte offset in the shared memory.
    pub(super) at: u64,
    /// First block in the segment.
    pub(super) first: usize,
    /// 1, 4 or 16.
    pub(super) blocks: usize,
}

impl Piece {
    pub(super) fn pack(self) -> u64 {
        let class = match self.blocks {
            1 => 0,
            4 => 1,
            _ => 2,
        };
        (self.at / BLOCK_SIZE + 1) << 8 | class << 4 | self.first as u64
    }

    /// `None` for no memory, and for what no piece packs to.
    pub(super) fn unpack(word: u64) -> Option<Self> {
        let (class, first) = (word >> 4 & 0xf, (word & 0xf) as usize);
        let at = (word >> 8).checked_sub(1)?.checked_mul(BLOCK_SIZE)?;
        let blocks = match class {
            0 => 1,
            1 => 4,
            2 => SEGMENT_BLOCKS,
            _ => return None,
        };
        first.is_multiple_of(blocks).then_some(Self { at, first, blocks })
    }
}

/// Dirty bytes of a block: `block << 32 | start << 16 | end`; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) block: usize,
    pub(super) start: u16,
    pub(super) end: u16,
}

impl Part {
    pub(super) fn pack(self) -> u64 {
        (self.block as u64) << 32 | u64::from(self.start) << 16 | u64::from(self.end)
    }

    /// `None` for no range, and for what no range packs to.
    pub(super) fn unpack(word: u64) -> Option<Self> {
        let part = Self { block: (word >> 32) as usize, start: (word >> 16) as u16, end: word as u16 };
        (part.block < 256 && part.start < part.end && u64::from(part.end) <= BLOCK_SIZE).then_some(part)
    }

    /// Whether both are of one block, and overlap or touch.
    pub(super) fn meets(self, other: Part) -> bool {
        self.block == other.block && self.start <= other.end && other.start <= self.end
    }
}
