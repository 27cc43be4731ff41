//! Buffered reads and read-ahead: bytes of valid blocks, after a transfer of those that aren't.

use super::{MAX_ATTEMPTS, VvpIo};
use crate::cache::Counters;
use crate::read_ahead::Ahead;
use crate::transfer::{Batch, own_page, pages_in, write_out};
use clio_core::io::IoCx;
use clio_core::object::Object;
use clio_core::page::{OwnedPage, Page, PageState, Rw, fast_read};
use clio_core::sync::thread;
use clio_core::units::{BLOCK_SIZE, BlockSet, Extent, PageIndex};
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

impl VvpIo {
    pub(super) fn read(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let it = cx.io.iteration;
        let was_finished = cx.io.finished;
        loop {
            let size = Self::size_up_to(cx, it.end)?;
            cx.io.finished = was_finished || size < it.end;
            cx.io.moved = 0;
            let range = Extent::new(it.start, it.end.min(size));
            if cx.io.hole {
                return self.zero(cx, range);
            }
            self.copy_out(cx, range, size)?;
            if range.is_empty() || size >= it.end || !Self::outgrown(cx, size) {
                return Ok(());
            }
        }
    }

    /// Whether the file ends beyond `size` by now. A cached write across the old end may have been seen, which was still to
    /// raise the size: whoever gets hold of the folio comes after that.
    fn outgrown(cx: &IoCx<'_>, size: u64) -> bool {
        let object = &cx.io.object;
        drop(object.pages().get(object.folio_of(size - 1)).and_then(|page| page.own(cx.io.id)));
        object.attrs().kms() > size
    }

    /// What no target has anything of.
    fn zero(&mut self, cx: &mut IoCx<'_>, range: Extent) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let part = self.mem.get_mut(at - self.origin, range.end - at);
            if part.is_empty() {
                return Err(short_buffers());
            }
            part.fill(0);
            at += part.len() as u64;
        }
        cx.io.moved = range.len();
        Ok(())
    }

    /// Copies `range`, which lies below `size`, to the caller; fetches what is missing, a step at a time, and more at the
    /// first miss.
    fn copy_out(&mut self, cx: &mut IoCx<'_>, range: Extent, size: u64) -> Result<()> {
        let object = cx.io.object.clone();
        let (mut at, mut attempts) = (range.start, 0);
        let mut fetched_to = range.start;
        while at < range.end {
            let folio_end = (at | (object.folio_size() - 1)) + 1;
            let part = Extent::new(at, range.end.min(folio_end));
            if self.copy_part(cx, &object, part, attempts > 0)? {
                cx.io.moved += part.len();
                at = part.end;
                attempts = 0;
                continue;
            }
            attempts += 1;
            if attempts > MAX_ATTEMPTS {
                return Err(Error::new(Errno::EIO, "read", "pages were evicted faster than they could be read"));
            }
            let is_first = fetched_to == range.start;
            let missing =
                if at < fetched_to { part } else { Extent::new(at, range.end.min(self.step_end(&object, at)?)) };
            let ahead = if is_first { self.plan_ahead(cx, Extent::new(at, range.end), size) } else { Ahead::new() };
            if !is_first {
                // For the first step, room was made before the lock was taken.
                self.state()?.cache.reserve(cx.env, missing.len());
            }
            fetched_to = fetched_to.max(missing.end);
            self.fetch(cx, missing, &ahead)?;
        }
        if fetched_to == range.start
            && let Some(state) = &self.state
        {
            state.cache.counters().hit();
        }
        Ok(())
    }

    /// Copies bytes of one folio to the caller, all as of one moment: whether they were valid. `patiently` where a
    /// look without a mutex was overtaken before.
    fn copy_part(&mut self, cx: &IoCx<'_>, object: &Arc<Object>, extent: Extent, patiently: bool) -> Result<bool> {
        let part = self.mem.get_mut(extent.start - self.origin, extent.len());
        if part.len() as u64 == extent.len() {
            return Ok(fast_read(object, extent.start, part) || (patiently && read_locked(object, extent.start, part)));
        }
        // Into several buffers: owned, the folio is not written in between.
        let page = object.pages().get(object.folio_of(extent.start));
        let Some(owned) = page.and_then(|page| page.own(cx.io.id)) else { return Ok(false) };
        let page = owned.page();
        let mut at = extent.start;
        while at < extent.end {
            let part = self.mem.get_mut(at - self.origin, extent.end - at);
            if part.is_empty() {
                return Err(short_buffers());
            }
            if !page.read((at - page.offset()) as usize, part) {
                return Ok(false);
            }
            at += part.len() as u64;
        }
        Ok(true)
    }

    /// What to read ahead under the lock held; the rest is left for an IO of its own.
    fn plan_ahead(&self, cx: &mut IoCx<'_>, read: Extent, size: u64) -> Ahead {
        let (Some(ahead), Some(state)) = (&self.ahead, &self.state) else { return Ahead::new() };
        let advice = ahead.on_read(read, size, true, state.read_ahead_limits());
        state.cache.counters().ahead(&advice);
        let mut now = Ahead::new();
        for extent in advice.ahead {
            let mut here = Self::covered(cx, extent);
            if !state.cache.has_room(here.len()) {
                here.end = here.start;
            }
            now.push(here);
            ahead.defer(Extent::new(here.end, extent.end));
        }
        now
    }

    /// The part of `extent`, from its start, that locks held now cover: they are kept until the iteration ends.
    fn covered(cx: &mut IoCx<'_>, extent: Extent) -> Extent {
        match cx.read_ahead(extent.start) {
            Ok(covered) if covered.contains(extent.start) => extent.intersect(covered),
            _ => Extent::new(extent.start, extent.start),
        }
    }

    /// Makes `needed` valid, and starts reading `ahead` where that doesn't take waiting.
    pub(super) fn fetch(&self, cx: &mut IoCx<'_>, needed: Extent, ahead: &Ahead) -> Result<()> {
        let object = cx.io.object.clone();
        let mut batch = Batch::new(Rw::Read);
        let (first, last) = (object.folio_of(needed.start).0, object.folio_of(needed.end - 1).0);
        for index in first..=last {
            self.fetch_page(cx, &object, PageIndex(index), needed, ahead, &mut batch)?;
        }
        for extent in ahead {
            self.fetch_ahead(cx, &object, *extent, first..=last, &mut batch)?;
        }
        batch.submit(cx)?;
        batch.wait()
    }

    /// Adds a page that is needed to the batch.
    fn fetch_page(
        &self,
        cx: &mut IoCx<'_>,
        object: &Arc<Object>,
        index: PageIndex,
        needed: Extent,
        ahead: &Ahead,
        batch: &mut Batch,
    ) -> Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            let page = Page::find(cx.env, object, index)?;
            let blocks = page.blocks_of(needed);
            let missing = blocks.minus(page.valid());
            if missing.is_empty() {
                return Ok(());
            }
            if page.in_flight().covers(missing) && missing.iter().all(|b| page.state(b) == PageState::PageIn) {
                batch.await_others(&page, missing);
                return Ok(());
            }
            let owned = match page.try_own_idle(cx.io.id, blocks) {
                Some(owned) => owned,
                None => {
                    // Nothing is owned while waiting.
                    batch.submit(cx)?;
                    own_page(cx, object, index, blocks)?
                }
            };
            // Perhaps another one than was found first.
            let page = owned.page().clone();
            let missing = blocks.minus(page.valid());
            let unread = missing.and(page.dirty());
            if !unread.is_empty() {
                // Written in part, never read: what was written goes out first, so that the read brings all of it.
                drop(owned);
                batch.submit(cx)?;
                write_out(cx, &page, unread)?;
                continue;
            }
            if !owned.attach(missing) {
                drop(owned);
                batch.submit(cx)?;
                batch.wait()?;
                self.make_room(cx, missing)?;
                continue;
            }
            let state = self.state()?;
            Counters::add(&state.cache.counters().missed_blocks, missing.count() as u64);
            let more = self.blocks_ahead(&owned, ahead, missing);
            batch.add(owned, missing.or(more), missing);
            return Ok(());
        }
        Err(Error::new(Errno::EIO, "read", "a page was evicted faster than it could be read"))
    }

    /// The blocks of the page that are to be read ahead, besides those `taken`: none if memory is short.
    fn blocks_ahead(&self, owned: &OwnedPage, ahead: &Ahead, taken: BlockSet) -> BlockSet {
        let page = owned.page();
        let wanted = ahead.iter().fold(BlockSet::EMPTY, |all, e| all.or(page.blocks_of(*e)));
        let wanted = wanted.minus(page.valid()).minus(page.dirty()).minus(taken);
        if wanted.is_empty() || !page.in_flight().is_empty() || !owned.attach(wanted) {
            return BlockSet::EMPTY;
        }
        wanted
    }

    /// Adds pages that are read ahead, but for those at `taken`: as far as they are free and there is memory.
    fn fetch_ahead(
        &self,
        cx: &mut IoCx<'_>,
        object: &Arc<Object>,
        extent: Extent,
        taken: std::ops::RangeInclusive<u64>,
        batch: &mut Batch,
    ) -> Result<()> {
        if extent.is_empty() {
            return Ok(());
        }
        let one = Ahead::from_slice(&[extent]);
        for index in object.folio_of(extent.start).0..=object.folio_of(extent.end - 1).0 {
            if taken.contains(&index) {
                continue;
            }
            if index < *taken.start() {
                // Lists are in ascending order.
                batch.submit(cx)?;
            }
            let page = Page::find(cx.env, object, PageIndex(index))?;
            let Some(owned) = page.try_own_idle(cx.io.id, page.all_blocks()) else { continue };
            let blocks = self.blocks_ahead(&owned, &one, BlockSet::EMPTY);
            if !blocks.is_empty() {
                batch.add(owned, blocks, BlockSet::EMPTY);
            }
        }
        Ok(())
    }

    /// Makes room for `blocks`; the caller owns no page.
    pub(super) fn make_room(&self, cx: &mut IoCx<'_>, blocks: BlockSet) -> Result<()> {
        let cache = &self.state()?.cache;
        // Memory comes in classes of up to sixteen blocks.
        let bytes = (blocks.count() as u64).next_multiple_of(16) * BLOCK_SIZE;
        for _ in 0..MAX_ATTEMPTS {
            if cache.reclaim(cx.env, bytes) > 0 {
                return Ok(());
            }
            // Others hold it all: in transfer, or owned for a moment.
            thread::yield_now();
        }
        Err(Error::new(Errno::ENOMEM, "io", "no page memory can be freed; raise the cache limit"))
    }

    /// Starts reading the iteration into the cache, and doesn't wait for it.
    pub(super) fn will_need(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let it = cx.io.iteration;
        let size = Self::refresh(cx)?;
        let extent = Extent::new(it.start, it.end.min(size));
        if it.end > size {
            cx.io.finished = true;
        }
        let object = cx.io.object.clone();
        let mut batch = Batch::new(Rw::Read);
        let here = Self::covered(cx, extent);
        if here.len() < extent.len() {
            cx.io.finished = true;
        }
        // No page is taken: the range is one that no page is in.
        self.fetch_ahead(cx, &object, here, std::ops::RangeInclusive::new(1, 0), &mut batch)?;
        batch.submit(cx)?;
        cx.io.moved = it.len();
        Ok(())
    }

    /// Drops clean pages that lie in the iteration.
    pub(super) fn drop_range(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        cx.io.finished = true;
        let it = cx.io.iteration;
        for page in pages_in(&cx.io.object, it).filter(|p| it.covers(p.extent())) {
            if page.dirty().is_empty() {
                page.shut_window(cx.env, page.all_blocks());
            }
            page.evict(cx.env);
        }
        Ok(())
    }
}

fn short_buffers() -> Error {
    Error::new(Errno::EFAULT, "read", "the buffers are shorter than the request")
}

/// Reads under the folio's mutex, where the optimistic read was overtaken.
fn read_locked(object: &Object, at: u64, part: &mut [u8]) -> bool {
    let page = object.pages().get(object.folio_of(at));
    page.is_some_and(|p| p.read((at - p.offset()) as usize, part))
}
