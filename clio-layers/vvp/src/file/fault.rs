//! Faults: what a layer that maps files calls.

use super::VvpFile;
use crate::io::check_offset;
use clio_core::Result;
use clio_core::clock::now_ns;
use clio_core::env::{Env, EnvTags};
use clio_core::io::IoKind;
use clio_core::page;
use clio_core::units::{BLOCK_SIZE, Extent};

/// A page of a mapping: one block of a file, as it was faulted in.
///
/// It holds nothing. What it stands for can be taken away at any time: by another client's lock, by memory pressure, by
/// write-out. [`FaultedPage::load`] and [`FaultedPage::store`] say so, as a page-table entry that was cleared does, and the
/// page is faulted in anew.
#[derive(Debug)]
#[must_use = "a fault is for an access"]
pub struct FaultedPage<'a> {
    file: &'a VvpFile,
    extent: Extent,
    hole: bool,
    writable: bool,
}

impl FaultedPage<'_> {
    /// The bytes of the file that the page has: to the end of the file, if that lies within. Beyond are zeros, which are
    /// no part of the file.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether no target has anything of the page: it reads as zeros, as of the time of the fault.
    pub fn is_hole(&self) -> bool {
        self.hole
    }

    /// Loads the bytes at byte `at` of the page. False if the page is not there any more: fault it in again.
    ///
    /// # Panics
    /// If that reaches beyond the block.
    pub fn load(&self, at: usize, buf: &mut [u8]) -> bool {
        assert!(at + buf.len() <= BLOCK_SIZE as usize, "a load reaches beyond its page");
        let has = (self.extent.len() as usize).saturating_sub(at).min(buf.len());
        let (bytes, beyond) = buf.split_at_mut(has);
        beyond.fill(0);
        if self.hole || bytes.is_empty() {
            bytes.fill(0);
            return true;
        }
        page::fast_read(&self.file.object, self.extent.start + at as u64, bytes)
    }

    /// Stores `bytes` at byte `at` of the page; what goes beyond the end of the file is dropped. False if the page is not
    /// writable, or not any more: fault it in again, for a write.
    ///
    /// # Panics
    /// If that reaches beyond the block.
    pub fn store(&self, at: usize, bytes: &[u8]) -> bool {
        assert!(at + bytes.len() <= BLOCK_SIZE as usize, "a store reaches beyond its page");
        let bytes = &bytes[..(self.extent.len() as usize).saturating_sub(at).min(bytes.len())];
        let offset = self.extent.start + at as u64;
        self.writable && (bytes.is_empty() || page::fast_write(&self.file.object, offset, bytes, now_ns()).is_ok())
    }
}

impl VvpFile {
    /// Faults in the page that holds byte `offset`, for reading or for writing: makes it valid under a lock, and for writing
    /// also dirty, in place. Takes no range of the file, so that it can be called while this thread is reading or writing
    /// the file: from or to a buffer that is a mapping of it.
    ///
    /// # Errors
    /// `EFAULT` beyond the end of the file; `EINVAL`, what a target says, and `ENOMEM`.
    pub fn fault(&self, offset: u64, write: bool) -> Result<FaultedPage<'_>> {
        check_offset("fault", offset)?;
        let env = Env::get(EnvTags::IO);
        let start = offset / BLOCK_SIZE * BLOCK_SIZE;
        let outcome = self.run(&env, IoKind::Fault { write }, start, BLOCK_SIZE, None)?;
        let extent = Extent::with_len(start, outcome.done);
        Ok(FaultedPage { file: self, extent, hole: outcome.hole, writable: write })
    }
}
