//! The states of a staging record, and the only table of their edges.

/// State of a staging record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum RecordState {
    /// Nobody's.
    Free,
    /// A writer fills it.
    Preparing,
    /// It stands for a write; whoever drains may take it.
    Published,
    /// The drainer has it.
    Draining,
    /// The lock was lost before the record counted: its writer redoes the write under another.
    Revoked,
}

/// What moves a record from state to state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordEvent {
    /// A writer takes the record, at a new generation.
    Claim,
    /// The writer is done filling.
    Publish,
    /// The writer gives up before publishing.
    Abandon,
    /// The writer adds blocks to what it published.
    Extend,
    /// The writer finds that the lock was lost, and that no one had taken the record.
    Withdraw,
    /// The writer has seen that it must redo the write.
    Acknowledge,
    /// The drainer takes the record.
    Take,
    /// The drainer refuses the record, since its lock isn't held.
    Refuse,
    /// The drainer gives the record back undrained (or its successor does so, after it died).
    Requeue,
    /// The drainer has made the write safe elsewhere, or reported its failure.
    Retire,
    /// The writer is dead: its half of the protocol ends here.
    Reap,
}

use RecordEvent::*;
use RecordState::*;

/// Every edge there is.
const EDGES: &[(RecordState, RecordEvent, RecordState)] = &[
    (Free, Claim, Preparing),
    (Preparing, Publish, Published),
    (Preparing, Abandon, Free),
    (Preparing, Reap, Free),
    (Published, Extend, Published),
    (Published, Withdraw, Revoked),
    (Published, Take, Draining),
    (Published, Refuse, Revoked),
    (Draining, Requeue, Published),
    (Draining, Retire, Free),
    (Revoked, Acknowledge, Free),
    (Revoked, Reap, Free),
];

impl RecordState {
    /// The state after `event`; `None` if it can't happen in this state.
    pub const fn after(self, event: RecordEvent) -> Option<RecordState> {
        let mut i = 0;
        while i < EDGES.len() {
            let (from, e, to) = EDGES[i];
            if from as u8 == self as u8 && e as u8 == event as u8 {
                return Some(to);
            }
            i += 1;
        }
        None
    }
}

const STATE_BITS: u32 = 3;
const EXTENSION_BITS: u32 = 16;

/// The state word: `generation << 19 | extensions << 3 | state`. The generation makes each use of a record differ
/// from every other, the count of extensions each content of one use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct StateWord(u64);

impl StateWord {
    pub(super) fn new(state: RecordState, extensions: u16, generation: u64) -> Self {
        Self(generation << (STATE_BITS + EXTENSION_BITS) | u64::from(extensions) << STATE_BITS | state as u64)
    }

    pub(super) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(super) fn raw(self) -> u64 {
        self.0
    }

    /// `None` for bits that are no state: written by a peer that doesn't keep to the protocol.
    #[inline]
    pub(super) fn state(self) -> Option<RecordState> {
        [Some(Free), Some(Preparing), Some(Published), Some(Draining), Some(Revoked), None, None, None]
            [(self.0 & 7) as usize]
    }

    pub(super) fn extensions(self) -> u16 {
        (self.0 >> STATE_BITS) as u16
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> (STATE_BITS + EXTENSION_BITS)
    }

    /// The word after `event`; `None` if the state has no such edge, or the count of extensions is used up.
    #[inline]
    pub(super) fn after(self, event: RecordEvent) -> Option<StateWord> {
        let state = self.state()?.after(event)?;
        let (extensions, generation) = match event {
            Claim => (0, self.generation() + 1),
            Extend => (self.extensions().checked_add(1)?, self.generation()),
            _ => (self.extensions(), self.generation()),
        };
        Some(StateWord::new(state, extensions, generation))
    }
}

impl std::fmt::Debug for StateWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.state() {
            Some(state) => write!(f, "{state:?}({}.{})", self.generation(), self.extensions()),
            None => write!(f, "no state ({:#x})", self.0),
        }
    }
}
