//! The lock state machine: one transition table.

use std::fmt;

/// State of an extent lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[doc(alias = "cl_lock_state")]
pub enum LockState {
    /// Made (or made void again); protects nothing.
    New,
    /// Being asked for at one or more targets.
    Queuing,
    /// Asked for everywhere; the answers are awaited.
    Enqueued,
    /// Granted and in use: data in its extent may be cached (and dirtied under a write lock).
    Held,
    /// The last user has gone; layers release what they took for it.
    Unlocking,
    /// Granted, not in use: still protects what is cached, and may be cancelled.
    Cached,
    /// On its way out; never found again.
    Freeing,
}

impl LockState {
    /// All states.
    pub const ALL: [LockState; 7] = [
        LockState::New,
        LockState::Queuing,
        LockState::Enqueued,
        LockState::Held,
        LockState::Unlocking,
        LockState::Cached,
        LockState::Freeing,
    ];

    /// The operation that moves a lock from `self` to `to`.
    ///
    /// # Errors
    /// [`IllegalLockTransition`], which names both states.
    pub fn transition(self, to: LockState) -> Result<&'static str, IllegalLockTransition> {
        use LockState::*;
        Ok(match (self, to) {
            (New, Queuing) => "enqueue",
            (Queuing, Enqueued) => "enqueued",
            (Enqueued, Held) => "granted",
            (Queuing | Enqueued | Held, Unlocking) => "unuse",
            (Unlocking, New) => "nothing to keep",
            (Unlocking, Cached) => "cache",
            (Cached, Held) => "use",
            (Cached, New) => "sub-lock cancelled",
            (New | Queuing | Enqueued | Held | Unlocking | Cached, Freeing) => "cancel, delete",
            _ => return Err(IllegalLockTransition { from: self, to }),
        })
    }

    /// Whether a lock in this state protects its extent.
    pub fn is_granted(self) -> bool {
        matches!(self, LockState::Held | LockState::Cached)
    }

    /// Whether users keep a lock that came to this state within [`LockState::is_for_users`].
    pub fn is_for_users(self) -> bool {
        matches!(self, LockState::New | LockState::Queuing | LockState::Enqueued | LockState::Held)
    }
}

/// A transition that the table doesn't have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IllegalLockTransition {
    /// State the lock is in.
    pub from: LockState,
    /// State that was asked for.
    pub to: LockState,
}

impl fmt::Display for IllegalLockTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal lock transition {:?} -> {:?}", self.from, self.to)
    }
}

impl std::error::Error for IllegalLockTransition {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let mut table = String::new();
        for from in LockState::ALL {
            for to in LockState::ALL {
                match from.transition(to) {
                    Ok(op) => table += &format!("{from:?} -> {to:?}: {op}\n"),
                    Err(e) => assert_eq!((e.from, e.to), (from, to)),
                }
            }
        }
        insta::assert_snapshot!(table, @r"
        New -> Queuing: enqueue
        New -> Freeing: cancel, delete
        Queuing -> Enqueued: enqueued
        Queuing -> Unlocking: unuse
        Queuing -> Freeing: cancel, delete
        Enqueued -> Held: granted
        Enqueued -> Unlocking: unuse
        Enqueued -> Freeing: cancel, delete
        Held -> Unlocking: unuse
        Held -> Freeing: cancel, delete
        Unlocking -> New: nothing to keep
        Unlocking -> Cached: cache
        Unlocking -> Freeing: cancel, delete
        Cached -> New: sub-lock cancelled
        Cached -> Held: use
        Cached -> Freeing: cancel, delete
        ");
    }
}
