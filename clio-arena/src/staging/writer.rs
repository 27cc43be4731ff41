//! The client's half: claim a record, fill it, publish it, add blocks to it.

use super::record::{RecordView, Word};
use super::state::{RecordEvent, RecordState, StateWord};
use super::{RecordId, Records};
use clio_core::memory::words::{LockWords, SharedWords};
use clio_core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use clio_core::units::BlockSet;

/// Publishes writes. One for each client; its threads share it.
#[derive(Debug)]
pub struct StagingWriter {
    records: Records,
    locks: LockWords,
    /// Where to look for a free record next.
    cursor: AtomicU32,
    order: AtomicU64,
}

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a write that is to be redone is lost otherwise"]
pub enum Staged {
    /// It counts, whatever happens to this process: the record is published, or already drained.
    Yes(RecordId),
    /// It doesn't count: get a new lock, and write again.
    Redo,
}

/// A record being filled. Dropping it gives it back.
#[derive(Debug)]
#[must_use = "an unpublished record stands for nothing"]
pub struct Claim<'a> {
    writer: &'a StagingWriter,
    index: u32,
    /// The state that the claim made.
    state: StateWord,
}

impl StagingWriter {
    /// A writer over a table that is all zeros, or was left by an earlier writer of this client (whose order it must
    /// then go on from: `first_order`).
    pub fn new(records: SharedWords, locks: LockWords, first_order: u64) -> Self {
        let (cursor, order) = (AtomicU32::new(0), AtomicU64::new(first_order));
        Self { records: Records(records), locks, cursor, order }
    }

    /// Takes a free record; `None` if there is none: have some drained.
    pub fn claim(&self) -> Option<Claim<'_>> {
        let len = self.records.len();
        let start = self.cursor.load(Ordering::Relaxed);
        for step in 0..len {
            let index = (start.wrapping_add(step)) % len;
            let state = self.records.state(index);
            if state.state() != Some(RecordState::Free) {
                continue;
            }
            if let Ok(state) = self.records.advance(index, state, RecordEvent::Claim) {
                self.cursor.store(index.wrapping_add(1), Ordering::Relaxed);
                return Some(Claim { writer: self, index, state });
            }
        }
        None
    }

    /// Whether the record still stands for its write: published, or being drained. When no longer, the write is safe
    /// elsewhere, and its memory may be used again.
    pub fn is_staged(&self, id: RecordId) -> bool {
        if id.index >= self.records.len() {
            return false;
        }
        let state = self.records.state(id.index);
        matches!(state.state(), Some(RecordState::Published | RecordState::Draining))
            && state.generation() == id.generation
    }

    /// Adds `blocks` to a published record, whose bytes the caller has copied into their place in the arena before.
    /// That is what makes small writes in sequence cheap: no new record.
    ///
    /// Needs no look at the lock word: as long as the record can still be extended, it isn't drained, hence the lock
    /// isn't granted to another.
    ///
    /// [`Staged::Redo`] if a block is in the record already (overwriting is a new record's work: the old bytes may be
    /// on their way) or lies outside its range, or the record was drained or revoked without these blocks. If this thread is held up between
    /// two steps for so long that the record is drained, freed and claimed again, the answer is `Redo` though the
    /// blocks may have been drained.
    pub fn extend(&self, id: RecordId, blocks: BlockSet) -> Staged {
        match self.offer(id, blocks) {
            Some(state) => self.settle(id, blocks, state),
            None => Staged::Redo,
        }
    }

    /// The first step of an extension: adds the blocks where the drainer looks. `None` if they can't be added.
    pub(super) fn offer(&self, id: RecordId, blocks: BlockSet) -> Option<StateWord> {
        if id.index >= self.records.len() {
            return None;
        }
        let state = self.records.state(id.index);
        let spanned = BlockSet::range(0..self.records.read(id.index).spanned_blocks() as usize);
        let is_new = self.records.read_blocks(id.index, Word::Blocks).and(blocks).is_empty();
        if !is_extensible(state, id) || !is_new || !spanned.covers(blocks) {
            return None;
        }
        self.records.add_blocks(id.index, blocks);
        Some(state)
    }

    /// The second step: finds out whether the blocks count.
    pub(super) fn settle(&self, id: RecordId, blocks: BlockSet, mut state: StateWord) -> Staged {
        while is_extensible(state, id) {
            match self.records.advance(id.index, state, RecordEvent::Extend) {
                Ok(_) => return Staged::Yes(id),
                Err(met) => state = met,
            }
        }
        // Drained meanwhile. The drainer says which blocks it took; that holds until the record's next use.
        let taken = matches!(state.state(), Some(RecordState::Draining | RecordState::Free))
            && self.records.read_blocks(id.index, Word::Taken).covers(blocks)
            && self.records.state(id.index).generation() == id.generation;
        if taken { Staged::Yes(id) } else { Staged::Redo }
    }
}

/// Whether `state` is that of the published record `id`, with room for one more extension.
fn is_extensible(state: StateWord, id: RecordId) -> bool {
    state.state() == Some(RecordState::Published)
        && state.generation() == id.generation
        && state.after(RecordEvent::Extend).is_some()
}

impl Claim<'_> {
    /// Which record this is.
    pub fn id(&self) -> RecordId {
        RecordId { index: self.index, generation: self.state.generation() }
    }

    /// Fills the record and publishes it under the lock that `view.stamp` names; the bytes are in the arena already.
    /// `view.order` is set here: of two writes to the same bytes, the later must be published later.
    pub fn publish(self, mut view: RecordView) -> Staged {
        let (writer, id) = (self.writer, self.id());
        if !writer.locks.is_current(view.stamp) {
            return Staged::Redo;
        }
        view.order = writer.order.fetch_add(1, Ordering::Relaxed);
        writer.records.write(self.index, view);
        let Some(published) = self.enter() else { return Staged::Redo };
        writer.confirm(id, published, view)
    }

    /// The step that makes the record visible to the drainer.
    fn enter(self) -> Option<StateWord> {
        let published = self.writer.records.advance(self.index, self.state, RecordEvent::Publish).ok();
        // Published or not, the claim has ended: only a drainer that takes this client for dead is in the way.
        std::mem::forget(self);
        published
    }
}

impl StagingWriter {
    /// The step after publishing: does the lock still hold? If not, and no one took the record, it is withdrawn.
    fn confirm(&self, id: RecordId, published: StateWord, view: RecordView) -> Staged {
        if self.locks.is_current_after_publishing(view.stamp) {
            return Staged::Yes(id);
        }
        let mut state = published;
        // Another thread of this client may extend the record meanwhile; the drainer may take it.
        while state.state() == Some(RecordState::Published) && state.generation() == id.generation {
            match self.records.advance(id.index, state, RecordEvent::Withdraw) {
                Ok(revoked) => return self.acknowledge(id, revoked),
                Err(met) => state = met,
            }
        }
        if state.state() == Some(RecordState::Revoked) && state.generation() == id.generation {
            return self.acknowledge(id, state);
        }
        // Taken, and perhaps drained and used again since: a record leaves Published in no other way.
        Staged::Yes(id)
    }

    fn acknowledge(&self, id: RecordId, revoked: StateWord) -> Staged {
        // Fails only if a drainer that takes this client for dead has reaped the record.
        let _ = self.records.advance(id.index, revoked, RecordEvent::Acknowledge);
        Staged::Redo
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // Fails only if a drainer that takes this client for dead has reaped the record.
        let _ = self.writer.records.advance(self.index, self.state, RecordEvent::Abandon);
    }
}

#[cfg(test)]
pub(super) mod steps {
    //! A publishing writer, step by step, so that tests can let it die after each.
    use super::*;

    /// As [`Claim::publish`], but dies after `steps` of its four steps; then the answer is `None`.
    pub(in crate::staging) fn publish(writer: &StagingWriter, mut view: RecordView, steps: usize) -> Option<Staged> {
        let claim = writer.claim()?;
        let id = claim.id();
        if steps == 1 || !writer.locks.is_current(view.stamp) {
            return if steps == 1 { die(claim) } else { Some(Staged::Redo) };
        }
        view.order = writer.order.fetch_add(1, Ordering::Relaxed);
        writer.records.write(claim.index, view);
        if steps == 2 {
            return die(claim);
        }
        let published = claim.enter()?;
        if steps == 3 {
            return None;
        }
        Some(writer.confirm(id, published, view))
    }

    fn die(claim: Claim<'_>) -> Option<Staged> {
        std::mem::forget(claim);
        None
    }
}
