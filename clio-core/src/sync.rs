//! The only file that names `parking_lot`, `std` locks or `loom`: one API, two backends.
//!
//! Built with `--cfg clio_loom`, everything that takes its primitives from here runs under the model checker, so
//! that the code that ships is the code that is checked. Loom knows no time: a timed wait is a plain one there.

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

#[cfg(not(clio_loom))]
mod imp {
    pub use parking_lot::MutexGuard;
    pub(super) use parking_lot::{Condvar, Mutex};
}
#[cfg(clio_loom)]
mod imp {
    pub use loom::sync::MutexGuard;
    pub(super) use loom::sync::{Condvar, Mutex};
}

pub use imp::MutexGuard;
use std::time::Duration;

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
        #[cfg(not(clio_loom))]
        return self.0.lock();
        #[cfg(clio_loom)]
        return self.0.lock().unwrap_or_else(|e| e.into_inner());
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(not(clio_loom))]
        return self.0.try_lock();
        #[cfg(clio_loom)]
        return self.0.try_lock().ok();
    }

    /// The value, if the mutex is not shared any more.
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(not(clio_loom))]
        return self.0.get_mut();
        #[cfg(clio_loom)]
        return self.0.get_mut().unwrap_or_else(|e| e.into_inner());
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
        #[cfg(not(clio_loom))]
        {
            let mut guard = guard;
            self.0.wait(&mut guard);
            guard
        }
        #[cfg(clio_loom)]
        return self.0.wait(guard).unwrap_or_else(|e| e.into_inner());
    }

    /// As [`Condvar::wait`], but for `timeout` at most. The second value says whether the time ran out.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        #[cfg(not(clio_loom))]
        {
            let mut guard = guard;
            let r = self.0.wait_for(&mut guard, timeout);
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

/// A value computed once; a later call gets the first value.
pub type OnceLock<T> = std::sync::OnceLock<T>;

#[cfg(not(clio_loom))]
/// A reader-writer lock without poisoning, for configuration that is seldom written. Not model-checked.
pub type RwLock<T> = parking_lot::RwLock<T>;
#[cfg(clio_loom)]
/// A reader-writer lock without poisoning, for configuration that is seldom written. Not model-checked.
pub type RwLock<T> = parking_lot::RwLock<T>;
