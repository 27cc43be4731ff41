//! Numbers of operations that must not happen twice.
//!
//! The namespace keeps the answers to a client's last operations, by which it knows one that is sent again. So no number is
//! given while one is unanswered that is so far behind that its answer might be dropped.

use clio_core::sync::{Condvar, Mutex};
use clio_namespace::REPLIES_PER_CLIENT;
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Xids {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    unanswered: BTreeSet<u64>,
}

impl Xids {
    /// The next number. Blocks while an operation far behind is unanswered.
    pub(super) fn take(&self) -> u64 {
        let mut state = self.state.lock();
        while state.unanswered.first().is_some_and(|first| state.last + 1 - first >= REPLIES_PER_CLIENT as u64) {
            state = self.answered.wait(state);
        }
        state.last += 1;
        let xid = state.last;
        state.unanswered.insert(xid);
        xid
    }

    /// The operation of this number is answered.
    pub(super) fn give_back(&self, xid: u64) {
        self.state.lock().unanswered.remove(&xid);
        self.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    #[test]
    fn numbers_stay_within_the_answers_that_are_kept() {
        let (xids, highest) = (Xids::default(), AtomicU64::new(0));
        let first = xids.take();
        let window = REPLIES_PER_CLIENT as u64;
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..window {
                        let xid = xids.take();
                        highest.fetch_max(xid, Ordering::SeqCst);
                        xids.give_back(xid);
                    }
                });
            }
            while highest.load(Ordering::SeqCst) < first + window - 1 {
                thread::yield_now();
            }
            for _ in 0..100 {
                assert_eq!(highest.load(Ordering::SeqCst), first + window - 1, "the first is unanswered");
                thread::yield_now();
            }
            xids.give_back(first);
        });
        assert_eq!(highest.load(Ordering::SeqCst), first + 4 * window);
    }
}
