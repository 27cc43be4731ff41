//! Bulk data that doesn't lie in the arena goes through it.

use crate::wire::{MAX_SEGMENTS, WireSegment};
use clio_arena::Arena;
use clio_core::memory::{MemRef, PageMemory};
use clio_core::target::Bulk;
use clio_core::units::MAX_FOLIO_SIZE;
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// Where the bulk data of a request is in the arena, and the memory that was borrowed for it.
pub(crate) struct Placed {
    arena: Arc<Arena>,
    /// The caller's memory, and what stands in for it.
    borrowed: Vec<(MemRef, MemRef)>,
}

impl Placed {
    pub(crate) fn new(arena: &Arc<Arena>) -> Self {
        Self { arena: arena.clone(), borrowed: Vec::new() }
    }

    /// The places of `bulk`; what is to be written (`out`) is copied into the arena where it isn't there.
    ///
    /// # Errors
    /// `ENOMEM` if the arena has no room; `E2BIG` for too many segments.
    pub(crate) fn place(&mut self, bulk: &Bulk, out: bool) -> Result<Vec<WireSegment>> {
        let mut segments = Vec::with_capacity(bulk.len());
        for segment in bulk {
            if let (Some(at), Ok(len)) = (self.arena.offset_of(segment.mem), u32::try_from(segment.mem.len())) {
                segments.push(WireSegment { offset: segment.offset, at, len });
                continue;
            }
            let mut done = 0;
            while done < segment.mem.len() {
                let len = (segment.mem.len() - done).min(MAX_FOLIO_SIZE as usize);
                let place = self.borrow(segment.mem.slice(done..done + len), out)?;
                segments.push(WireSegment { offset: segment.offset + done as u64, at: place, len: len as u32 });
                done += len;
            }
        }
        match segments.len() <= MAX_SEGMENTS {
            true => Ok(segments),
            false => Err(Error::new(Errno::E2BIG, "bulk", "too many pieces for one request")),
        }
    }

    fn borrow(&mut self, theirs: MemRef, out: bool) -> Result<u64> {
        let no_room = || Error::new(Errno::ENOMEM, "bulk", "the memory shared with the daemon is used up");
        let ours = self.arena.alloc(class_of(theirs.len())).ok_or_else(no_room)?;
        self.borrowed.push((theirs, ours));
        if out {
            ours.slice(0..theirs.len()).copy_from(theirs);
        }
        self.arena.offset_of(ours).ok_or_else(no_room)
    }

    /// The daemon has put data into the arena: gives it to the caller.
    pub(crate) fn deliver(&self) {
        for (theirs, ours) in &self.borrowed {
            theirs.copy_from(ours.slice(0..theirs.len()));
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.borrowed.iter().for_each(|(_, ours)| self.arena.free(*ours));
    }
}

/// The size class that `len` bytes fit in.
fn class_of(len: usize) -> usize {
    [4 << 10, 16 << 10, 64 << 10].into_iter().find(|class| len <= *class).unwrap_or(MAX_FOLIO_SIZE as usize)
}
