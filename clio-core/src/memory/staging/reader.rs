//! The other half: what a client that is gone has left.

use super::layout::{
    DIRTY, FID_OID_VER, FID_SEQ, IN_PARTS, OFFSET, PIECES, Part, Piece, RANGES, RECORD_WORDS, SEGMENT_BLOCKS, STATE,
};
use crate::memory::words::SharedWords;
use crate::sync::atomic::Ordering;
use crate::units::{BLOCK_SIZE, BlockSet, Extent, Fid, MAX_FILE_SIZE};
use crate::{Errno, Error, Result};
use smallvec::SmallVec;

/// What is staged of one folio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StagedFolio {
    /// The object.
    pub fid: Fid,
    /// What was written, ascending and without overlap.
    pub runs: Vec<StagedRun>,
}

/// A piece of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedRun {
    /// Where it goes in the object.
    pub extent: Extent,
    /// Where its first byte lies in the shared memory.
    pub at: u64,
}

/// What the records in `words` name, of shared memory that is `memory_len` bytes long. Each record is copied once.
///
/// # Errors
/// For each record that makes no sense: see [`decode`].
pub fn read(words: &SharedWords, memory_len: u64) -> impl Iterator<Item = Result<StagedFolio>> + '_ {
    words.chunks_exact(RECORD_WORDS).filter_map(move |record| {
        // Most records are nobody's.
        if record[STATE].load(Ordering::Acquire) == 0 {
            return None;
        }
        let copy = std::array::from_fn(|i| record[i].load(Ordering::Relaxed));
        decode(&copy, memory_len).transpose()
    })
}

/// What a record says, from whatever is in its words; `None` if nothing.
///
/// # Errors
/// `EBADMSG` for what no client that keeps to the rules can leave: memory outside of what is shared, blocks without
/// memory, bytes beyond the largest file size.
pub fn decode(words: &[u64; RECORD_WORDS], memory_len: u64) -> Result<Option<StagedFolio>> {
    let fid = Fid { seq: words[FID_SEQ], oid: (words[FID_OID_VER] >> 32) as u32, ver: words[FID_OID_VER] as u32 };
    let bad = |why: &'static str| Error::new(Errno::EBADMSG, "staging record", why).on(fid);
    let set = |first: usize| BlockSet(std::array::from_fn(|i| words[first + i]));
    let (dirty, in_parts, offset) = (set(DIRTY), set(IN_PARTS), words[OFFSET]);
    if words[STATE] == 0 || dirty.is_empty() {
        return Ok(None);
    }
    if !offset.is_multiple_of(BLOCK_SIZE) {
        return Err(bad("a folio that isn't aligned to blocks"));
    }
    let parts: SmallVec<[Part; 8]> = words[RANGES].iter().filter_map(|word| Part::unpack(*word)).collect();
    let mut runs: Vec<StagedRun> = Vec::new();
    for block in dirty.iter() {
        let piece = Piece::unpack(words[PIECES + block / SEGMENT_BLOCKS]);
        let within = block % SEGMENT_BLOCKS;
        let piece = piece.filter(|p| (p.first..p.first + p.blocks).contains(&within));
        let piece = piece.ok_or_else(|| bad("a dirty block without memory"))?;
        let at = piece.at.checked_add((within - piece.first) as u64 * BLOCK_SIZE);
        let at = at.filter(|at| at.checked_add(BLOCK_SIZE).is_some_and(|end| end <= memory_len));
        let at = at.ok_or_else(|| bad("memory outside of what is shared"))?;
        let start = offset.checked_add(block as u64 * BLOCK_SIZE);
        let start = start.filter(|start| start.checked_add(BLOCK_SIZE).is_some_and(|end| end <= MAX_FILE_SIZE));
        let start = start.ok_or_else(|| bad("bytes beyond the largest file size"))?;
        for bytes in dirty_bytes(block, in_parts, &parts) {
            push(&mut runs, Extent::new(start + bytes.0, start + bytes.1), at + bytes.0);
        }
    }
    Ok((!runs.is_empty()).then_some(StagedFolio { fid, runs }))
}

/// The dirty bytes of `block`, ascending, without overlap.
fn dirty_bytes(block: usize, in_parts: BlockSet, parts: &[Part]) -> SmallVec<[(u64, u64); 2]> {
    let mut bytes = SmallVec::<[(u64, u64); 2]>::new();
    if !in_parts.contains(block) {
        bytes.push((0, BLOCK_SIZE));
        return bytes;
    }
    let own = parts.iter().filter(|p| p.block == block).map(|p| (u64::from(p.start), u64::from(p.end)));
    let mut own: SmallVec<[(u64, u64); 8]> = own.collect();
    own.sort_unstable();
    for (start, end) in own {
        match bytes.last_mut() {
            // A range that was grown, and one that it has taken in.
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => bytes.push((start, end)),
        }
    }
    bytes
}

fn push(runs: &mut Vec<StagedRun>, extent: Extent, at: u64) {
    match runs.last_mut() {
        Some(last) if last.extent.end == extent.start && last.at + last.extent.len() == at => {
            last.extent.end = extent.end
        }
        _ => runs.push(StagedRun { extent, at }),
    }
}
