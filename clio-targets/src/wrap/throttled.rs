//! A target with a fixed speed.

use crate::timer::{Timer, call_at};
use clio_core::Result;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{Completion, Op, Target, TargetClient};
use clio_core::units::{ClientId, TargetIndex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lets reads and writes complete no faster than a given rate, as if over a link or from a disk of that speed, one
/// after another. The wait takes no thread's time, so several such targets overlap as real ones do. Other requests
/// pass untouched.
#[derive(Debug)]
pub struct Throttled {
    inner: Arc<dyn Target>,
    bytes_per_second: u64,
    timer: Arc<Timer>,
    /// When the link is free again.
    free_at: RankedMutex<Instant>,
}

impl Throttled {
    /// `inner` at `bytes_per_second`.
    pub fn new(inner: Arc<dyn Target>, bytes_per_second: u64) -> Self {
        let free_at = RankedMutex::new(LockRank::Leaf, Instant::now());
        Self { inner, bytes_per_second: bytes_per_second.max(1), timer: Arc::new(Timer::new()), free_at }
    }

    /// Occupies the link for `bytes`; returns when they are through.
    fn occupy(&self, bytes: u64) -> Instant {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(Instant::now()) + Duration::from_nanos(nanos as u64);
        *free_at
    }
}

/// Bytes of bulk data that a request moves.
fn bulk_bytes(op: &Op) -> Option<u64> {
    match op {
        Op::Read { bulk, .. } | Op::Write { bulk, .. } => Some(bulk.iter().map(|s| s.mem.len() as u64).sum()),
        _ => None,
    }
}

impl Target for Throttled {
    fn index(&self) -> TargetIndex {
        self.inner.index()
    }

    fn connect(&self, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        self.inner.connect(callbacks)
    }

    fn resume(&self, callbacks: Arc<dyn TargetClient>, grant: u64) -> Result<ClientId> {
        self.inner.resume(callbacks, grant)
    }

    fn submit(&self, client: ClientId, op: Op, done: Completion) {
        let Some(bytes) = bulk_bytes(&op) else { return self.inner.submit(client, op, done) };
        let due = self.occupy(bytes);
        let timer = Arc::downgrade(&self.timer);
        let late = move |result| call_at(&timer, due, Box::new(move || done(result)));
        self.inner.submit(client, op, Box::new(late));
    }
}
