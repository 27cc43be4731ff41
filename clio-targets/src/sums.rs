//! Checksums of bulk data, block by block and as a whole, in one pass over the memory.

use clio_core::memory::MemRef;
use clio_core::target::BulkSegment;
use clio_core::units::BLOCK_SIZE;
use std::sync::OnceLock;

const BLOCK: usize = BLOCK_SIZE as usize;

/// A part of a segment that lies in one block of the object.
pub(crate) struct Piece {
    pub(crate) block: u64,
    /// First byte within the block.
    pub(crate) from: usize,
    pub(crate) mem: MemRef,
}

/// Splits a segment at block boundaries.
pub(crate) fn pieces(seg: &BulkSegment) -> impl Iterator<Item = Piece> + '_ {
    let end = seg.extent().end;
    let mut at = seg.offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (block, from) = (at / BLOCK_SIZE, (at % BLOCK_SIZE) as usize);
            let n = (BLOCK - from).min((end - at) as usize);
            let start = (at - seg.offset) as usize;
            at += n as u64;
            Piece { block, from, mem: seg.mem.slice(start..start + n) }
        })
    })
}

/// crc32c of bytes that come in parts, each with its own.
#[derive(Debug, Default)]
pub(crate) struct RunningSum(u32);

impl RunningSum {
    /// `len` bytes follow, whose crc32c is `crc`.
    pub(crate) fn push(&mut self, crc: u32, len: usize) {
        self.0 = match len {
            BLOCK => shift_by_block(self.0) ^ crc,
            len => crc32c::crc32c_combine(self.0, crc, len),
        };
    }

    /// These bytes follow.
    pub(crate) fn push_bytes(&mut self, mem: &MemRef) {
        if !mem.is_empty() {
            self.0 = mem.crc32c(self.0);
        }
    }

    /// Of all so far.
    pub(crate) fn total(&self) -> u32 {
        self.0
    }
}

/// crc32c of bulk data, and of each part of a segment within one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkSums {
    pieces: Vec<u32>,
    total: u32,
}

impl BulkSums {
    /// Sums `bulk`, all segments in order.
    pub fn of(bulk: &[BulkSegment]) -> Self {
        let mut sums = Vec::with_capacity(bulk.iter().map(|s| s.mem.len() / BLOCK + 2).sum());
        let mut total = RunningSum::default();
        for piece in bulk.iter().flat_map(pieces) {
            let crc = piece.mem.crc32c(0);
            total.push(crc, piece.mem.len());
            sums.push(crc);
        }
        Self { pieces: sums, total: total.total() }
    }

    /// Of all bytes, in order.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Of each piece.
    pub(crate) fn pieces(&self) -> &[u32] {
        &self.pieces
    }
}

/// What `crc` becomes when a block of zeros follows, less that block's own part: combining is linear, and for one
/// length a table of a byte's worth each does it in four steps.
fn shift_by_block(crc: u32) -> u32 {
    static TABLES: OnceLock<Box<[[u32; 256]; 4]>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        let bits: [u32; 32] = std::array::from_fn(|bit| crc32c::crc32c_combine(1 << bit, 0, BLOCK));
        Box::new(std::array::from_fn(|byte| {
            std::array::from_fn(|value| {
                (0..8).filter(|bit| value >> bit & 1 == 1).fold(0, |sum, bit| sum ^ bits[byte * 8 + bit])
            })
        }))
    });
    let bytes = crc.to_le_bytes();
    tables.iter().zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_are_those_of_the_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..40_000),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
            start in 0u64..10_000,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let buffer = crate::conformance::Buffer::new(&bytes);
            let whole = buffer.mem();
            // Every second segment a little further on, so that blocks are met in parts.
            let bulk: Vec<_> = cuts
                .windows(2)
                .scan(start, |at, cut| {
                    let offset = *at;
                    *at += (cut[1] - cut[0]) as u64 + 100;
                    Some(BulkSegment { offset, mem: whole.slice(cut[0]..cut[1]) })
                })
                .collect();
            let sums = BulkSums::of(&bulk);
            prop_assert_eq!(sums.total(), crc32c::crc32c(&bytes));
            let pieces: Vec<_> = bulk.iter().flat_map(pieces).collect();
            prop_assert_eq!(pieces.len(), sums.pieces().len());
            for (piece, sum) in pieces.iter().zip(sums.pieces()) {
                prop_assert_eq!(piece.mem.crc32c(0), *sum);
            }
        }
    }
}
