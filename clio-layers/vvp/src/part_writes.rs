//! Writes that can't be made at one stroke, and how cached reads notice them.
//!
//! A write of several folios, or from several buffers, changes the cache bit by bit. Reads that go the slow way are kept
//! out by the range lock. Those that the cache alone serves take no lock: they look here before and after, and go the slow
//! way if such a write was under way.
//!
//! # Why that is enough
//! A read that has seen anything of a write has seen a folio's sequence that the write stored, with release, after it had
//! begun here. So its second look finds the write begun. It is refused unless its first look found the write over,
//! and then it has seen all of it.

use clio_core::sync::atomic::{AtomicU64, Ordering, fence};

/// What counts one write that is over; below it are those under way.
const OVER: u64 = 1 << 16;

/// The writes of an object that are made bit by bit.
#[derive(Debug, Default)]
pub(crate) struct PartWrites(AtomicU64);

/// Such a write, until it is dropped.
#[derive(Debug)]
#[must_use = "the write is over when this is dropped"]
pub(crate) struct PartWrite<'a>(&'a AtomicU64);

impl PartWrites {
    /// A write begins: nothing of it can be seen yet.
    pub(crate) fn begin(&self) -> PartWrite<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        PartWrite(&self.0)
    }

    /// The first look of a read: `None` if a write is under way.
    #[inline]
    pub(crate) fn look(&self) -> Option<u64> {
        let seen = self.0.load(Ordering::Acquire);
        seen.is_multiple_of(OVER).then_some(seen)
    }

    /// The second look: whether nothing has begun since the first.
    #[inline]
    pub(crate) fn is_unchanged(&self, seen: u64) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen
    }
}

impl Drop for PartWrite<'_> {
    fn drop(&mut self) {
        // Wraps after 2^48 writes, which no read lasts for.
        self.0.fetch_add(OVER - 1, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_read_notices_what_begins_and_what_is_under_way() {
        let writes = PartWrites::default();
        let before = writes.look().expect("nothing is under way");
        assert!(writes.is_unchanged(before));
        let (a, b) = (writes.begin(), writes.begin());
        assert!(writes.look().is_none() && !writes.is_unchanged(before));
        drop(a);
        assert!(writes.look().is_none());
        drop(b);
        let after = writes.look().expect("all are over");
        assert!(!writes.is_unchanged(before) && writes.is_unchanged(after));
    }
}

#[cfg(all(test, clio_loom))]
mod loom_tests {
    use super::*;
    use std::sync::Arc;

    /// Two folios, changed one after the other: a read that is accepted has seen both or none.
    #[test]
    fn loom_no_read_sees_half_of_a_write() {
        loom::model(|| {
            let file = Arc::new((PartWrites::default(), AtomicU64::new(0), AtomicU64::new(0)));
            let other = file.clone();
            let writer = loom::thread::spawn(move || {
                let _write = other.0.begin();
                other.1.store(1, Ordering::Release);
                other.2.store(1, Ordering::Release);
            });
            if let Some(seen) = file.0.look() {
                let first = file.1.load(Ordering::Acquire);
                let second = file.2.load(Ordering::Acquire);
                assert!(!file.0.is_unchanged(seen) || first == second, "{first} {second}");
            }
            writer.join().expect("writer");
        });
    }
}
