//! Which blocks of the chunks are free: splitting larger ones, joining freed neighbours. Numbers only, no memory.

use crate::size_class::{CHUNK_BLOCKS, SizeClass};

/// A place in the arena, in blocks of 4 KiB from its start.
pub(crate) type BlockNo = u32;

/// The free blocks of all chunks. Every block is free in at most one class, the largest that it could be joined to.
#[derive(Debug, Default)]
pub(crate) struct Buddy {
    chunks: Vec<Chunk>,
    /// For each class a stack of the chunks that have a free block of it, and perhaps of some that no longer do:
    /// these are dropped when met.
    candidates: [Vec<u32>; 4],
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    free: [Slots; 4],
    /// Whether this chunk is in the class's candidates.
    listed: [bool; 4],
}

/// The free blocks of one class in one chunk, a bit for each place that such a block can have.
#[derive(Clone, Debug, Default)]
struct Slots([u64; CHUNK_BLOCKS / 64]);

impl Slots {
    fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|w| *w != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }

    /// `count` bits (at most 16, a power of two) of the aligned group that holds `slot`: their word, and their mask.
    fn group(slot: usize, count: usize) -> (usize, u64) {
        let first = slot / count * count;
        (first / 64, ((1 << count) - 1) << (first % 64))
    }
}

impl Buddy {
    /// Adds one chunk, all free.
    pub(crate) fn add_chunk(&mut self) {
        let chunk = self.chunks.len() as u32;
        self.chunks.push(Chunk::default());
        self.set_free(chunk, SizeClass::M1, 0);
        self.set_free(chunk, SizeClass::M1, 1);
    }

    /// How many chunks there are.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Takes a free block of `class`, splitting a larger one if there is none.
    pub(crate) fn take(&mut self, class: SizeClass) -> Option<BlockNo> {
        if let Some(block) = self.take_exact(class) {
            return Some(block);
        }
        let parent = class.parent()?;
        let block = self.take(parent)?;
        let (chunk, first) = (block / CHUNK_BLOCKS as u32, slot_of(block, class));
        for slot in first + 1..first + parent.blocks() / class.blocks() {
            self.set_free(chunk, class, slot);
        }
        Some(block)
    }

    fn take_exact(&mut self, class: SizeClass) -> Option<BlockNo> {
        let c = class as usize;
        loop {
            let number = *self.candidates[c].last()?;
            let chunk = &mut self.chunks[number as usize];
            if let Some(slot) = chunk.free[c].first() {
                chunk.free[c].0[slot / 64] &= !(1 << (slot % 64));
                return Some(number * CHUNK_BLOCKS as u32 + (slot << class.blocks_log2()) as u32);
            }
            chunk.listed[c] = false;
            self.candidates[c].pop();
        }
    }

    /// Gives a block of `class` back, and joins it with its neighbours if they are all free.
    pub(crate) fn give(&mut self, block: BlockNo, class: SizeClass) {
        let number = block / CHUNK_BLOCKS as u32;
        let slot = slot_of(block, class);
        let slots = &mut self.chunks[number as usize].free[class as usize];
        debug_assert!(slots.0[slot / 64] >> (slot % 64) & 1 == 0, "block {block} is free already");
        if let Some(parent) = class.parent() {
            let (word, mask) = Slots::group(slot, parent.blocks() / class.blocks());
            if slots.0[word] & mask | 1 << (slot % 64) == mask {
                slots.0[word] &= !mask;
                return self.give(block & !(parent.blocks() as u32 - 1), parent);
            }
        }
        self.set_free(number, class, slot);
    }

    fn set_free(&mut self, number: u32, class: SizeClass, slot: usize) {
        let (c, chunk) = (class as usize, &mut self.chunks[number as usize]);
        chunk.free[c].0[slot / 64] |= 1 << (slot % 64);
        if !chunk.listed[c] {
            chunk.listed[c] = true;
            self.candidates[c].push(number);
        }
    }

    /// Bytes free in blocks of each class.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> [usize; 4] {
        SizeClass::ALL.map(|class| {
            let count = |c: &Chunk| c.free[class as usize].0.iter().map(|w| w.count_ones() as usize).sum::<usize>();
            self.chunks.iter().map(count).sum::<usize>() * class.bytes()
        })
    }
}

/// The place of `block` among the blocks of `class` of its chunk.
fn slot_of(block: BlockNo, class: SizeClass) -> usize {
    (block as usize % CHUNK_BLOCKS) >> class.blocks_log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_chunk_is_joined_again_in_any_order_of_freeing() {
        for class in SizeClass::ALL {
            for step in [1, 3, 5, 7] {
                let mut buddy = Buddy::default();
                buddy.add_chunk();
                let blocks: Vec<_> = std::iter::from_fn(|| buddy.take(class)).collect();
                assert_eq!(blocks.len(), CHUNK_BLOCKS / class.blocks());
                assert_eq!(buddy.free_bytes(), [0; 4]);
                for i in 0..blocks.len() {
                    buddy.give(blocks[if blocks.len() > 2 { i * step % blocks.len() } else { i }], class);
                }
                assert_eq!(buddy.free_bytes(), [0, 0, 0, 2 << 20], "{class:?} freed in steps of {step}");
            }
        }
    }

    #[test]
    fn the_smallest_sufficient_block_is_split() {
        let mut buddy = Buddy::default();
        buddy.add_chunk();
        buddy.take(SizeClass::K16).unwrap();
        buddy.take(SizeClass::K4).unwrap();
        assert_eq!(buddy.free_bytes(), [12 << 10, 32 << 10, 960 << 10, 1 << 20]);
    }
}
