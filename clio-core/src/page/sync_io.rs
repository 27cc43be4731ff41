//! Waiting for the transfer of a set of pages.

use crate::error::{Error, Result};
use crate::lockrank::{LockRank, RankedMutex};
use crate::sync::Condvar;
use std::sync::Arc;

/// Counts transfers that are still to complete, and keeps the first error.
#[derive(Debug)]
#[doc(alias = "cl_sync_io")]
pub struct SyncIo {
    inner: RankedMutex<Inner>,
    done: Condvar,
}

#[derive(Debug)]
struct Inner {
    pending: usize,
    error: Option<Error>,
}

impl SyncIo {
    /// Nothing to wait for yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: RankedMutex::new(LockRank::Transfer, Inner { pending: 0, error: None }),
            done: Condvar::new(),
        })
    }

    /// `n` more transfers (blocks, requests: the caller's unit) to wait for.
    pub fn expect(&self, n: usize) {
        self.inner.lock().pending += n;
    }

    /// `n` of them are over. Never blocks for long: called from completions.
    pub fn note(&self, n: usize, result: &Result<()>) {
        let mut inner = self.inner.lock();
        debug_assert!(inner.pending >= n, "more completions than transfers");
        inner.pending = inner.pending.saturating_sub(n);
        if let Err(e) = result {
            inner.error.get_or_insert_with(|| e.clone());
        }
        if inner.pending == 0 {
            self.done.notify_all();
        }
    }

    /// Blocks until nothing is pending.
    ///
    /// # Errors
    /// The first error of a transfer.
    pub fn wait(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        while inner.pending > 0 {
            inner = inner.wait(&self.done);
        }
        inner.error.clone().map_or(Ok(()), Err)
    }
}
