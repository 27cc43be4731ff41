//! The fast paths: one folio alone, no IO, no lock match, no allocation.
//!
//! What lies in one folio is read and written at one stroke. All else would be seen, or would see others, half done: it
//! goes the slow way.

use super::VvpFile;
use clio_core::clock::now_ns;
use clio_core::page;
use clio_core::units::{Extent, MAX_FILE_SIZE};

impl VvpFile {
    /// Reads `buf` from the cache, if all of it is valid there, within one folio, and below the known size.
    #[inline]
    pub(super) fn fast_read(&self, buf: &mut [u8], offset: u64) -> bool {
        let object = &**self.object.object();
        let Some(end) = offset.checked_add(buf.len() as u64) else { return false };
        if end > object.attrs().kms() || self.is_direct() {
            return false;
        }
        let writes = &self.state.part_writes;
        let Some(seen) = writes.look() else { return false };
        // A truncate lowers the size before it cuts pages: zeros that it left are not taken for content.
        if !page::fast_read(object, offset, buf) || end > object.attrs().kms() || !writes.is_unchanged(seen) {
            return false;
        }
        self.state.cache.counters().hit();
        if self.ahead.is_due(end) {
            self.cached_read_is_due(Extent::new(offset, end));
        }
        true
    }

    /// Writes `buf` into the cache, if it goes into an open window of one folio.
    #[inline]
    pub(super) fn fast_write(&self, buf: &[u8], offset: u64) -> bool {
        let object = &**self.object.object();
        let Some(end) = offset.checked_add(buf.len() as u64) else { return false };
        let flags = &self.flags;
        if flags.append || flags.dsync || self.is_direct() || end > MAX_FILE_SIZE {
            return false;
        }
        // While an error is waiting to be reported, writes go out at once.
        if object.errors().pending(&self.cursor) {
            return false;
        }
        page::fast_write(object, offset, buf, now_ns()).is_ok()
    }
}
