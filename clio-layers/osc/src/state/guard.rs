//! The device's mutex.

use super::State;
use clio_core::lockrank::RankedGuard;
use clio_core::sync::Condvar;
use std::time::Duration;

/// Holds the mutex of a device. What was thrown away meanwhile is dropped after its release.
pub(crate) struct StateGuard<'a> {
    guard: Option<RankedGuard<'a, State>>,
}

impl<'a> StateGuard<'a> {
    pub(crate) fn new(guard: RankedGuard<'a, State>) -> Self {
        Self { guard: Some(guard) }
    }

    /// Waits on `condvar`, giving the mutex up meanwhile; at most for `timeout`, if there is one.
    pub(crate) fn wait(&mut self, condvar: &Condvar, timeout: Option<Duration>) {
        self.waiters += 1;
        self.guard = self.guard.take().map(|g| match timeout {
            None => g.wait(condvar),
            Some(t) => g.wait_for(condvar, t).0,
        });
        self.waiters -= 1;
    }
}

impl std::ops::Deref for StateGuard<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        self.guard.as_ref().expect("a guard is only empty while it waits")
    }
}

impl std::ops::DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.guard.as_mut().expect("a guard is only empty while it waits")
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        let trash = self.guard.as_mut().map(|g| std::mem::take(&mut g.trash));
        self.guard = None;
        drop(trash);
    }
}
