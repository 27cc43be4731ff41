//! Mutexes with a rank: the lock order of ARCHITECTURE.md, checked in debug builds.
//!
//! A thread may block only on a rank that lies further in than all it holds. `try_lock` may go against the order
//! (that is how locks are taken upwards, see lock closures), but what it took counts for what follows. Whoever waits
//! on a condition holds no mutex but the one that it gives up meanwhile.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The lock order, outermost first. One rank is held once at a time, unless taken by `try_lock`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LockRank {
    /// Layout of a file: changes to which components are instantiated.
    Layout,
    /// State of an extent lock of a sub-object.
    SubLock,
    /// State of an extent lock of a top-object.
    TopLock,
    /// The parts of a top-lock: which sub-locks it has taken.
    LockParts,
    /// The list of locks of an object.
    LockList,
    /// The LRU of a site.
    SiteLru,
    /// Attributes of a top-object and its sub-objects.
    Attr,
    /// State of a folio: ownership and transfer.
    Folio,
    /// The index of an object's pages.
    PageIndex,
    /// Staging area, grants and in-flight counts of a transfer device.
    Staging,
    /// The page budget and its LRU.
    PageBudget,
    /// State of a transfer that others wait for.
    Transfer,
    /// Work queues.
    Work,
    /// A storage target's state.
    Target,
    /// Innermost: nothing is taken while it is held.
    Leaf,
}

/// A mutex with a place in the lock order.
#[derive(Debug)]
pub struct RankedMutex<T> {
    rank: LockRank,
    inner: Mutex<T>,
}

/// Holds a [`RankedMutex`]; releases it when dropped.
#[derive(Debug)]
pub struct RankedGuard<'a, T> {
    guard: Option<MutexGuard<'a, T>>,
    _held: held::Held,
}

impl<T> RankedMutex<T> {
    /// An unlocked mutex of this rank.
    pub fn new(rank: LockRank, value: T) -> Self {
        Self { rank, inner: Mutex::new(value) }
    }

    /// Takes the mutex, blocking until it is free.
    ///
    /// # Panics
    /// In debug builds, if this thread holds a mutex of the same or a further-in rank.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> RankedGuard<'_, T> {
        held::check(self.rank);
        let guard = self.inner.lock();
        RankedGuard { guard: Some(guard), _held: held::Held::new(self.rank) }
    }

    /// Takes the mutex if it is free; allowed in any order.
    #[inline]
    pub fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let guard = self.inner.try_lock()?;
        Some(RankedGuard { guard: Some(guard), _held: held::Held::new(self.rank) })
    }

    /// The value, if the mutex is not shared any more.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<'a, T> RankedGuard<'a, T> {
    /// Waits on `condvar`, giving the mutex up meanwhile.
    ///
    /// # Panics
    /// In debug builds, if this thread holds another mutex too.
    #[track_caller]
    pub fn wait(mut self, condvar: &Condvar) -> Self {
        held::check_alone();
        self.guard = self.guard.take().map(|g| condvar.wait(g));
        self
    }

    /// As [`RankedGuard::wait`], for `timeout` at most; true if the time ran out.
    ///
    /// # Panics
    /// As [`RankedGuard::wait`].
    #[track_caller]
    pub fn wait_for(mut self, condvar: &Condvar, timeout: Duration) -> (Self, bool) {
        held::check_alone();
        let mut timed_out = false;
        self.guard = self.guard.take().map(|g| {
            let (g, t) = condvar.wait_for(g, timeout);
            timed_out = t;
            g
        });
        (self, timed_out)
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("a guard is only empty while it waits")
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("a guard is only empty while it waits")
    }
}

#[cfg(all(debug_assertions, not(clio_loom)))]
mod held {
    use super::LockRank;
    use std::cell::RefCell;
    use std::marker::PhantomData;

    thread_local! {
        static HELD: RefCell<Vec<LockRank>> = const { RefCell::new(Vec::new()) };
    }

    #[track_caller]
    pub(super) fn check(rank: LockRank) {
        HELD.with_borrow(|held| {
            if let Some(inner) = held.iter().max().filter(|h| **h >= rank) {
                panic!("lock order: blocking on {rank:?} while holding {inner:?}");
            }
        });
    }

    /// The caller holds one guard, and is to wait with it.
    #[track_caller]
    pub(super) fn check_alone() {
        HELD.with_borrow(|held| assert!(held.len() <= 1, "waiting on a condition while holding {held:?}"));
    }

    #[derive(Debug)]
    pub(super) struct Held(LockRank, PhantomData<*const ()>);

    impl Held {
        pub(super) fn new(rank: LockRank) -> Self {
            HELD.with_borrow_mut(|held| held.push(rank));
            Self(rank, PhantomData)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with_borrow_mut(|held| {
                if let Some(at) = held.iter().rposition(|h| *h == self.0) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(not(all(debug_assertions, not(clio_loom))))]
mod held {
    use super::LockRank;

    #[inline(always)]
    pub(super) fn check(_: LockRank) {}

    #[inline(always)]
    pub(super) fn check_alone() {}

    #[derive(Debug)]
    pub(super) struct Held;

    impl Held {
        #[inline(always)]
        pub(super) fn new(_: LockRank) -> Self {
            Self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inward_is_fine_and_try_lock_is_exempt() {
        let (sub, top) = (RankedMutex::new(LockRank::SubLock, 1), RankedMutex::new(LockRank::TopLock, 2));
        {
            let _s = sub.lock();
            let _t = top.lock();
        }
        let _t = top.lock();
        assert!(sub.try_lock().is_some());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: blocking on SubLock while holding TopLock")]
    fn outward_is_refused() {
        let (sub, top) = (RankedMutex::new(LockRank::SubLock, 1), RankedMutex::new(LockRank::TopLock, 2));
        let _t = top.lock();
        let _s = sub.lock();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "waiting on a condition while holding [SubLock, TopLock]")]
    fn nobody_waits_while_holding_another() {
        let (sub, top) = (RankedMutex::new(LockRank::SubLock, 1), RankedMutex::new(LockRank::TopLock, 2));
        let _s = sub.lock();
        let _t = top.lock().wait_for(&Condvar::new(), Duration::ZERO);
    }

    #[test]
    fn who_holds_one_may_wait_with_it() {
        let sub = RankedMutex::new(LockRank::SubLock, 1);
        let (guard, timed_out) = sub.lock().wait_for(&Condvar::new(), Duration::ZERO);
        assert!(timed_out && *guard == 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order")]
    fn what_try_lock_took_counts() {
        let (sub, top) = (RankedMutex::new(LockRank::SubLock, 1), RankedMutex::new(LockRank::TopLock, 2));
        let _t = top.try_lock();
        let _s = sub.lock();
    }
}
