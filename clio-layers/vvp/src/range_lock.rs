//! The range lock of an object: keeps threads of one client apart, where extent locks only do so for clients.
//!
//! It is outermost in the lock order: taken before the page budget, and held while waiting for anything. The mutex
//! inside is held only to look at the list.

use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::Condvar;
use clio_core::units::Extent;

/// How a range is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeUse {
    /// With others that share it.
    Shared,
    /// Alone.
    Alone,
}

#[derive(Debug)]
struct Request {
    ticket: u64,
    extent: Extent,
    how: RangeUse,
}

#[derive(Debug, Default)]
struct Requests {
    /// Granted and waiting ones, in order of arrival.
    list: Vec<Request>,
    next: u64,
    waiting: usize,
}

impl Requests {
    /// Whether nobody who came before `ticket` is in its way: first come, first served, so that nobody starves.
    fn is_granted(&self, ticket: u64) -> bool {
        let Some(at) = self.list.iter().position(|r| r.ticket == ticket) else { return true };
        let own = &self.list[at];
        let alone = |r: &Request| r.how == RangeUse::Alone || own.how == RangeUse::Alone;
        !self.list[..at].iter().any(|r| alone(r) && r.extent.overlaps(own.extent))
    }
}

/// Ranges of an object in use by threads of this client.
#[derive(Debug)]
pub(crate) struct RangeLock {
    requests: RankedMutex<Requests>,
    released: Condvar,
}

/// Releases the range when dropped.
#[derive(Debug)]
#[must_use = "the range is released when this is dropped"]
pub(crate) struct RangeGuard<'a> {
    lock: &'a RangeLock,
    ticket: u64,
}

impl Default for RangeLock {
    fn default() -> Self {
        Self { requests: RankedMutex::new(LockRank::Leaf, Requests::default()), released: Condvar::new() }
    }
}

impl RangeLock {
    /// Waits until `extent` can be used so.
    pub(crate) fn take(&self, extent: Extent, how: RangeUse) -> RangeGuard<'_> {
        let mut requests = self.requests.lock();
        let ticket = requests.next;
        requests.next += 1;
        requests.list.push(Request { ticket, extent, how });
        while !requests.is_granted(ticket) {
            requests.waiting += 1;
            requests = requests.wait(&self.released);
            requests.waiting -= 1;
        }
        RangeGuard { lock: self, ticket }
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut requests = self.lock.requests.lock();
        requests.list.retain(|r| r.ticket != self.ticket);
        if requests.waiting > 0 {
            self.lock.released.notify_all();
        }
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn sharing_and_not() {
        let lock = RangeLock::default();
        let _a = lock.take(Extent::new(0, 10), RangeUse::Shared);
        let _b = lock.take(Extent::new(5, 15), RangeUse::Shared);
        let c = lock.take(Extent::new(20, 30), RangeUse::Alone);
        let _d = lock.take(Extent::new(30, 40), RangeUse::Alone);
        drop(c);
        let _e = lock.take(Extent::new(15, 30), RangeUse::Alone);
    }

    #[test]
    fn users_of_one_range_exclude_each_other() {
        let lock = RangeLock::default();
        let value = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..200 {
                        let _guard = lock.take(Extent::with_len(n % 3, 3), RangeUse::Alone);
                        let seen = value.load(Ordering::Relaxed);
                        std::thread::yield_now();
                        value.store(seen + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(value.load(Ordering::Relaxed), 800);
    }
}

#[cfg(all(test, clio_loom))]
mod loom_tests {
    use super::*;
    use clio_core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;

    /// Two who want a range alone, and one who shares: nobody is inside with one who is alone, and all get there.
    #[test]
    fn loom_alone_means_alone() {
        loom::model(|| {
            let lock = Arc::new(RangeLock::default());
            let inside = Arc::new(AtomicUsize::new(0));
            let alone = |lock: &RangeLock, inside: &AtomicUsize, extent| {
                let _guard = lock.take(extent, RangeUse::Alone);
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                inside.fetch_sub(1, Ordering::SeqCst);
            };
            let (l, i) = (lock.clone(), inside.clone());
            let first = loom::thread::spawn(move || alone(&l, &i, Extent::new(0, 8)));
            let (l, i) = (lock.clone(), inside.clone());
            let second = loom::thread::spawn(move || {
                let _guard = l.take(Extent::new(4, 12), RangeUse::Shared);
                i.fetch_add(1, Ordering::SeqCst);
                i.fetch_sub(1, Ordering::SeqCst);
            });
            alone(&lock, &inside, Extent::new(6, 10));
            first.join().expect("first");
            second.join().expect("second");
        });
    }
}
