//! What a lazy handle has read, and goes on reading.

use clio_core::units::BLOCK_SIZE;
use std::collections::BTreeMap;
use std::ops::Range;

/// Whole blocks, by their number.
#[derive(Debug, Default)]
pub(super) struct Snapshot(BTreeMap<u64, Box<[u8]>>);

impl Snapshot {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.0.len() * BLOCK_SIZE as usize
    }

    /// The first blocks that are missing of `range`, in bytes.
    pub(super) fn missing(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut blocks = range.start / BLOCK_SIZE..range.end.div_ceil(BLOCK_SIZE);
        let first = blocks.find(|block| !self.0.contains_key(block))?;
        let end = blocks.find(|block| self.0.contains_key(block)).unwrap_or(range.end.div_ceil(BLOCK_SIZE));
        Some(first * BLOCK_SIZE..end * BLOCK_SIZE)
    }

    /// Takes in blocks from `offset` on, which is the start of one; `data` is whole blocks.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) {
        let blocks = data.chunks_exact(BLOCK_SIZE as usize).map(Box::from);
        self.0.extend((offset / BLOCK_SIZE..).zip(blocks));
    }

    /// Copies what it has of the bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        for (block, data) in self.0.range(offset / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE)) {
            let (from, to) = overlap(*block, offset, end);
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&data[within(*block, from, to)]);
        }
    }

    /// Puts `bytes` over those blocks that it has of them.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        for (block, data) in self.0.range_mut(offset / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE)) {
            let (from, to) = overlap(*block, offset, end);
            data[within(*block, from, to)].copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        }
    }

    /// Forgets all blocks that have a byte in `range`.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut later = self.0.split_off(&(range.start / BLOCK_SIZE));
        let kept = later.split_off(&range.end.div_ceil(BLOCK_SIZE));
        self.0.extend(kept);
    }
}

/// The bytes of `start..end` that lie in `block`.
fn overlap(block: u64, start: u64, end: u64) -> (u64, u64) {
    (start.max(block * BLOCK_SIZE), end.min((block + 1) * BLOCK_SIZE))
}

/// Bytes of the file as places in their block.
fn within(block: u64, from: u64, to: u64) -> Range<usize> {
    (from - block * BLOCK_SIZE) as usize..(to - block * BLOCK_SIZE) as usize
}
