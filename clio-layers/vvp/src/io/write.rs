//! Buffered writes: bytes into folios, then dirty blocks to the staging area, or out at once where that has no room.

use super::{MAX_ATTEMPTS, VvpIo, cut, is_in_parts, writable};
use crate::transfer::{Batch, own_page, write_out};
use clio_core::clock::now_ns;
use clio_core::io::{IoCx, IoKind};
use clio_core::object::Object;
use clio_core::page::{OwnedPage, PageList, PageSpan, Rw, WriteRefusal};
use clio_core::units::{BlockSet, Extent};
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

impl VvpIo {
    pub(super) fn write(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let object = cx.io.object.clone();
        let kms = Self::refresh(cx)?;
        if cx.io.kind == (IoKind::Write { append: true }) {
            self.go_to_end(cx, &object, kms)?;
        }
        let it = cx.io.iteration;
        let state = self.state()?;
        let _part_write = is_in_parts(&object, it, self.mem.parts()).then(|| state.part_writes.begin());
        let mut dirty = PageList::new();
        let mut at = it.start;
        let mut step_end = self.step_end(&object, at)?;
        let mut written = Ok(());
        while at < it.end {
            if at >= step_end {
                self.stage(cx, &mut dirty, at)?;
                step_end = self.step_end(&object, at)?;
                state.cache.reserve(cx.env, step_end.min(it.end) - at);
            }
            let folio_end = (at | (object.folio_size() - 1)) + 1;
            match self.write_page(cx, &object, Extent::new(at, it.end.min(folio_end)), &mut dirty) {
                Ok(n) => at += n,
                Err(e) => {
                    written = Err(e);
                    break;
                }
            }
        }
        self.stage(cx, &mut dirty, at).and(written)
    }

    /// Finds the end of the file, under a lock on all of it and alone in it, and places the iteration there. Cached
    /// writes, which ask for neither, are turned away from the folios that could move the end.
    pub(super) fn go_to_end(&mut self, cx: &mut IoCx<'_>, object: &Arc<Object>, kms: u64) -> Result<()> {
        cut::shut_windows(cx.env, object, Extent::new(kms, Extent::EOF));
        let end = Self::refresh(cx)?;
        let count = writable(end, cx.io.count, cx.io.max_size)?;
        cx.io.finished = true;
        cx.io.pos = end;
        cx.io.iteration = Extent::with_len(end, count);
        self.origin = end;
        Ok(())
    }

    /// Writes `extent`, which lies in one folio, and adds its blocks to `dirty`. Returns the bytes written: all.
    fn write_page(
        &mut self,
        cx: &mut IoCx<'_>,
        object: &Arc<Object>,
        extent: Extent,
        dirty: &mut PageList,
    ) -> Result<u64> {
        let mtime = now_ns();
        let mut at = extent.start;
        for _ in 0..MAX_ATTEMPTS {
            let folio = extent.start & !(object.folio_size() - 1);
            let rest = BlockSet::touching(at - folio, extent.end - folio);
            let owned = own_page(cx, object, object.folio_of(folio), rest)?;
            let page = owned.page().clone();
            let before = at;
            let refusal = self.fill(object, &owned, &mut at, extent.end, mtime);
            let touched = page.blocks_of(Extent::new(before, at));
            drop(owned);
            if !touched.is_empty() {
                dirty.push(page.clone(), touched);
            }
            match refusal {
                None => return Ok(extent.len()),
                Some(WriteRefusal::NotNow) => {}
                Some(WriteRefusal::NoMemory) => {
                    // What is dirty so far may have to go to make room.
                    self.stage(cx, dirty, at)?;
                    self.make_room(cx, rest)?;
                }
                Some(WriteRefusal::Fragmented(block)) => {
                    self.stage(cx, dirty, at)?;
                    write_out(cx, &page, BlockSet::range(block..block + 1))?;
                }
            }
        }
        Err(Error::new(Errno::EIO, "write", "a page was taken away faster than it could be written"))
    }

    /// Copies from the caller's buffers to an owned page, from `at` up to `end`, until the page refuses.
    fn fill(&self, object: &Object, owned: &OwnedPage, at: &mut u64, end: u64, mtime: u64) -> Option<WriteRefusal> {
        let offset = owned.page().offset();
        while *at < end {
            let part = self.mem.get(*at - self.origin, end - *at);
            if part.is_empty() {
                return Some(WriteRefusal::NotNow);
            }
            // Beyond KMS, under a lock that covers the block, nothing was ever written.
            let eof = object.attrs().kms().saturating_sub(offset);
            if let Err(refusal) = owned.write((*at - offset) as usize, part, eof) {
                return Some(refusal);
            }
            *at += part.len() as u64;
            owned.raise(object, (*at - offset) as usize, mtime);
        }
        None
    }

    /// Hands dirty blocks on: to the staging area, or out at once. All up to `upto` is written then.
    pub(super) fn stage(&mut self, cx: &mut IoCx<'_>, dirty: &mut PageList, upto: u64) -> Result<()> {
        let start = cx.io.iteration.start;
        let committed = if self.write_through { Ok(()) } else { cx.commit(dirty) };
        if let Err(e) = &committed {
            tracing::debug!(target: "clio::io", error = %e, "not staged: written out at once");
        }
        let left: Vec<PageSpan> = dirty.drain().collect();
        let Some(first) = left.first() else {
            committed?;
            cx.io.moved = upto - start;
            return Ok(());
        };
        let safe = first.page.offset().max(start);
        match Self::write_now(cx, &left) {
            Ok(()) => {
                cx.io.moved = upto - start;
                Ok(())
            }
            Err(e) => {
                cx.io.moved = cx.io.moved.max(safe - start);
                Self::abandon(cx, &left, &e);
                Err(e)
            }
        }
    }

    /// Writes blocks out and waits.
    fn write_now(cx: &mut IoCx<'_>, spans: &[PageSpan]) -> Result<()> {
        let mut batch = Batch::new(Rw::Write);
        let mut last = None;
        for span in spans {
            // Spans of one page may follow each other: a page is owned once.
            if last == Some(span.page.index()) {
                batch.submit(cx)?;
            }
            last = Some(span.page.index());
            let owned = match span.page.try_own_idle(cx.io.id, span.blocks) {
                Some(owned) => owned,
                None => {
                    batch.submit(cx)?;
                    let Some(owned) = span.page.own_idle(cx.io.id, span.blocks) else { continue };
                    owned
                }
            };
            batch.add(owned, span.blocks, span.blocks);
        }
        batch.submit(cx)?;
        batch.wait()
    }

    /// Forgets blocks that could be neither staged nor written: nothing would ever write them out.
    fn abandon(cx: &mut IoCx<'_>, spans: &[PageSpan], error: &Error) {
        let mut lost = false;
        for span in spans {
            if let Some(owned) = span.page.own_idle(cx.io.id, span.blocks) {
                let orphans = span.blocks.and(span.page.dirty());
                lost |= !orphans.is_empty();
                span.page.shut_window(cx.env, orphans);
                owned.forget(orphans);
            }
        }
        if lost {
            // Bytes of earlier writes may have been among them.
            cx.io.object.latch_error(error);
        }
    }
}
