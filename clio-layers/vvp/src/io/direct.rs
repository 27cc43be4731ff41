//! Direct I/O: between the caller's buffers and the targets, past the cache but coherent with it.

use super::{VvpIo, cut};
use crate::transfer::write_out_range;
use clio_core::clock::now_ns;
use clio_core::io::{IoCx, IoKind};
use clio_core::page::{Rw, SyncIo};
use clio_core::target::{Bulk, BulkSegment};
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// Waits for a transfer to or from borrowed memory, on unwinding too.
struct Pending(Arc<SyncIo>);

impl Drop for Pending {
    fn drop(&mut self) {
        let _: Result<()> = self.0.wait();
    }
}

impl VvpIo {
    /// Reads from the targets what the iteration asks for and the file has.
    pub(super) fn direct_read(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let it = cx.io.iteration;
        let object = cx.io.object.clone();
        let size = Self::size_up_to(cx, it.end)?;
        if size < it.end {
            cx.io.finished = true;
        }
        let range = Extent::new(it.start, it.end.min(size));
        if range.is_empty() {
            return Ok(());
        }
        write_out_range(cx, &object, range)?;
        self.transfer(cx, Rw::Read, range)?;
        cx.io.moved = range.len();
        Ok(())
    }

    /// Writes the iteration to the targets. The cache is emptied of the range before, so that nothing staged comes
    /// after, and again afterwards, of what read-ahead fetched meanwhile.
    pub(super) fn direct_write(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let object = cx.io.object.clone();
        if cx.io.kind == (IoKind::Write { append: true }) {
            let kms = Self::refresh(cx)?;
            self.go_to_end(cx, &object, kms)?;
        }
        let it = cx.io.iteration;
        let state = self.state()?;
        // Read-ahead may bring some of it into the cache meanwhile.
        let _part_write = state.part_writes.begin();
        let bars = cut::keep_writers_off(cx.env, &object, it)?;
        write_out_range(cx, &object, it)?;
        cut::discard_range(cx.env, &object, it);
        // Before it goes: the targets are told this time, too, and others hear it from them.
        let now = now_ns();
        object.attrs().raise(0, now);
        let written = self.transfer(cx, Rw::Write, it);
        cut::discard_range(cx.env, &object, it);
        cut::let_writers_in(cx.env, bars);
        written?;
        object.attrs().raise_after_stripes(it.end, now);
        cx.io.moved = it.len();
        Ok(())
    }

    fn transfer(&mut self, cx: &mut IoCx<'_>, rw: Rw, range: Extent) -> Result<()> {
        let mut bulk = Bulk::new();
        let mut offset = range.start;
        for mem in self.mem.segments(range.start - self.origin, range.len()) {
            bulk.push(BulkSegment { offset, mem });
            offset += mem.len() as u64;
        }
        if offset != range.end {
            return Err(Error::new(Errno::EFAULT, "direct", "the buffers are shorter than the request"));
        }
        let pending = Pending(SyncIo::new());
        let submitted = cx.direct(rw, &bulk, &pending.0);
        submitted.and(pending.0.wait())
    }
}
