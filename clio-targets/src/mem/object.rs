//! One object in memory: chunks of 64 KiB that hold what was written, and nothing else.

use crate::bulk;
use clio_core::attr::{Attr, AttrMask};
use clio_core::memory::MemRef;
use clio_core::target::BulkSegment;
use clio_core::units::{BLOCK_SIZE, Extent};
use std::collections::BTreeMap;
use std::ops::Range;

const CHUNK: u64 = 64 << 10;
const CHUNK_BLOCKS: u64 = CHUNK / BLOCK_SIZE;

/// The bytes of one chunk. `data` is only as long as the last block present needs, so that a small object is small.
#[derive(Debug, Default)]
struct Chunk {
    data: Vec<u8>,
    /// One bit a block: written since made or punched. The bytes of other blocks are zero.
    present: u16,
}

/// Bits of the blocks in `blocks` (within one chunk).
fn bits(blocks: Range<u64>) -> u16 {
    let below = |n: u64| ((1u32 << n) - 1) as u16;
    below(blocks.end) & !below(blocks.start)
}

/// An object's bytes and attributes. Sizes and space are plain values here; who may grow is the store's business.
#[derive(Debug, Default)]
pub(super) struct MemObject {
    /// Destroyed: whoever still holds it has to look it up anew.
    pub(super) dead: bool,
    attr: Attr,
    chunks: BTreeMap<u64, Chunk>,
    blocks: u64,
}

/// Splits `[offset, offset + len)` at chunk boundaries: chunk index, bytes within the chunk, position in the whole.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (chunk, from) = (at / CHUNK, at % CHUNK);
            let n = (CHUNK - from).min(end - at);
            let piece = (chunk, from as usize..(from + n) as usize, (at - offset) as usize);
            at += n;
            piece
        })
    })
}

fn touched(range: &Range<usize>) -> u16 {
    bits(range.start as u64 / BLOCK_SIZE..(range.end as u64).div_ceil(BLOCK_SIZE))
}

impl MemObject {
    /// What is left of a destroyed object.
    pub(super) fn dead() -> Self {
        Self { dead: true, ..Self::default() }
    }

    /// Attributes, with space in 512-byte units.
    pub(super) fn attr(&self) -> Attr {
        Attr { kms: self.attr.size, blocks: self.blocks * (BLOCK_SIZE / 512), ..self.attr }
    }

    /// Bytes of memory in use.
    pub(super) fn space(&self) -> u64 {
        self.blocks * BLOCK_SIZE
    }

    /// Bytes of memory that writing `bulk` would take in addition.
    pub(super) fn growth(&self, bulk: &[BulkSegment]) -> u64 {
        let mut new = 0;
        let mut last = (u64::MAX, 0u16);
        for seg in bulk {
            for (index, range, _) in pieces(seg.offset, seg.mem.len()) {
                if last.0 != index {
                    last = (index, self.chunks.get(&index).map_or(0, |c| c.present));
                }
                let add = touched(&range) & !last.1;
                last.1 |= add;
                new += u64::from(add.count_ones());
            }
        }
        new * BLOCK_SIZE
    }

    pub(super) fn write(&mut self, bulk: &[BulkSegment], mtime: u64) {
        for seg in bulk {
            for (index, range, at) in pieces(seg.offset, seg.mem.len()) {
                self.write_piece(index, range, seg.mem, at);
            }
            if !seg.mem.is_empty() {
                self.attr.size = self.attr.size.max(seg.extent().end);
            }
        }
        self.touch(mtime);
    }

    fn write_piece(&mut self, index: u64, range: Range<usize>, mem: MemRef, at: usize) {
        let chunk = self.chunks.entry(index).or_default();
        let need = range.end.next_multiple_of(BLOCK_SIZE as usize);
        if chunk.data.len() < need {
            chunk.data.resize(need, 0);
        }
        mem.read_at(at, &mut chunk.data[range.clone()]);
        let add = touched(&range) & !chunk.present;
        chunk.present |= add;
        self.blocks += u64::from(add.count_ones());
    }

    pub(super) fn read(&self, bulk: &[BulkSegment]) {
        for seg in bulk {
            for (index, range, at) in pieces(seg.offset, seg.mem.len()) {
                let to = seg.mem.slice(at..at + range.len());
                let stored = self.chunks.get(&index).map_or(&[][..], |c| &c.data);
                let have = stored.len().clamp(range.start, range.end) - range.start;
                to.write_at(0, stored.get(range.start..range.start + have).unwrap_or_default());
                to.slice(have..range.len()).zero();
            }
        }
    }

    pub(super) fn punch(&mut self, extent: Extent, mtime: u64) {
        if extent.end == Extent::EOF {
            self.attr.size = extent.start;
        }
        let first = extent.start / CHUNK;
        let last = extent.end.div_ceil(CHUNK);
        let indices: Vec<u64> = self.chunks.range(first..last).map(|(i, _)| *i).collect();
        for index in indices {
            let base = index * CHUNK;
            let from = extent.start.max(base) - base;
            let to = extent.end.min(base.saturating_add(CHUNK)) - base;
            self.punch_chunk(index, from..to);
        }
        self.touch(mtime);
    }

    fn punch_chunk(&mut self, index: u64, range: Range<u64>) {
        let Some(chunk) = self.chunks.get_mut(&index) else { return };
        let len = chunk.data.len() as u64;
        if range.start < len {
            chunk.data[range.start as usize..range.end.min(len) as usize].fill(0);
        }
        let whole = range.start.div_ceil(BLOCK_SIZE)..(range.end / BLOCK_SIZE).max(range.start.div_ceil(BLOCK_SIZE));
        let gone = chunk.present & bits(whole);
        chunk.present &= !gone;
        self.blocks -= u64::from(gone.count_ones());
        if chunk.present == 0 {
            self.chunks.remove(&index);
        }
    }

    pub(super) fn setattr(&mut self, attr: &Attr, mask: AttrMask) {
        bulk::merge(&mut self.attr, attr, mask);
    }

    /// The next block in use, or not in use, at or after `offset`; the caller has checked `offset < size`.
    pub(super) fn seek(&self, offset: u64, hole: bool) -> Option<u64> {
        if hole { Some(self.next_hole(offset)) } else { self.next_data(offset) }
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        self.chunks.range(offset / CHUNK..).find_map(|(index, chunk)| {
            let from = offset.saturating_sub(index * CHUNK) / BLOCK_SIZE;
            let left = chunk.present & bits(from..CHUNK_BLOCKS);
            let at = index * CHUNK + u64::from(left.trailing_zeros()) * BLOCK_SIZE;
            (left != 0).then(|| at.max(offset)).filter(|at| *at < self.attr.size)
        })
    }

    fn next_hole(&self, offset: u64) -> u64 {
        let mut at = offset;
        while let Some(chunk) = self.chunks.get(&(at / CHUNK)) {
            let absent = !chunk.present & bits(at % CHUNK / BLOCK_SIZE..CHUNK_BLOCKS);
            let base = at / CHUNK * CHUNK;
            if absent != 0 {
                at = at.max(base + u64::from(absent.trailing_zeros()) * BLOCK_SIZE);
                break;
            }
            at = base + CHUNK;
        }
        at.min(self.attr.size)
    }

    fn touch(&mut self, mtime: u64) {
        self.attr.mtime = self.attr.mtime.max(mtime);
        self.attr.ctime = self.attr.ctime.max(mtime);
    }
}
