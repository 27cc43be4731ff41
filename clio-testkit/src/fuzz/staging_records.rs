//! Staging records: the drainer must not trust what a client left in shared memory.

use super::{Verdict, refused};
use clio_arena::staging::{RECORD_BYTES, RecordView};
use clio_core::Errno;
use clio_core::units::{BLOCK_SIZE, BlockSet, MAX_FILE_SIZE, MAX_FOLIO_SIZE};

const WORDS: usize = RECORD_BYTES / 8;
/// Words that belong to the protocol, not to the record: the state, and the blocks that the drainer took.
const FOREIGN: [usize; 5] = [0, 12, 13, 14, 15];

/// The length of the arena, then the words of a record, eight bytes each, little-endian; what is cut off is zeros.
pub fn staging_records(input: &[u8]) -> Verdict {
    let mut all = [[0; 8]; 1 + WORDS];
    all.as_flattened_mut().iter_mut().zip(input).for_each(|(to, from)| *to = *from);
    let [arena_len, words @ ..] = all.map(u64::from_le_bytes);
    let view = RecordView::from_words(&words);
    let mut own = words;
    FOREIGN.iter().for_each(|i| own[*i] = 0);
    assert_eq!(words_of(&view), own, "all that the words say is in the view");
    let staged = match view.validate(arena_len) {
        Ok(staged) => staged,
        Err(e) => return refused(&e, &[Errno::EBADMSG]),
    };
    assert_eq!(*staged.record(), view);
    assert!(view.validate(u64::MAX).is_ok(), "a larger arena holds it too");

    let (start, len) = (view.object_offset, u64::from(view.len));
    assert!(len > 0 && len <= MAX_FOLIO_SIZE && start + len <= MAX_FILE_SIZE);
    let first_block = start / BLOCK_SIZE;
    let (mut last_end, mut blocks) = (0, BlockSet::EMPTY);
    for run in staged.runs() {
        let e = run.extent;
        assert!(!e.is_empty() && e.start >= start && e.end <= start + len, "{run:?} in what was written");
        assert!(last_end == 0 || e.start > last_end, "runs are in order and don't touch");
        last_end = e.end;
        assert_eq!(run.memory_offset - view.memory_offset, e.start - first_block * BLOCK_SIZE);
        assert!(run.memory_offset + e.len() <= arena_len, "{run:?} in the arena");
        (e.start / BLOCK_SIZE..e.end.div_ceil(BLOCK_SIZE)).for_each(|b| blocks.insert((b - first_block) as usize));
    }
    assert_eq!(blocks, view.blocks, "the runs are the dirty blocks");
    Verdict::Accepted
}

/// The layout of a record, written down a second time.
pub(super) fn words_of(v: &RecordView) -> [u64; WORDS] {
    let pair = |high: u64, low: u32| high << 32 | u64::from(low);
    let [b0, b1, b2, b3] = v.blocks.0;
    [
        0,
        v.fid.seq,
        pair(v.fid.oid.into(), v.fid.ver),
        v.object_offset,
        pair(v.len.into(), v.stamp.index),
        v.stamp.generation,
        pair(v.memory_offset / BLOCK_SIZE, v.handle),
        v.order,
        b0,
        b1,
        b2,
        b3,
        0,
        0,
        0,
        0,
    ]
}
