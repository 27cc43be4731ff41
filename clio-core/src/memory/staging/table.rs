//! The client's half: records are claimed, filled, changed and given back.

use super::layout::{DIRTY, FID_OID_VER, FID_SEQ, IN_PARTS, OFFSET, PIECES, Part, Piece, RANGES, RECORD_WORDS, STATE};
use crate::lockrank::{LockRank, RankedMutex};
use crate::memory::MemRef;
use crate::memory::words::SharedWords;
use crate::sync::atomic::Ordering;
use crate::units::{BLOCK_SIZE, BlockSet, Fid};

/// Names a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordIndex(u32);

/// The records of one client. Each is changed by one thread at a time: whoever holds its folio's mutex.
#[derive(Debug)]
pub struct StagingTable {
    words: SharedWords,
    /// Where the shared memory starts here.
    memory: MemRef,
    free: RankedMutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Given back; the last one is still in the CPU's cache.
    recycled: Vec<u32>,
    next: u32,
}

impl StagingTable {
    /// A table in `words`, which are all zero, for page memory that lies in `memory`.
    pub fn new(words: SharedWords, memory: MemRef) -> Self {
        Self { words, memory, free: RankedMutex::new(LockRank::Leaf, Free { recycled: Vec::new(), next: 0 }) }
    }

    /// A record for the folio at byte `offset` of object `fid`, which names nothing yet. `None` if all are in use.
    pub fn claim(&self, fid: Fid, offset: u64) -> Option<RecordIndex> {
        let index = {
            let mut free = self.free.lock();
            match free.recycled.pop() {
                Some(index) => index,
                None if (free.next as usize) < self.words.len() / RECORD_WORDS => {
                    free.next += 1;
                    free.next - 1
                }
                None => return None,
            }
        };
        let record = RecordIndex(index);
        self.store(record, FID_SEQ, fid.seq);
        self.store(record, FID_OID_VER, u64::from(fid.oid) << 32 | u64::from(fid.ver));
        self.store(record, OFFSET, offset);
        self.store(record, STATE, 1);
        Some(record)
    }

    /// Gives back a record, which must name nothing any more.
    pub fn give_back(&self, record: RecordIndex) {
        debug_assert!(self.named(record).is_empty(), "a record is given back that names dirty blocks");
        self.store(record, STATE, 0);
        self.free.lock().recycled.push(record.0);
    }

    /// Records in use.
    pub fn in_use(&self) -> usize {
        let free = self.free.lock();
        free.next as usize - free.recycled.len()
    }

    /// The memory of segment `segment`: `mem`, from the segment's block `first` on. The content of what is dirty is in it.
    pub fn set_piece(&self, record: RecordIndex, segment: usize, first: usize, mem: MemRef) {
        let at = (mem.as_ptr() as usize).wrapping_sub(self.memory.as_ptr() as usize) as u64;
        debug_assert!(at + mem.len() as u64 <= self.memory.len() as u64, "page memory from elsewhere");
        let piece = Piece { at, first, blocks: mem.len() / BLOCK_SIZE as usize };
        self.store(record, PIECES + segment, piece.pack());
    }

    /// Names `blocks`, whose pieces and ranges are set.
    pub fn add(&self, record: RecordIndex, blocks: BlockSet) {
        self.set(record, DIRTY, blocks, true);
    }

    /// Names `blocks` no more. True if nothing is named then.
    pub fn remove(&self, record: RecordIndex, blocks: BlockSet) -> bool {
        self.set(record, DIRTY, blocks, false);
        self.set_whole(record, blocks);
        self.named(record).is_empty()
    }

    /// The blocks that are named.
    pub fn named(&self, record: RecordIndex) -> BlockSet {
        self.get(record, DIRTY)
    }

    /// Of `block`, only the bytes `ranges` are dirty: ascending, and apart from each other. There are never more than
    /// [`MAX_RANGES`](super::MAX_RANGES) in a record.
    pub fn set_ranges(&self, record: RecordIndex, block: usize, ranges: &[(u16, u16)]) {
        let was_whole = !self.get(record, IN_PARTS).contains(block);
        let mut kept = 0u64;
        for (start, end) in ranges {
            let wanted = Part { block, start: *start, end: *end };
            // One that it grows from, or shrinks to it; or else a free one.
            let used =
                self.parts(record).find(|(word, part)| kept >> word & 1 == 0 && !was_whole && part.meets(wanted));
            let place = used.map(|(word, _)| word).or_else(|| RANGES.clone().find(|w| self.load(record, *w) == 0));
            let Some(word) = place else {
                debug_assert!(false, "more ranges than a record has room for");
                return;
            };
            kept |= 1 << word;
            self.store(record, word, wanted.pack());
        }
        let stale = |word: usize, part: &Part| part.block == block && kept >> word & 1 == 0;
        self.parts(record).filter(|(word, part)| stale(*word, part)).for_each(|(word, _)| self.store(record, word, 0));
        self.set(record, IN_PARTS, BlockSet::range(block..block + 1), true);
    }

    /// All of each of `blocks` is dirty, if it is named: what is known of its parts goes.
    pub fn set_whole(&self, record: RecordIndex, blocks: BlockSet) {
        let in_parts = self.get(record, IN_PARTS).and(blocks);
        if in_parts.is_empty() {
            return;
        }
        // At once: with some of its ranges gone, a block would be dirty in fewer places than it is.
        self.set(record, IN_PARTS, in_parts, false);
        let gone = |part: &Part| in_parts.contains(part.block);
        self.parts(record).filter(|(_, part)| gone(part)).for_each(|(word, _)| self.store(record, word, 0));
    }

    /// The ranges that there are, with their words.
    fn parts(&self, record: RecordIndex) -> impl Iterator<Item = (usize, Part)> + '_ {
        RANGES.filter_map(move |word| Some((word, Part::unpack(self.load(record, word))?)))
    }

    fn get(&self, record: RecordIndex, first: usize) -> BlockSet {
        BlockSet(std::array::from_fn(|i| self.load(record, first + i)))
    }

    fn set(&self, record: RecordIndex, first: usize, blocks: BlockSet, to: bool) {
        for (i, bits) in blocks.0.into_iter().enumerate().filter(|(_, bits)| *bits != 0) {
            let now = self.load(record, first + i);
            let then = if to { now | bits } else { now & !bits };
            if then != now {
                self.store(record, first + i, then);
            }
        }
    }

    fn load(&self, record: RecordIndex, word: usize) -> u64 {
        self.words[record.0 as usize * RECORD_WORDS + word].load(Ordering::Relaxed)
    }

    /// After all stores and copies that come before it, for whoever reads the record when this process is dead.
    fn store(&self, record: RecordIndex, word: usize, value: u64) {
        #[cfg(all(test, not(clio_loom)))]
        super::tests::before_a_store();
        self.words[record.0 as usize * RECORD_WORDS + word].store(value, Ordering::Release);
    }
}
