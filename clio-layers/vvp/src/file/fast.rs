//! The fast paths: the folio alone, no IO, no lock match, no allocation.

use super::VvpFile;
use crate::clock::coarse_ns;
use clio_core::env::{Env, EnvTags};
use clio_core::page;
use clio_core::units::{Extent, MAX_FILE_SIZE};

/// Bytes at `offset` to the end of their folio.
#[inline]
fn to_folio_end(folio_size: u64, offset: u64) -> usize {
    (folio_size - (offset & (folio_size - 1))) as usize
}

impl VvpFile {
    /// Reads as much as is valid in the cache and below the known size, if all of it is below. Returns how much, from
    /// the start.
    #[inline]
    pub(super) fn fast_read(&self, buf: &mut [u8], offset: u64) -> usize {
        let object = &**self.object.object();
        let Some(end) = offset.checked_add(buf.len() as u64) else { return 0 };
        if end > object.attrs().kms() || buf.is_empty() || self.is_direct() {
            return 0;
        }
        let folio_size = object.folio_size();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let n = to_folio_end(folio_size, at).min(buf.len() - done);
            if !page::fast_read(object, at, &mut buf[done..done + n]) {
                break;
            }
            done += n;
        }
        // A truncate lowers the size before it cuts pages: zeros that it left are not taken for content.
        if end > object.attrs().kms() {
            return 0;
        }
        if done > 0 {
            self.state.cache.counters().hit();
        }
        if done == buf.len() && self.ahead.is_due(end) {
            self.read_on(Extent::new(offset, end));
        }
        done
    }

    /// Writes as much as goes into open windows. Returns how much, from the start.
    #[inline]
    pub(super) fn fast_write(&self, buf: &[u8], offset: u64) -> usize {
        let object = &**self.object.object();
        let Some(end) = offset.checked_add(buf.len() as u64) else { return 0 };
        let flags = &self.flags;
        if flags.append || flags.dsync || self.is_direct() || end > MAX_FILE_SIZE {
            return 0;
        }
        // While an error is waiting to be reported, writes go out at once.
        if object.errors().pending(&self.cursor) {
            return 0;
        }
        let folio_size = object.folio_size();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let n = to_folio_end(folio_size, at).min(buf.len() - done);
            if page::fast_write(object, at, &buf[done..done + n], coarse_ns()).is_err() {
                break;
            }
            done += n;
        }
        done
    }

    /// A cached read came to the middle of what was read ahead: starts the next window.
    #[cold]
    fn read_on(&self, read: Extent) {
        let size = self.object.attrs().kms();
        let advice = self.ahead.on_read(read, size, false, self.state.read_ahead_limits());
        let counters = self.state.cache.counters();
        crate::cache::Counters::add(&counters.ahead_hit_bytes, advice.hit_bytes);
        crate::cache::Counters::add(&counters.ahead_wasted_bytes, advice.wasted_bytes);
        for extent in advice.ahead {
            self.ahead.defer(extent);
        }
        self.read_deferred(&Env::get(EnvTags::IO));
    }
}
