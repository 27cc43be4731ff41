//! The last space of the disk, which data leaves to names.

use super::DirStore;
use super::object::OpenObject;
use crate::bulk;
use crate::store::Space;
use crate::sys;
use clio_core::target::BulkSegment;
use clio_core::{Errno, Error, Result};
use std::os::fd::AsFd;

/// Of a large disk, so much is kept free at most.
const MAX_KEPT_BYTES: u64 = 16 << 20;
/// Of a small one, this part.
const KEPT_PART: u64 = 32;

impl DirStore {
    /// This target's part of the disk's space for data.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn part_of_room(&self) -> Result<Space> {
        let Space { total, free } = self.room()?;
        Ok(Space { total: total / self.sharers, free: free / self.sharers })
    }

    /// The disk's space for data: without what is kept free.
    fn room(&self) -> Result<Space> {
        let space = sys::space(self.lock.as_fd());
        let space = space.map_err(|e| Error::from_io("statfs", e).at(self.root.display().to_string()))?;
        let kept = self.keep_free.unwrap_or((space.total / KEPT_PART).min(MAX_KEPT_BYTES));
        Ok(Space { free: space.free.saturating_sub(kept), ..space })
    }

    /// Refuses a write that would take space which is kept free. What lies where the object has space already always has
    /// room.
    ///
    /// # Errors
    /// `ENOSPC`; what the system says.
    pub(super) fn check_room(&self, object: &OpenObject, bulk: &[BulkSegment]) -> Result<()> {
        let wanted: u64 = bulk.iter().map(|s| s.mem.len() as u64).sum();
        if wanted <= self.room()?.free {
            return Ok(());
        }
        let mut runs = bulk::runs(bulk).map(bulk::hull);
        match runs.all(|run| object.has_space(run)) {
            true => Ok(()),
            false => Err(Error::new(
                Errno::ENOSPC,
                "write",
                "the target's disk is full but for what is kept for names; free space, or use a store with more",
            )),
        }
    }
}
