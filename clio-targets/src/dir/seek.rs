//! Where an object has data and where it has holes.
//!
//! What the file system says is compared with the checksums: a block that was written is data, also where the file has a
//! hole by now or has been cut. Whoever copies the data reads it then, and is told that it is damaged, instead of
//! taking the hole for zeros.

use super::object::OpenObject;
use super::side::{PAGE_BLOCKS, Sum};
use crate::sys;
use clio_core::units::BLOCK_SIZE;
use clio_core::{Errno, Error, Result};
use std::io;
use std::os::fd::AsFd;

impl OpenObject {
    /// The first byte of data (or of a hole, which the object's end is one of) at or after `offset`.
    ///
    /// # Errors
    /// `ENXIO` if `offset` is at the object's end or after it, or if no data follows.
    pub(super) fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        let nothing = || Error::new(Errno::ENXIO, "seek", "nothing at or after this offset").on(self.fid);
        if offset >= self.attr.size {
            return Err(nothing());
        }
        let found = if hole { self.next_hole(offset).map(Some) } else { self.next_data(offset) };
        found.map_err(self.io("seek"))?.ok_or_else(nothing)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let end = self.attr.size;
        let there = self.file_seek(offset, false)?.filter(|data| *data < end);
        if there == Some(offset) {
            return Ok(there);
        }
        let stored = self.next_stored(offset / BLOCK_SIZE, there.unwrap_or(end).div_ceil(BLOCK_SIZE))?;
        Ok(stored.map(|block| (block * BLOCK_SIZE).max(offset)).or(there))
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        let end = self.attr.size;
        let mut at = offset;
        loop {
            // Past the end of a file that has been cut, all is a hole to the file system.
            at = self.file_seek(at, true)?.unwrap_or(at);
            if at >= end {
                return Ok(end);
            }
            if self.side.sum(at / BLOCK_SIZE)? == Sum::HOLE {
                return Ok(at);
            }
            at = (at / BLOCK_SIZE + 1) * BLOCK_SIZE;
        }
    }

    /// What the file system says; `None` if nothing follows.
    fn file_seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>> {
        match sys::seek(self.data.as_fd(), offset, hole) {
            Ok(found) => Ok(Some(found)),
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The first block from `first` to before `end` that has a checksum.
    fn next_stored(&self, first: u64, end: u64) -> io::Result<Option<u64>> {
        for page in self.side.pages_on_disk(first / PAGE_BLOCKS, end.div_ceil(PAGE_BLOCKS))? {
            let entries = self.side.entries(page)?;
            let stored = |e: &&super::side::Entry| e.sum != Sum::HOLE && (first..end).contains(&e.block);
            if let Some(entry) = entries.iter().find(stored) {
                return Ok(Some(entry.block));
            }
        }
        Ok(None)
    }
}
