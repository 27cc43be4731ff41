//! Staging records: what a client has written and not yet handed over, in memory that outlives the client.
//!
//! A writer copies its bytes into the arena, fills a record, and *publishes* it. From then on the write needs nothing
//! more from its process: whoever grants locks (the daemon; in embedded mode the same process) finds the record,
//! drains it, and only then gives the lock to another. The protocol between writer and revoker is this:
//!
//! ```text
//! writer                                          revoker
//! 1. bytes into the arena, record filled          1. lock word: generation bumped
//! 2. state: Preparing → Published                 2. every record under the lock that is Published → Draining
//! 3. lock word still at my generation? done       3. drains them, retires them (→ Free), grants the lock
//! 4. if not: Published → Revoked, redo under
//!    a new lock; if that fails: it was drained
//! ```
//!
//! Steps 2 and 3 of the writer and 1 and 2 of the revoker are in one total order, so either the revoker sees the
//! record, or the writer sees the bump. A record that is still in preparation when the revoker passes needs nothing:
//! its writer will see the bump. If both see each other, the exchange of the state decides, once: a write that is
//! reported as staged is drained, and one that must be redone is not. A writer that dies anywhere leaves at worst a
//! record that [`StagingDrainer::reclaim`] frees.
//!
//! Nothing in a record is trusted: the drainer copies it once, and checks it ([`RecordView::validate`]).

mod drainer;
mod record;
mod state;
mod writer;

pub use drainer::{LockStatus, StagingDrainer, Sweep, Taken};
pub use record::{RECORD_BYTES, RecordView, StagedRun, StagedWrite};
pub use state::{RecordEvent, RecordState};
pub use writer::{Claim, Staged, StagingWriter};

use clio_core::memory::words::SharedWords;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use record::{RECORD_WORDS, Word};
use state::StateWord;

/// Names one use of a staging record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordId {
    /// Index of the record.
    pub index: u32,
    /// How often the record has been claimed, this use included; below 2^45.
    pub generation: u64,
}

/// The table of records, as both sides share it.
#[derive(Clone, Debug)]
struct Records(SharedWords);

impl Records {
    fn len(&self) -> u32 {
        u32::try_from(self.0.len() / RECORD_WORDS).unwrap_or(u32::MAX)
    }

    #[inline]
    fn word(&self, index: u32, word: Word) -> &AtomicU64 {
        &self.0[index as usize * RECORD_WORDS + word as usize]
    }

    #[inline]
    fn state(&self, index: u32) -> StateWord {
        StateWord::from_raw(self.word(index, Word::State).load(Ordering::SeqCst))
    }

    /// Moves a record from exactly `from` along `event`; the state met instead if it isn't there.
    ///
    /// # Panics
    /// If the table of states has no such edge: a mistake in this module.
    #[inline]
    fn advance(&self, index: u32, from: StateWord, event: RecordEvent) -> Result<StateWord, StateWord> {
        let Some(to) = from.after(event) else { panic!("staging record: no edge {event:?} from {from:?}") };
        let word = self.word(index, Word::State);
        match word.compare_exchange(from.raw(), to.raw(), Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Ok(to),
            Err(met) => Err(StateWord::from_raw(met)),
        }
    }
}

#[cfg(all(test, clio_loom))]
mod loom_tests;
#[cfg(all(test, not(clio_loom)))]
mod tests;
