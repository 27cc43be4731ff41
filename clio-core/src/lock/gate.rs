//! The gate of a lock: lets users of a granted lock in and out without its mutex.
//!
//! While the gate is open, the users are counted in it and nowhere else, and the lock is Held or Cached according to
//! whether it has any: one atomic operation does what the mutex would. Whoever takes the mutex closes the gate, and
//! takes the count over; whoever releases the mutex opens it again if the lock's state allows. A user finds the gate
//! closed at his leave if anything is to be done about it, and then takes the mutex.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Users may pass; their number is in the low half.
const OPEN: u64 = 1 << 63;
/// The lock protects its extent.
const GRANTED: u64 = 1 << 62;
/// The lock takes no new users for now.
const DOOMED: u64 = 1 << 61;
/// The lock is on its way out.
const FREEING: u64 = 1 << 60;
const USERS: u64 = u32::MAX as u64;

/// What of a lock's state can be read without its mutex.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flags {
    pub(super) granted: bool,
    pub(super) doomed: bool,
    pub(super) freeing: bool,
}

#[derive(Debug)]
pub(super) struct Gate(AtomicU64);

impl Gate {
    /// A closed gate.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds a user, if the gate is open.
    #[inline]
    pub(super) fn enter(&self) -> bool {
        self.count(|w| w + 1)
    }

    /// Removes a user, if the gate is open.
    #[inline]
    pub(super) fn leave(&self) -> bool {
        self.count(|w| w - 1)
    }

    #[inline]
    fn count(&self, change: impl Fn(u64) -> u64) -> bool {
        // Release at the leave, so that what was done under the lock is seen by who closes the gate next.
        let mut word = self.0.load(Ordering::Relaxed);
        while word & OPEN != 0 {
            match self.0.compare_exchange_weak(word, change(word), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Closes the gate; the number of users if it was open. Only with the lock's mutex.
    pub(super) fn close(&self) -> Option<u32> {
        let was = self.0.fetch_and(!(OPEN | USERS), Ordering::AcqRel);
        (was & OPEN != 0).then_some((was & USERS) as u32)
    }

    /// Publishes the lock's state and opens the gate if `users` is given. Only with the lock's mutex, when closed.
    pub(super) fn publish(&self, flags: Flags, users: Option<u32>) {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        let word = bit(flags.granted, GRANTED)
            | bit(flags.doomed, DOOMED)
            | bit(flags.freeing, FREEING)
            | users.map_or(0, |u| OPEN | u64::from(u));
        self.0.store(word, Ordering::Release);
    }

    /// The state published last.
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        let word = self.0.load(Ordering::Acquire);
        Flags { granted: word & GRANTED != 0, doomed: word & DOOMED != 0, freeing: word & FREEING != 0 }
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_gate_counts() {
        let gate = Gate::new();
        assert!(!gate.enter() && !gate.leave());
        let flags = Flags { granted: true, ..Flags::default() };
        gate.publish(flags, Some(1));
        assert!(gate.enter() && gate.enter() && gate.leave());
        assert_eq!(gate.flags(), flags);
        assert_eq!(gate.close(), Some(2));
        assert_eq!(gate.close(), None);
        assert_eq!(gate.flags(), flags);
        assert!(!gate.enter());
    }
}
