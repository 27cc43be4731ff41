//! The locks that one client holds.

use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{DlmHandle, LockMode};
use clio_core::units::{Extent, Fid};
use std::collections::HashMap;

/// By target, registration and number.
pub(super) struct Locks(RankedMutex<HashMap<(u16, u64, DlmHandle), Held>>);

#[derive(Clone, Copy)]
struct Held {
    fid: Fid,
    extent: Extent,
    can_write: bool,
}

/// A lock under which its client may have written what is not at the target yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteLock {
    pub(super) target: u16,
    pub(super) client: u64,
    pub(super) handle: DlmHandle,
    pub(super) fid: Fid,
    pub(super) extent: Extent,
}

impl Default for Locks {
    fn default() -> Self {
        Self(RankedMutex::new(LockRank::Leaf, HashMap::new()))
    }
}

impl Locks {
    pub(super) fn add(
        &self,
        (target, client): (u16, u64),
        handle: DlmHandle,
        fid: Fid,
        mode: LockMode,
        extent: Extent,
    ) {
        let held = Held { fid, extent, can_write: mode.can_write() };
        self.0.lock().insert((target, client, handle), held);
    }

    pub(super) fn remove(&self, target: u16, client: u64, handle: DlmHandle) {
        self.0.lock().remove(&(target, client, handle));
    }

    /// A registration has lost its locks.
    pub(super) fn remove_all(&self, target: u16, client: u64) {
        self.0.lock().retain(|(t, c, _), _| (*t, *c) != (target, client));
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    pub(super) fn are_held(&self) -> bool {
        self.count() > 0
    }

    /// Those that allow to write.
    pub(super) fn for_writing(&self) -> Vec<WriteLock> {
        let held = self.0.lock();
        let writing = held.iter().filter(|(_, held)| held.can_write);
        let lock = |(&(target, client, handle), held): (&(u16, u64, DlmHandle), &Held)| {
            let Held { fid, extent, .. } = *held;
            WriteLock { target, client, handle, fid, extent }
        };
        writing.map(lock).collect()
    }
}
