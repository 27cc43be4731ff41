//! The layout of a staging record, and its decoding from memory that a peer may have written.

use super::Records;
use clio_core::memory::words::LockStamp;
use clio_core::sync::atomic::Ordering;
use clio_core::units::{BLOCK_SIZE, BlockSet, Extent, Fid, MAX_FILE_SIZE, MAX_FOLIO_SIZE};
use clio_core::{Errno, Error, Result};

/// Words of 64 bits in a record: two cache lines.
pub(super) const RECORD_WORDS: usize = 16;

/// Bytes that a record takes up. The table is an array of them; all words are in the machine's byte order.
pub const RECORD_BYTES: usize = RECORD_WORDS * 8;

/// The layout: which word holds what.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(super) enum Word {
    /// See `StateWord`.
    State = 0,
    FidSeq = 1,
    /// `oid << 32 | ver`
    FidOidVer = 2,
    /// Offset in the object, in bytes.
    ObjectOffset = 3,
    /// `length in bytes << 32 | index of the lock word`
    LenLock = 4,
    LockGeneration = 5,
    /// `block of the arena << 32 | write handle`
    MemoryHandle = 6,
    /// Place in the order of this client's writes.
    Order = 7,
    /// Four words: dirty blocks. Only ever added to while the record is Published.
    Blocks = 8,
    /// Four words: the blocks that the drainer took, valid from Draining on.
    Taken = 12,
}

impl Word {
    /// Index of the `i`-th word of a field of four.
    pub(super) fn nth(self, i: usize) -> usize {
        self as usize + i
    }
}

/// What a record says, copied out of shared memory and not checked yet.
///
/// The record covers the bytes `[object_offset, object_offset + len)` of an object, as far as they lie in blocks that
/// are in `blocks`; block 0 is the one that holds the byte at `object_offset`. Block `b` lies in the arena at
/// `memory_offset + b * 4096`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordView {
    /// The object written.
    pub fid: Fid,
    /// First byte in the object.
    pub object_offset: u64,
    /// Length in bytes: all of it must lie in 256 blocks.
    pub len: u32,
    /// Where block 0 lies in the arena, in bytes: a multiple of 4096 below 16 TiB.
    pub memory_offset: u64,
    /// The open file that the write is for, as the daemon named it.
    pub handle: u32,
    /// The lock that the write is under.
    pub stamp: LockStamp,
    /// Place among this client's writes: of two records for the same bytes, the one with the higher order is the
    /// later write. Given by [`Claim::publish`](super::Claim::publish).
    pub order: u64,
    /// Dirty blocks.
    pub blocks: BlockSet,
}

impl RecordView {
    pub(super) fn to_words(self) -> [u64; RECORD_WORDS] {
        let mut words = [0; RECORD_WORDS];
        words[Word::FidSeq as usize] = self.fid.seq;
        words[Word::FidOidVer as usize] = u64::from(self.fid.oid) << 32 | u64::from(self.fid.ver);
        words[Word::ObjectOffset as usize] = self.object_offset;
        words[Word::LenLock as usize] = u64::from(self.len) << 32 | u64::from(self.stamp.index);
        words[Word::LockGeneration as usize] = self.stamp.generation;
        words[Word::MemoryHandle as usize] = (self.memory_offset / BLOCK_SIZE) << 32 | u64::from(self.handle);
        words[Word::Order as usize] = self.order;
        words[Word::Blocks as usize..Word::Taken as usize].copy_from_slice(&self.blocks.0);
        words
    }

    /// Decodes a record's words. Every content has a meaning; whether it makes sense is for
    /// [`RecordView::validate`] to say.
    pub fn from_words(words: &[u64; 16]) -> Self {
        let at = |w: Word| words[w as usize];
        Self {
            fid: Fid {
                seq: at(Word::FidSeq),
                oid: (at(Word::FidOidVer) >> 32) as u32,
                ver: at(Word::FidOidVer) as u32,
            },
            object_offset: at(Word::ObjectOffset),
            len: (at(Word::LenLock) >> 32) as u32,
            memory_offset: (at(Word::MemoryHandle) >> 32) * BLOCK_SIZE,
            handle: at(Word::MemoryHandle) as u32,
            stamp: LockStamp { index: at(Word::LenLock) as u32, generation: at(Word::LockGeneration) },
            order: at(Word::Order),
            blocks: BlockSet(std::array::from_fn(|i| words[Word::Blocks.nth(i)])),
        }
    }

    /// How many blocks the range touches.
    pub(super) fn spanned_blocks(&self) -> u64 {
        (self.object_offset % BLOCK_SIZE + u64::from(self.len)).div_ceil(BLOCK_SIZE)
    }

    /// Checks all that can be checked without tables of who may write what: lengths, offsets, the memory's place in
    /// an arena of `arena_len` bytes, the blocks. The caller still has to check handle and lock.
    ///
    /// # Errors
    /// EBADMSG, saying what is wrong with the record.
    pub fn validate(self, arena_len: u64) -> Result<StagedWrite> {
        let bad = |why: &'static str| Err(Error::new(Errno::EBADMSG, "staging record", why).on(self.fid));
        let in_block = self.object_offset % BLOCK_SIZE;
        if self.len == 0 || in_block + u64::from(self.len) > MAX_FOLIO_SIZE {
            return bad("the length is zero, or more than 256 blocks");
        }
        if self.object_offset.checked_add(self.len.into()).is_none_or(|end| end > MAX_FILE_SIZE) {
            return bad("the write ends past the largest file size");
        }
        let span_bytes = self.spanned_blocks() * BLOCK_SIZE;
        if !self.memory_offset.is_multiple_of(BLOCK_SIZE) {
            return bad("the memory is not aligned to blocks");
        }
        if self.memory_offset.checked_add(span_bytes).is_none_or(|end| end > arena_len) {
            return bad("the memory lies outside the arena");
        }
        if self.blocks.is_empty() || !BlockSet::range(0..self.spanned_blocks() as usize).covers(self.blocks) {
            return bad("no block is dirty, or one outside the range written");
        }
        Ok(StagedWrite(self))
    }
}

/// A record whose content is consistent: see [`RecordView::validate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedWrite(RecordView);

/// A contiguous piece of a staged write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedRun {
    /// Where it goes in the object.
    pub extent: Extent,
    /// Where its first byte lies in the arena.
    pub memory_offset: u64,
}

impl StagedWrite {
    /// The record's fields.
    pub fn record(&self) -> &RecordView {
        &self.0
    }

    /// The bytes written, lowest first: neighbouring blocks make one run.
    pub fn runs(&self) -> impl Iterator<Item = StagedRun> {
        let r = self.0;
        let (base, written) =
            (r.object_offset / BLOCK_SIZE * BLOCK_SIZE, Extent::with_len(r.object_offset, r.len.into()));
        r.blocks.runs().map(move |blocks| {
            let all = Extent::new(
                base + blocks.start as u64 * BLOCK_SIZE,
                base.saturating_add(blocks.end as u64 * BLOCK_SIZE),
            );
            let extent = all.intersect(written);
            StagedRun { extent, memory_offset: r.memory_offset + (extent.start - base) }
        })
    }
}

impl Records {
    /// Copies a record, each word once.
    pub(super) fn read(&self, index: u32) -> RecordView {
        let first = index as usize * RECORD_WORDS;
        RecordView::from_words(&std::array::from_fn(|i| match i {
            // Neither is part of the view.
            0 | 12.. => 0,
            _ => self.0[first + i].load(Ordering::Relaxed),
        }))
    }

    pub(super) fn read_stamp(&self, index: u32) -> LockStamp {
        LockStamp {
            index: self.word(index, Word::LenLock).load(Ordering::Relaxed) as u32,
            generation: self.word(index, Word::LockGeneration).load(Ordering::Relaxed),
        }
    }

    /// Fills a record that is being prepared. The blocks taken are cleared with it.
    pub(super) fn write(&self, index: u32, view: RecordView) {
        let first = index as usize * RECORD_WORDS;
        for (i, word) in view.to_words().into_iter().enumerate().skip(1) {
            self.0[first + i].store(word, Ordering::Relaxed);
        }
    }

    pub(super) fn read_blocks(&self, index: u32, field: Word) -> BlockSet {
        let first = index as usize * RECORD_WORDS;
        BlockSet(std::array::from_fn(|i| self.0[first + field.nth(i)].load(Ordering::Acquire)))
    }

    pub(super) fn store_taken(&self, index: u32, blocks: BlockSet) {
        let first = index as usize * RECORD_WORDS;
        for (i, word) in blocks.0.into_iter().enumerate() {
            self.0[first + Word::Taken.nth(i)].store(word, Ordering::Relaxed);
        }
    }

    pub(super) fn add_blocks(&self, index: u32, blocks: BlockSet) {
        let first = index as usize * RECORD_WORDS;
        for (i, word) in blocks.0.into_iter().enumerate().filter(|(_, word)| *word != 0) {
            self.0[first + Word::Blocks.nth(i)].fetch_or(word, Ordering::AcqRel);
        }
    }
}
