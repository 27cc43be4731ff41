//! The head of a shared arena: what both sides have to find without being told. First a page that says what it is, then
//! the staging records of the arena's user. Page memory comes after it.
//!
//! Like the rest it takes memory only where it is used.

use crate::mapping::Mapping;
use crate::size_class::CHUNK_BYTES;
use clio_core::memory::words::SharedWords;
use clio_core::sync::atomic::Ordering;
use clio_core::units::BLOCK_SIZE;
use std::sync::Arc;

/// First word of an arena whose user keeps records of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"cliorec1");

/// Chunks of page memory for one chunk of head: a record of 512 bytes for 64 KiB.
const DATA_CHUNKS: usize = 128;

/// Chunks that an arena with `data` chunks of page memory has in all.
pub(crate) fn all_chunks(data: usize) -> usize {
    data.max(1) + data.max(1).div_ceil(DATA_CHUNKS)
}

/// How many of the `chunks` of an arena are its head.
pub(crate) fn head_chunks(chunks: usize) -> usize {
    chunks.div_ceil(DATA_CHUNKS + 1)
}

/// The records of the arena in `mapping`; its user marks it by this.
pub(crate) fn mark(mapping: &Arc<Mapping>) -> Option<SharedWords> {
    mapping.words(0, 1)?.first()?.store(MAGIC, Ordering::Release);
    records(mapping)
}

/// The records of the arena in `mapping`; `None` if its user keeps none.
pub(crate) fn records(mapping: &Arc<Mapping>) -> Option<SharedWords> {
    let is_marked = mapping.words(0, 1)?.first()?.load(Ordering::Acquire) == MAGIC;
    let bytes = head_chunks(mapping.len() / CHUNK_BYTES) * CHUNK_BYTES - BLOCK_SIZE as usize;
    is_marked.then(|| mapping.words(BLOCK_SIZE, bytes / 8)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree_on_the_head() {
        for data in (1..2000).chain([1 << 19, 1 << 23]) {
            assert_eq!(all_chunks(data) - head_chunks(all_chunks(data)), data);
        }
    }
}
