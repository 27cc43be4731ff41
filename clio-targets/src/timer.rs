//! Runs closures at given times, on one thread that is started with the first.

use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::Condvar;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

pub(crate) type Call = Box<dyn FnOnce() + Send>;

/// A queue of closures ordered by time. Dropping it runs those that are left, at once.
#[derive(Debug)]
pub(crate) struct Timer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: RankedMutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// By time, then in the order they came.
    calls: BTreeMap<(Instant, u64), Call>,
    seq: u64,
    thread: Option<JoinHandle<()>>,
    closing: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} calls waiting", self.calls.len())
    }
}

impl Timer {
    /// A timer without calls, and without a thread yet.
    pub(crate) fn new() -> Self {
        let state = RankedMutex::new(LockRank::Leaf, State::default());
        Self(Arc::new(Shared { state, wake: Condvar::new() }))
    }

    /// Calls `call` at `at`, or as soon after as possible. Gives it back if no thread can be started for it.
    pub(crate) fn at(&self, at: Instant, call: Call) -> std::result::Result<(), Call> {
        let mut state = self.0.state.lock();
        if state.thread.is_none() {
            let shared = self.0.clone();
            match std::thread::Builder::new().name("clio-timer".into()).spawn(move || shared.work()) {
                Ok(handle) => state.thread = Some(handle),
                Err(_) => return Err(call),
            }
        }
        state.seq += 1;
        let key = (at, state.seq);
        state.calls.insert(key, call);
        let first = state.calls.first_key_value().is_some_and(|(k, _)| *k == key);
        drop(state);
        if first {
            self.0.wake.notify_one();
        }
        Ok(())
    }
}

/// Calls `call` at `at`; at once if the timer is gone or has no thread.
pub(crate) fn call_at(timer: &Weak<Timer>, at: Instant, call: Call) {
    let refused = match timer.upgrade() {
        Some(timer) => timer.at(at, call).err(),
        None => Some(call),
    };
    if let Some(call) = refused {
        call();
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let due = state.calls.first_key_value().map(|((at, _), _)| *at);
            match due {
                Some(at) if at <= now || state.closing => {
                    let call = state.calls.pop_first();
                    drop(state);
                    if let Some((_, call)) = call {
                        call();
                    }
                    state = self.state.lock();
                }
                None if state.closing => return,
                Some(at) => state = state.wait_for(&self.wake, at - now).0,
                None => state = state.wait(&self.wake),
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let thread = {
            let mut state = self.0.state.lock();
            state.closing = true;
            state.thread.take()
        };
        self.0.wake.notify_one();
        // A call may be what drops the timer: a thread doesn't wait for itself.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn calls_come_in_order_of_time_and_none_is_lost() {
        let timer = Timer::new();
        let (tx, rx) = mpsc::channel();
        let now = Instant::now();
        for n in [3u64, 1, 2] {
            let tx = tx.clone();
            timer.at(now + Duration::from_millis(10 * n), Box::new(move || tx.send(n).unwrap())).ok().unwrap();
        }
        let tx2 = tx.clone();
        timer.at(now + Duration::from_secs(3600), Box::new(move || tx2.send(9).unwrap())).ok().unwrap();
        let got: Vec<u64> = (0..3).map(|_| rx.recv().unwrap()).collect();
        assert_eq!(got, [1, 2, 3]);
        drop(timer);
        assert_eq!(rx.recv().unwrap(), 9);
    }
}
