//! The bottom layer's part of an IO.

use super::Store;
use crate::transfer::{MiscIo, write_out_range};
use clio_core::io::{IoCx, IoKind, IoSlice};
use clio_core::page::{PageList, PageQueues, Rw, SyncIo};
use clio_core::sync::atomic::Ordering;
use clio_core::target::Bulk;
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

pub(super) struct StoreIo(pub(super) Arc<Store>);

impl StoreIo {
    fn punch(&self, extent: Extent) -> Result<()> {
        if Store::is(&self.0.fail_punch) {
            return Err(Error::new(Errno::EIO, "punch", "the store was told to fail"));
        }
        let mut data = self.0.data.lock();
        if extent.end == Extent::EOF {
            data.resize(extent.start as usize, 0);
        } else {
            let end = (extent.end as usize).min(data.len());
            let start = (extent.start as usize).min(end);
            data[start..end].fill(0);
        }
        Ok(())
    }
}

impl IoSlice for StoreIo {
    fn layer(&self) -> &'static str {
        "store"
    }

    fn iter_init(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        cx.io.hole = Store::is(&self.0.holes);
        Ok(())
    }

    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let object = cx.io.object.clone();
        let it = cx.io.iteration;
        match cx.io.kind {
            IoKind::Truncate { size } => {
                self.0.intrude(&object, Extent::new(size, Extent::EOF));
                self.punch(Extent::new(size, Extent::EOF))
            }
            IoKind::Punch => {
                self.0.intrude(&object, it);
                self.punch(it)
            }
            IoKind::Fsync => {
                let mut io = MiscIo::new(cx.env, &object)?;
                write_out_range(&mut io, &object, it)?;
                self.0.syncs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            IoKind::Seek { hole } => {
                let mut io = MiscIo::new(cx.env, &object)?;
                write_out_range(&mut io, &object, it)?;
                let data = self.0.content();
                let is_hole = |b: &[u8]| b.iter().all(|b| *b == 0);
                let block = data.chunks(4096).enumerate().skip(it.start as usize / 4096);
                let found = block.into_iter().find(|(_, b)| is_hole(b) == hole);
                cx.io.found = found.map(|(n, _)| (n as u64 * 4096).max(it.start));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn submit(&mut self, cx: &mut IoCx<'_>, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        for span in queues.qin.drain().collect::<Vec<_>>() {
            let moving = span.page.prep(cx.env, cx.io.id, rw, span.blocks)?;
            if moving.is_empty() {
                queues.qin.push(span.page, span.blocks);
            } else {
                queues.qout.push(span.page.clone(), moving);
                self.0.transfer(span.page, rw, moving, false);
            }
        }
        Ok(())
    }

    fn commit(&mut self, cx: &mut IoCx<'_>, pages: &mut PageList) -> Result<()> {
        self.0.do_nested();
        if Store::is(&self.0.refuse_commits) {
            return Ok(());
        }
        for span in pages.drain() {
            if Store::is(&self.0.open_windows) {
                let held = cx.io.lockset.held(cx.io.object.fid()).filter(|d| d.mode.can_write());
                held.for_each(|d| span.page.open_window(span.page.blocks_of(d.extent)));
            }
        }
        Ok(())
    }

    fn direct(&mut self, cx: &mut IoCx<'_>, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        if rw == Rw::Write {
            self.0.do_nested();
            self.0.intrude(&cx.io.object, cx.io.iteration);
        }
        sync.expect(1);
        let (store, bulk, sync) = (self.0.clone(), bulk.clone(), sync.clone());
        self.0.run(Box::new(move || sync.note(1, &store.move_bytes(rw, &bulk))));
        Ok(())
    }

    fn read_ahead(&mut self, cx: &mut IoCx<'_>, offset: u64) -> Result<Extent> {
        let mut held = cx.io.lockset.held(cx.io.object.fid()).map(|d| d.extent);
        Ok(held.find(|e| e.contains(offset)).unwrap_or(Extent::new(offset, offset)))
    }
}
