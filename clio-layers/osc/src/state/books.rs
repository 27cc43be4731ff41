//! A device's state, with those who wait for it to change: the unit that the model checker runs.

use super::{ObjectKey, State, StateGuard};
use crate::staging::Taken;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::page::Rw;
use clio_core::sync::Condvar;
use clio_core::units::Extent;
use std::time::{Duration, Instant};

/// The mutex of a device, and its waiters. Whoever gives credit back, ends a token or a queue calls [`Books::wake`] before
/// the mutex is released.
#[derive(Debug)]
pub(crate) struct Books {
    state: RankedMutex<State>,
    /// Something in `state` has changed.
    changed: Condvar,
}

/// An RPC that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    pub(crate) key: ObjectKey,
    pub(crate) rw: Rw,
    pub(crate) token: Option<u64>,
    /// Evictions before its data was taken.
    pub(crate) epoch: u64,
    pub(crate) slot: bool,
    /// Whether an error is kept for fsync.
    pub(crate) latches: bool,
    /// Whether it succeeded.
    pub(crate) arrived: bool,
    /// Grant that came with the reply.
    pub(crate) grant: u64,
}

impl Books {
    pub(crate) fn new(max_dirty: u64) -> Self {
        Self { state: RankedMutex::new(LockRank::Staging, State::new(max_dirty)), changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> StateGuard<'_> {
        StateGuard::new(self.state.lock())
    }

    /// Wakes those who wait for something to change.
    pub(crate) fn wake(&self, state: &State) {
        if state.waiters > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for something to change; at most for `timeout`, if there is one.
    pub(crate) fn wait(&self, state: &mut StateGuard<'_>, timeout: Option<Duration>) {
        state.wait(&self.changed, timeout);
    }

    /// Waits until there is credit, while there is hope, and at most until `deadline`: false if there is none. `push_out`
    /// has dirty data written out, meanwhile.
    pub(crate) fn wait_for_credit(&self, deadline: Instant, push_out: impl FnOnce()) -> bool {
        {
            let mut state = self.lock();
            if state.credits.room() > 0 {
                return true;
            }
            state.quota_waiters += 1;
        }
        push_out();
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.credits.room() > 0 || state.credits.dirty() == 0 || left.is_zero() {
                break;
            }
            self.wait(&mut state, Some(left));
        }
        state.quota_waiters -= 1;
        state.credits.room() > 0
    }

    /// Waits until nothing of `range` is between the staging area and the target.
    pub(crate) fn wait_moving(&self, key: ObjectKey, range: Extent) {
        let mut state = self.lock();
        while state.objects.get(&key).is_some_and(|s| s.is_moving(range)) {
            self.wait(&mut state, None);
        }
    }

    /// Grant came with the reply to something that isn't a write.
    pub(crate) fn receive_grant(&self, bytes: u64) {
        let mut state = self.lock();
        state.credits.receive(bytes, true);
        self.wake(&state);
    }

    /// Drops what is staged of `range`: see [`State::drop_staged`].
    pub(crate) fn drop_staged(&self, key: ObjectKey, range: Extent) -> Vec<Taken> {
        let mut state = self.lock();
        let dropped = state.drop_staged(key, range);
        self.wake(&state);
        dropped
    }

    /// The object goes, with what is still staged of it.
    pub(crate) fn remove_object(&self, key: ObjectKey) {
        let mut state = self.lock();
        state.remove_object(key);
        self.wake(&state);
    }

    /// Credit of an RPC goes back, its grant comes in, and its slot is free.
    pub(crate) fn settle(&self, over: &Over) {
        let mut state = self.lock();
        if let Some(stage) = state.objects.get_mut(&over.key).filter(|_| over.rw == Rw::Write) {
            stage.sick = !over.arrived && (over.latches || stage.sick);
        }
        if let Some(token) = over.token {
            state.end_token(over.key, token, over.arrived);
        }
        let valid = state.epoch == over.epoch;
        state.credits.receive(over.grant, valid);
        state.on_their_way -= 1;
        state.slots -= usize::from(over.slot);
        self.wake(&state);
    }
}
