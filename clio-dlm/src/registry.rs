//! What all resources of a lock manager share: names, timers, time and settings.

use crate::hash::IdMap;
use crate::{Counts, DlmConfig};
use clio_core::target::DlmHandle;
use std::collections::BTreeSet;

/// Index of a resource in the lock manager's slab.
pub(crate) type Slot = usize;

/// What becomes due at a deadline. A timer is removed together with what it watches, so none is ever stale.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// The holder of this lock was to cancel it.
    Blocking(DlmHandle),
    /// This glimpse was to be answered.
    Glimpse { slot: Slot, id: u64 },
}

/// State shared by all resources.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) config: DlmConfig,
    /// The latest time seen: time never runs backwards here.
    pub(crate) now_ms: u64,
    /// Resource of each granted lock.
    pub(crate) locks: IdMap<DlmHandle, Slot>,
    /// `granted` isn't kept here: it is the length of `locks`.
    pub(crate) counts: Counts,
    timers: BTreeSet<(u64, Timer)>,
    next_handle: u64,
    next_glimpse: u64,
}

/// Deadline of what never times out.
pub(crate) const NEVER: u64 = u64::MAX;

impl Registry {
    pub(crate) fn new(config: DlmConfig) -> Self {
        Self {
            config,
            now_ms: 0,
            locks: IdMap::default(),
            counts: Counts::default(),
            timers: BTreeSet::new(),
            next_handle: 1,
            next_glimpse: 1,
        }
    }

    /// The name that the next granted lock will have; all granted before have smaller ones.
    pub(crate) fn next_handle(&self) -> DlmHandle {
        DlmHandle(self.next_handle)
    }

    /// Names a lock that is granted on the resource in `slot`.
    pub(crate) fn new_lock(&mut self, slot: Slot) -> DlmHandle {
        let handle = self.next_handle();
        self.next_handle += 1;
        self.locks.insert(handle, slot);
        handle
    }

    /// Names a glimpse.
    pub(crate) fn new_glimpse(&mut self) -> u64 {
        let id = self.next_glimpse;
        self.next_glimpse += 1;
        id
    }

    /// Starts a timer that runs for `timeout_ms` (0: for ever) and returns its deadline.
    pub(crate) fn start(&mut self, timer: Timer, timeout_ms: u64) -> u64 {
        if timeout_ms == 0 {
            return NEVER;
        }
        let deadline = self.now_ms.saturating_add(timeout_ms);
        if deadline != NEVER {
            self.timers.insert((deadline, timer));
        }
        deadline
    }

    /// Stops a timer that was started with this deadline.
    pub(crate) fn stop(&mut self, timer: Timer, deadline: u64) {
        if deadline != NEVER {
            self.timers.remove(&(deadline, timer));
        }
    }

    /// Takes out a timer that is due.
    pub(crate) fn take_due(&mut self) -> Option<Timer> {
        let first = *self.timers.first().filter(|(deadline, _)| *deadline <= self.now_ms)?;
        self.timers.remove(&first);
        Some(first.1)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|t| t.0)
    }
}
