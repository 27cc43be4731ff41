//! The locks that one client holds.

use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::DlmHandle;
use std::collections::HashSet;

/// By target, registration and number.
pub(super) struct Locks(RankedMutex<HashSet<(u16, u64, DlmHandle)>>);

impl Default for Locks {
    fn default() -> Self {
        Self(RankedMutex::new(LockRank::Leaf, HashSet::new()))
    }
}

impl Locks {
    pub(super) fn add(&self, target: u16, client: u64, handle: DlmHandle) {
        self.0.lock().insert((target, client, handle));
    }

    pub(super) fn remove(&self, target: u16, client: u64, handle: DlmHandle) {
        self.0.lock().remove(&(target, client, handle));
    }

    /// A registration has lost its locks.
    pub(super) fn remove_all(&self, target: u16, client: u64) {
        self.0.lock().retain(|(t, c, _)| (*t, *c) != (target, client));
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    pub(super) fn are_held(&self) -> bool {
        self.count() > 0
    }
}
