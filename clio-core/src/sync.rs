//! The only file that names `std` locks or `loom`: one API, two backends.
//!
//! Built with `--cfg clio_loom`, everything that takes its primitives from here runs under the model checker, so
//! that the code that ships is the code that is checked. Loom knows no time: a timed wait is a plain one there.
//!
//! All that a lock knows is in itself, as it is with a futex. Locks that keep their waiters in a table of the process
//! (`parking_lot`) are of no use in a forked child: the parent's waiters, or a thread that held the table, are in it.

#![cfg_attr(not(clio_loom), expect(clippy::disallowed_types, reason = "this is the shim"))]

/// Atomics of the backend in use.
pub mod atomic {
    #[cfg(clio_loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
    pub use std::sync::atomic::Ordering;
    #[cfg(not(clio_loom))]
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
}

/// Threads of the backend in use.
pub mod thread {
    #[cfg(clio_loom)]
    pub use loom::thread::{JoinHandle, spawn, yield_now};
    #[cfg(not(clio_loom))]
    pub use std::thread::{JoinHandle, spawn, yield_now};
}

#[cfg(clio_loom)]
use loom::sync as imp;
#[cfg(not(clio_loom))]
use std::sync as imp;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult};
use std::time::Duration;

pub use imp::MutexGuard;

/// What a lock that was free has in it.
fn open<G>(tried: TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A mutex without poisoning. Most code uses [`RankedMutex`](crate::lockrank::RankedMutex) instead.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Takes the mutex, blocking until it is free.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        open(self.0.try_lock())
    }

    /// The value, if the mutex is not shared any more.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// A condition variable with no waiter.
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Releases the mutex, waits for a notification, and takes the mutex again. Can wake up without cause.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Condvar::wait`], but for `timeout` at most. The second value says whether the time ran out.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        #[cfg(not(clio_loom))]
        {
            let (guard, r) = self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner);
            (guard, r.timed_out())
        }
        #[cfg(clio_loom)]
        {
            let _ = timeout;
            (self.wait(guard), false)
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A reader-writer lock without poisoning, for configuration that is seldom written. Not model-checked.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    /// Takes the lock with other readers, blocking while a writer has it.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock with other readers, if no writer has it or, it may be, waits for it.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        open(self.0.try_read())
    }

    /// Takes the lock alone, blocking until it is free.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value computed once; a later call gets the first value.
pub type OnceLock<T> = std::sync::OnceLock<T>;
