//! Truncate and punch: what the cache has of the bytes that go.
//!
//! Order, with the range taken alone: windows of the blocks concerned are shut, and kept shut, so that no cached write
//! comes in between; the size is lowered, so that no cached read returns a mixture; pages are cut. Then the layers below
//! cut the stripes. Read-ahead doesn't take the range, and may have fetched old bytes meanwhile: pages are cut once more.

use super::VvpIo;
use crate::transfer::{pages_in, write_out_range};
use clio_core::attr::AttrMask;
use clio_core::clock::now_ns;
use clio_core::env::Env;
use clio_core::io::{IoCx, IoId};
use clio_core::object::Object;
use clio_core::page::{Page, WindowBar};
use clio_core::units::{BLOCK_SIZE, BlockSet, Extent, PageIndex};
use clio_core::{Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Bars on the folios that a range covers in part.
pub(super) type Bars = SmallVec<[WindowBar; 2]>;

/// Keeps cached writes out of `extent`, which is taken alone: shuts windows, and bars the two folios at its ends, in
/// which others may write beside it. They get a page if they had none.
///
/// # Errors
/// Why a page can't be had.
pub(super) fn keep_writers_off(env: &Env, object: &Arc<Object>, extent: Extent) -> Result<Bars> {
    let mut bars = Bars::new();
    let folio = object.folio_size();
    let extent = extent.align_to_blocks();
    let ends = [extent.start, extent.end].into_iter().filter(|at| *at != Extent::EOF && !at.is_multiple_of(folio));
    let mut done = None;
    for index in ends.map(|at| object.folio_of(at)) {
        if done != Some(index) {
            bars.push(bar(env, object, index, extent)?);
            done = Some(index);
        }
    }
    shut_windows(env, object, extent);
    Ok(bars)
}

fn bar(env: &Env, object: &Arc<Object>, index: PageIndex, extent: Extent) -> Result<WindowBar> {
    loop {
        let page = Page::find(env, object, index)?;
        if let Some(bar) = WindowBar::new(env, &page, page.blocks_of(extent)) {
            return Ok(bar);
        }
    }
}

/// Lets cached writes in again, and drops pages that were only made to keep them off.
pub(super) fn let_writers_in(env: &Env, bars: Bars) {
    for bar in bars {
        let page = bar.page().clone();
        drop(bar);
        page.delete_if_unused(env);
    }
}

/// Shuts the write windows of the blocks that `extent` touches.
pub(super) fn shut_windows(env: &Env, object: &Arc<Object>, extent: Extent) {
    for page in pages_in(object, extent) {
        page.shut_window(env, page.blocks_of(extent));
    }
}

/// Drops the blocks that `extent` touches from the cache, dirty or not; waits for transfers of them.
pub(super) fn discard_range(env: &Env, object: &Arc<Object>, extent: Extent) {
    for page in pages_in(object, extent) {
        page.discard(env, page.blocks_of(extent));
        page.delete_if_unused(env);
    }
}

/// Drops the clean blocks that `extent` touches from the cache; waits for transfers of them.
fn discard_clean(env: &Env, object: &Arc<Object>, extent: Extent) {
    for page in pages_in(object, extent) {
        page.discard(env, page.blocks_of(extent).minus(page.dirty()));
        page.delete_if_unused(env);
    }
}

/// Whether anything of the blocks that `extent` touches is still to be written out.
fn is_dirty(object: &Arc<Object>, extent: Extent) -> bool {
    pages_in(object, extent).any(|page| !page.dirty().and(page.blocks_of(extent)).is_empty())
}

/// Cuts cached pages at byte `size`: blocks beyond go, the rest of the block that holds it becomes zeros.
fn cut_pages(env: &Env, object: &Arc<Object>, io: IoId, size: u64) {
    for page in pages_in(object, Extent::new(size, Extent::EOF)) {
        let at = size.saturating_sub(page.offset());
        let last = (page.extent().len() / BLOCK_SIZE) as usize;
        page.discard(env, BlockSet::range(at.div_ceil(BLOCK_SIZE) as usize..last));
        if !at.is_multiple_of(BLOCK_SIZE) {
            let within = page.blocks_of(Extent::new(size, Extent::EOF));
            if let Some(owned) = page.own_idle(io, within) {
                owned.truncate(at as usize);
            }
        }
        page.delete_if_unused(env);
    }
}

impl VvpIo {
    pub(super) fn truncate(&mut self, cx: &mut IoCx<'_>, size: u64) -> Result<()> {
        cx.io.finished = true;
        let object = cx.io.object.clone();
        Self::refresh(cx)?;
        self.bars = keep_writers_off(cx.env, &object, Extent::new(size, Extent::EOF))?;
        self.dropped_dirty = is_dirty(&object, Extent::new(size, Extent::EOF));
        let now = now_ns();
        object.attr_modify(AttrMask::SIZE | AttrMask::KMS | AttrMask::MTIME | AttrMask::CTIME, |attr| {
            self.before = Some((attr.size, attr.kms));
            (attr.size, attr.kms) = (size, size);
            (attr.mtime, attr.ctime) = (attr.mtime.max(now), attr.ctime.max(now));
        });
        cut_pages(cx.env, &object, cx.io.id, size);
        Ok(())
    }

    pub(super) fn truncated(&mut self, cx: &mut IoCx<'_>, size: u64) {
        let object = cx.io.object.clone();
        let bars = std::mem::take(&mut self.bars);
        let Some((old, kms)) = self.before else { return };
        if let Some(e) = cx.io.error() {
            // The stripes may be as they were: what they hold must be reachable, and no zeros of ours be in front of it.
            self.tell_what_is_lost(&object, e);
            let block = Extent::with_len(size / BLOCK_SIZE * BLOCK_SIZE, BLOCK_SIZE);
            if let Err(e) = write_out_range(cx, &object, block) {
                cx.io.fail(e);
            }
            discard_range(cx.env, &object, block);
            discard_clean(cx.env, &object, Extent::new(size, Extent::EOF));
            object.attr_modify(AttrMask::SIZE | AttrMask::KMS, |attr| (attr.size, attr.kms) = (old, kms));
            return;
        }
        // Once more, now that the stripes have it: whoever asked meanwhile may have merged their old sizes.
        object.attr_modify(AttrMask::SIZE | AttrMask::KMS, |attr| (attr.size, attr.kms) = (size, size));
        cut_pages(cx.env, &object, cx.io.id, size);
        let_writers_in(cx.env, bars);
    }

    /// Blocks at the edges that go in part are written out first, and so is the last block of the file: the targets know
    /// the size by what was written. Then all go from the cache.
    pub(super) fn punch(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        cx.io.finished = true;
        let object = cx.io.object.clone();
        let it = cx.io.iteration;
        self.bars = keep_writers_off(cx.env, &object, it)?;
        let inner = Extent::new(it.start.next_multiple_of(BLOCK_SIZE), it.end / BLOCK_SIZE * BLOCK_SIZE);
        let kms = Self::refresh(cx)?;
        let last = Extent::new(kms.saturating_sub(1), kms).align_to_blocks().intersect(it);
        let head = Extent::new(it.start, inner.start.min(it.end));
        let tail = Extent::new(inner.end.max(it.start), it.end);
        for edge in [head, tail, last] {
            write_out_range(cx, &object, edge)?;
        }
        self.dropped_dirty = is_dirty(&object, it);
        discard_range(cx.env, &object, it);
        let now = now_ns();
        object.attrs().raise(0, now);
        Ok(())
    }

    /// A truncate or a punch failed after dirty data was dropped that was to go anyway. Whoever wrote it has to hear that
    /// the file has neither what he wrote nor what cutting it would have left.
    fn tell_what_is_lost(&self, object: &Object, error: &Error) {
        if self.dropped_dirty {
            object.latch_error(error);
        }
    }

    pub(super) fn punched(&mut self, cx: &mut IoCx<'_>) {
        let object = cx.io.object.clone();
        match cx.io.error() {
            None => {
                discard_range(cx.env, &object, cx.io.iteration);
                cx.io.moved = cx.io.iteration.len();
            }
            Some(e) => {
                self.tell_what_is_lost(&object, e);
                // What is dirty was not dropped: it failed before.
                discard_clean(cx.env, &object, cx.io.iteration);
            }
        }
        let_writers_in(cx.env, std::mem::take(&mut self.bars));
    }
}
