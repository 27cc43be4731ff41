//! The owner's half: take what is published, refuse what isn't covered, free what the dead left.

use super::record::{RecordView, StagedWrite, Word};
use super::state::{RecordEvent, RecordState, StateWord};
use super::{RecordId, Records};
use clio_core::Result;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::memory::words::{LockStamp, SharedWords};
use clio_core::sync::atomic::Ordering;
use clio_core::units::BlockSet;

/// How often the drainer tries to take a record that its writer keeps extending, before it takes it by force. A
/// writer that keeps to the protocol can't extend a record as often as that.
const TAKE_TRIES: usize = 1 << 17;

/// Drains the records of one client. Calls may come from several threads; each record is taken by one of them.
#[derive(Debug)]
pub struct StagingDrainer {
    records: Records,
    arena_len: u64,
    /// Held while one record is taken, so that the blocks noted in it are those of whoever takes it.
    taking: RankedMutex<()>,
}

/// A record taken for draining. The caller writes it out, then calls [`StagingDrainer::retire`].
#[derive(Clone, Debug)]
#[must_use = "a record that is never retired stays in use"]
pub struct Taken {
    /// The record.
    pub id: RecordId,
    /// What was written, checked as far as [`RecordView::validate`] checks; the error if it makes no sense, which
    /// only a client that doesn't keep to the protocol can bring about. Handle and lock are the caller's to check.
    pub write: Result<StagedWrite>,
}

/// What a sweep under a revoked lock found.
#[derive(Debug, Default)]
#[must_use = "records taken must be drained"]
pub struct Sweep {
    /// Taken by this call, in the order of writing: of overlapping records, the later must be written out later.
    pub taken: Vec<Taken>,
    /// Records under the lock that an earlier call took. A revoker grants only when these are retired too
    /// ([`StagingDrainer::is_draining`]).
    pub draining: Vec<RecordId>,
}

/// What the drainer's caller knows of a lock, from its own tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockStatus {
    /// The client has it. Must cease to be the answer before the lock word is bumped (a table under a mutex will do).
    Held,
    /// It is being revoked, and the sweep isn't over: the sweep will take its records.
    Revoking,
    /// The client doesn't have it: what is published under it doesn't count, and its writer redoes it.
    Lost,
}

/// What to do with a published record.
#[derive(Clone, Copy)]
enum Verdict {
    Take,
    Refuse,
    Leave,
}

impl StagingDrainer {
    /// A drainer of the table in `records`, for an arena of `arena_len` bytes. One for each table, in one process.
    pub fn new(records: SharedWords, arena_len: u64) -> Self {
        Self { records: Records(records), arena_len, taking: RankedMutex::new(LockRank::Leaf, ()) }
    }

    /// Takes every record published under the lock that had `stamp`, or an older generation of its word. Call it after
    /// [`LockWordTable::revoke`](clio_core::memory::words::LockWordTable::revoke): what is staged under the lock is
    /// in the answer then, and nothing more can come.
    pub fn sweep(&self, stamp: LockStamp) -> Sweep {
        let is_under = |s: LockStamp| s.index == stamp.index && s.generation <= stamp.generation;
        let mut sweep = Sweep::default();
        for index in 0..self.records.len() {
            let judge = |s| if is_under(s) { Verdict::Take } else { Verdict::Leave };
            match self.visit(index, judge) {
                Visit::Took(taken) => sweep.taken.push(taken),
                Visit::Draining(id) if is_under(self.records.read_stamp(index)) => sweep.draining.push(id),
                Visit::Draining(_) | Visit::Nothing => {}
            }
        }
        sort(&mut sweep.taken);
        sweep
    }

    /// Takes up to `limit` published records, in the order of writing, for write-out in the background. `status` says
    /// what became of a lock; it may take locks of its own.
    pub fn take_published(&self, limit: usize, mut status: impl FnMut(LockStamp) -> LockStatus) -> Vec<Taken> {
        let mut all = Vec::new();
        for index in 0..self.records.len() {
            let is_full = all.len() >= limit;
            let judge = |stamp| match status(stamp) {
                LockStatus::Held if !is_full => Verdict::Take,
                LockStatus::Held | LockStatus::Revoking => Verdict::Leave,
                LockStatus::Lost => Verdict::Refuse,
            };
            if let Visit::Took(taken) = self.visit(index, judge) {
                all.push(taken);
            }
        }
        sort(&mut all);
        all
    }

    /// The client is dead: takes what it published under locks that it holds (see [`StagingDrainer::take_published`])
    /// and frees all other records that nobody drains.
    #[must_use = "records taken must be drained"]
    pub fn reclaim(&self, status: impl FnMut(LockStamp) -> LockStatus) -> Vec<Taken> {
        let taken = self.take_published(usize::MAX, status);
        for index in 0..self.records.len() {
            let state = self.records.state(index);
            match state.state() {
                Some(RecordState::Preparing | RecordState::Revoked) => {
                    // The dead don't interfere; a thread of theirs still on its last step may, and is met next time.
                    let _ = self.records.advance(index, state, RecordEvent::Reap);
                }
                None => self.force(index, StateWord::new(RecordState::Free, 0, state.generation())),
                Some(RecordState::Free | RecordState::Published | RecordState::Draining) => {}
            }
        }
        taken
    }

    /// Whether the record is taken and not retired yet.
    pub fn is_draining(&self, id: RecordId) -> bool {
        let state = self.records.state(id.index);
        state.state() == Some(RecordState::Draining) && state.generation() == id.generation
    }

    /// A new drainer takes over from one that died: what that one had taken is published again, and will be written
    /// out once more, which changes nothing. Call it before anything else, while no lock is granted.
    pub fn adopt(&self) {
        for index in 0..self.records.len() {
            let state = self.records.state(index);
            if state.state() == Some(RecordState::Draining) {
                let _ = self.records.advance(index, state, RecordEvent::Requeue);
            }
        }
    }

    /// The write is safe elsewhere, or its failure reported: frees the record. The arena memory is the client's to
    /// free, when it sees that.
    pub fn retire(&self, taken: &Taken) {
        self.finish(taken, RecordEvent::Retire);
    }

    /// Gives a record back undrained; its lock must not be granted to another.
    pub fn requeue(&self, taken: &Taken) {
        self.finish(taken, RecordEvent::Requeue);
    }

    fn finish(&self, taken: &Taken, event: RecordEvent) {
        let state = self.records.state(taken.id.index);
        if state.state() == Some(RecordState::Draining) && state.generation() == taken.id.generation {
            let _ = self.records.advance(taken.id.index, state, event);
        }
        // Else the client has overwritten the state of a record that isn't its: what that spoils is its own.
    }

    fn visit(&self, index: u32, mut judge: impl FnMut(LockStamp) -> Verdict) -> Visit {
        for tries in 0.. {
            let state = self.records.state(index);
            match state.state() {
                Some(RecordState::Published) => {}
                Some(RecordState::Draining) => {
                    return Visit::Draining(RecordId { index, generation: state.generation() });
                }
                _ => return Visit::Nothing,
            }
            // Judged before it is taken, since a record once taken counts for its writer. What is read here belongs
            // to this generation, or the exchange below fails.
            match judge(self.records.read_stamp(index)) {
                Verdict::Take if tries < TAKE_TRIES => {
                    if let Some(taken) = self.take(index, state) {
                        return Visit::Took(taken);
                    }
                }
                Verdict::Take => {
                    let _taking = self.taking.lock();
                    self.force(index, StateWord::new(RecordState::Draining, 0, state.generation()));
                    let blocks = self.records.read_blocks(index, Word::Blocks);
                    return Visit::Took(self.taken(index, state.generation(), blocks));
                }
                Verdict::Refuse => {
                    if self.records.advance(index, state, RecordEvent::Refuse).is_ok() {
                        return Visit::Nothing;
                    }
                }
                Verdict::Leave => return Visit::Nothing,
            }
        }
        Visit::Nothing
    }

    /// Takes the record, if its state is still exactly `state`.
    ///
    /// The blocks are noted in the record before the state says that it is taken, so that a writer whose extension
    /// came too late finds out whether its blocks were among them: whichever it reads, both agree.
    fn take(&self, index: u32, state: StateWord) -> Option<Taken> {
        let _taking = self.taking.lock();
        if self.records.state(index) != state {
            return None;
        }
        let blocks = self.records.read_blocks(index, Word::Blocks);
        self.records.store_taken(index, blocks);
        self.records.advance(index, state, RecordEvent::Take).ok()?;
        Some(self.taken(index, state.generation(), blocks))
    }

    fn taken(&self, index: u32, generation: u64, blocks: BlockSet) -> Taken {
        let view = RecordView { blocks, ..self.records.read(index) };
        Taken { id: RecordId { index, generation }, write: view.validate(self.arena_len) }
    }

    /// Sets a state that the protocol doesn't lead to, in a record that a peer has spoilt.
    fn force(&self, index: u32, state: StateWord) {
        tracing::warn!(target: "clio::page", index, ?state, "a client broke the protocol of staging records");
        self.records.word(index, Word::State).store(state.raw(), Ordering::SeqCst);
    }
}

/// What was done with one record.
enum Visit {
    Took(Taken),
    Draining(RecordId),
    Nothing,
}

fn sort(taken: &mut [Taken]) {
    taken.sort_by_key(|t| t.write.as_ref().map_or(u64::MAX, |w| w.record().order));
}
