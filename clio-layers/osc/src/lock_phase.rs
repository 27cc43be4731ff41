//! Where a lock is at its target: one state, one transition table, one setter; published for those who hold no mutex.

use clio_core::error::Result;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::atomic::{AtomicU32, Ordering};
use clio_core::target::{DlmHandle, Reply};
use std::fmt;
use std::sync::Arc;

/// The answer to an enqueue, for whoever still wants it.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) state: RankedMutex<AttemptState>,
}

#[derive(Debug, Default)]
pub(crate) struct AttemptState {
    pub(crate) answer: Option<Answer>,
    pub(crate) abandoned: bool,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Result<Reply>,
    /// A blocking AST came before it.
    pub(crate) asked_back: bool,
}

/// Where the lock is at its target, with what belongs to it.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Nowhere.
    Idle,
    /// Asked for.
    Asked(Arc<Attempt>),
    /// To be asked for again when the timer says so.
    Later,
    /// Granted.
    Granted(DlmHandle),
    /// Granted, and goes at the last use: somebody waited for it already.
    Once(DlmHandle),
    /// The target is contended: goes without. Fits nobody but those who asked for it, and goes at the last use. The
    /// handle is our own, and no target knows it.
    Lockless(DlmHandle),
    /// Over.
    Ended,
}

/// [`Phase`], bare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum PhaseState {
    Idle,
    Asked,
    Later,
    Granted,
    Once,
    Lockless,
    Ended,
}

impl PhaseState {
    #[cfg(all(test, not(clio_loom)))]
    const ALL: [PhaseState; 7] = [
        PhaseState::Idle,
        PhaseState::Asked,
        PhaseState::Later,
        PhaseState::Granted,
        PhaseState::Once,
        PhaseState::Lockless,
        PhaseState::Ended,
    ];

    /// What moves a lock from `self` to `to`.
    fn transition(self, to: PhaseState) -> std::result::Result<&'static str, IllegalPhase> {
        use PhaseState::*;
        Ok(match (self, to) {
            (Idle, Asked) => "enqueue",
            (Asked, Asked) => "asked anew, after an eviction or a refusal",
            (Asked, Later) => "passing trouble",
            (Later, Asked) => "timer",
            (Asked, Granted) => "granted",
            (Asked, Once) => "granted, and asked back",
            (Asked, Lockless) => "contended",
            (Asked | Later, Idle) => "failed, not wanted any more",
            (Idle | Asked | Later | Granted | Once | Lockless, Ended) => "cancel, delete",
            _ => return Err(IllegalPhase { from: self, to }),
        })
    }
}

/// A transition that the table doesn't have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IllegalPhase {
    from: PhaseState,
    to: PhaseState,
}

impl fmt::Display for IllegalPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal transition of a target's lock {:?} -> {:?}", self.from, self.to)
    }
}

impl Phase {
    fn state(&self) -> PhaseState {
        match self {
            Phase::Idle => PhaseState::Idle,
            Phase::Asked(_) => PhaseState::Asked,
            Phase::Later => PhaseState::Later,
            Phase::Granted(_) => PhaseState::Granted,
            Phase::Once(_) => PhaseState::Once,
            Phase::Lockless(_) => PhaseState::Lockless,
            Phase::Ended => PhaseState::Ended,
        }
    }
}

/// The phase of a lock.
#[derive(Debug)]
pub(crate) struct PhaseCell {
    phase: RankedMutex<Phase>,
    /// The bit of `phase`'s state: to look at without the mutex.
    published: AtomicU32,
}

/// States are bits, so that one look answers for several.
const fn bit(state: PhaseState) -> u32 {
    1 << state as u32
}

impl PhaseCell {
    pub(crate) fn new() -> Self {
        Self { phase: RankedMutex::new(LockRank::Leaf, Phase::Idle), published: AtomicU32::new(bit(PhaseState::Idle)) }
    }

    pub(crate) fn get(&self) -> Phase {
        self.phase.lock().clone()
    }

    /// The one setter. Returns what was before; an illegal move changes nothing, and is logged, and a panic in debug
    /// builds.
    #[track_caller]
    pub(crate) fn set(&self, to: Phase) -> Phase {
        let mut phase = self.phase.lock();
        let state = to.state();
        if let Err(e) = phase.state().transition(state) {
            tracing::error!(target: "clio::osc", error = %e, "refused");
            debug_assert!(false, "{e}");
            return phase.clone();
        }
        self.published.store(bit(state), Ordering::Release);
        std::mem::replace(&mut *phase, to)
    }

    /// The lock is over. Returns what was before.
    pub(crate) fn end(&self) -> Phase {
        match self.get() {
            Phase::Ended => Phase::Ended,
            _ => self.set(Phase::Ended),
        }
    }

    fn is_any(&self, states: u32) -> bool {
        self.published.load(Ordering::Acquire) & states != 0
    }

    /// Whether the lock serves only those who asked for it.
    pub(crate) fn is_private(&self) -> bool {
        self.is_any(bit(PhaseState::Lockless) | bit(PhaseState::Ended))
    }

    /// Whether the lock goes at its last use.
    pub(crate) fn goes_after_use(&self) -> bool {
        self.is_any(bit(PhaseState::Once) | bit(PhaseState::Lockless) | bit(PhaseState::Ended))
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let mut table = String::new();
        for from in PhaseState::ALL {
            for to in PhaseState::ALL {
                match from.transition(to) {
                    Ok(why) => table += &format!("{from:?} -> {to:?}: {why}\n"),
                    Err(e) => assert_eq!((e.from, e.to), (from, to)),
                }
            }
        }
        insta::assert_snapshot!(table, @r"
        Idle -> Asked: enqueue
        Idle -> Ended: cancel, delete
        Asked -> Idle: failed, not wanted any more
        Asked -> Asked: asked anew, after an eviction or a refusal
        Asked -> Later: passing trouble
        Asked -> Granted: granted
        Asked -> Once: granted, and asked back
        Asked -> Lockless: contended
        Asked -> Ended: cancel, delete
        Later -> Idle: failed, not wanted any more
        Later -> Asked: timer
        Later -> Ended: cancel, delete
        Granted -> Ended: cancel, delete
        Once -> Ended: cancel, delete
        Lockless -> Ended: cancel, delete
        ");
    }

    #[test]
    fn what_is_published_is_what_is_set() {
        let cell = PhaseCell::new();
        let seen = |cell: &PhaseCell| (cell.is_private(), cell.goes_after_use());
        let attempt =
            || Phase::Asked(Arc::new(Attempt { state: RankedMutex::new(LockRank::Leaf, Default::default()) }));
        assert_eq!(seen(&cell), (false, false));
        cell.set(attempt());
        cell.set(Phase::Once(DlmHandle(1)));
        assert_eq!(seen(&cell), (false, true));
        assert!(matches!(cell.end(), Phase::Once(DlmHandle(1))) && matches!(cell.end(), Phase::Ended));
        let other = PhaseCell::new();
        other.set(attempt());
        other.set(Phase::Lockless(DlmHandle(2)));
        assert_eq!(seen(&other), (true, true));
    }
}
