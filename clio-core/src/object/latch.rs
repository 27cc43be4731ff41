//! Errors of asynchronous writes: each is reported once to every file that was open when it happened.

use crate::error::Error;
use crate::lockrank::{LockRank, RankedMutex};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Keeps the errors of an object's asynchronous writes, like the kernel's `errseq_t`: a sequence number counts them,
/// and every open file remembers up to where it has reported.
#[derive(Debug)]
pub struct ErrorLatch {
    sequence: AtomicU64,
    last: RankedMutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    error: Option<Error>,
    /// Whether somebody has been told: the next error replaces it then.
    told: bool,
}

impl Default for ErrorLatch {
    fn default() -> Self {
        Self { sequence: AtomicU64::new(0), last: RankedMutex::new(LockRank::Leaf, Last::default()) }
    }
}

/// Up to where an open file has reported errors.
#[derive(Debug)]
pub struct ErrorCursor(AtomicU64);

impl ErrorLatch {
    /// Keeps `error`. If one was kept that nobody has been told yet, that first one stays.
    pub fn latch(&self, error: &Error) {
        let mut last = self.last.lock();
        // Cursors made from now on start behind this error.
        self.sequence.fetch_add(1, Ordering::AcqRel);
        if last.error.is_none() || last.told {
            *last = Last { error: Some(error.clone()), told: false };
        }
    }

    /// A cursor for a file opened now: it reports what happens from now on.
    pub fn cursor(&self) -> ErrorCursor {
        ErrorCursor(AtomicU64::new(self.sequence.load(Ordering::Acquire)))
    }

    /// The error that `cursor` has not reported yet, if there is one; it has reported it then. Only this, at fsync
    /// or close, clears an error: a later write that succeeds, or fails too, does not.
    pub fn report(&self, cursor: &ErrorCursor) -> Option<Error> {
        let mut last = self.last.lock();
        let now = self.sequence.load(Ordering::Acquire);
        if cursor.0.swap(now, Ordering::AcqRel) == now {
            return None;
        }
        last.told = true;
        last.error.clone()
    }

    /// Whether `cursor` has something to report, without reporting it.
    pub fn pending(&self, cursor: &ErrorCursor) -> bool {
        cursor.0.load(Ordering::Acquire) != self.sequence.load(Ordering::Acquire)
    }

    /// Number of errors so far.
    pub fn count(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;
    use crate::error::Errno;

    #[test]
    fn each_open_file_reports_once() {
        let latch = ErrorLatch::default();
        let (a, b) = (latch.cursor(), latch.cursor());
        latch.latch(&Error::new(Errno::ENOSPC, "write", "full"));
        latch.latch(&Error::new(Errno::EIO, "write", "later"));
        let late = latch.cursor();
        assert_eq!(latch.report(&a).map(|e| e.errno()), Some(Errno::ENOSPC));
        assert!(latch.report(&a).is_none());
        assert!(latch.pending(&b));
        assert_eq!(latch.report(&b).map(|e| e.errno()), Some(Errno::ENOSPC));
        assert!(latch.report(&late).is_none(), "opened after the error");
    }
}
