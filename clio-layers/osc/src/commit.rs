//! Staging dirty pages for opportunistic transfer, and the windows through which more may become dirty.

use crate::device::OscDevice;
use crate::rpc::evicted;
use crate::staging::{LockTag, ObjectStage, WINDOW_MAX, WINDOW_MIN};
use crate::state::{ObjectKey, blocks_extent};
use clio_core::env::Env;
use clio_core::error::Result;
use clio_core::io::{IoCommon, IoKind};
use clio_core::object::Object;
use clio_core::page::{Page, PageList};
use clio_core::sync::atomic::Ordering;
use clio_core::units::{BlockSet, Extent};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The present, in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// The time of a write: the one that the top layer has set for the file, so that all stripes tell the same.
pub(crate) fn write_time(object: &Object) -> u64 {
    let top = object.parent().and_then(|p| p.top.upgrade());
    top.map(|t| t.attrs().load().mtime).filter(|t| *t > 0).unwrap_or_else(now_ns)
}

impl OscDevice {
    /// Stages the dirty blocks of `pages`, which nobody owns now, and takes them off the list. Those for which there
    /// is no quota or grant, even after waiting a while, stay on it. Blocks, for a bounded time.
    ///
    /// # Errors
    /// `EIO` if the client was evicted meanwhile: the data is lost.
    pub(crate) fn commit(
        self: &Arc<Self>,
        env: &Env,
        io: &IoCommon,
        key: ObjectKey,
        pages: &mut PageList,
    ) -> Result<()> {
        self.raise_attrs(io, pages);
        if self.lock_state().objects.get(&key).is_none_or(|s| s.sick) {
            return Ok(());
        }
        let deadline = Instant::now() + self.config.read().quota_wait;
        let (mut kick, mut result) = (false, Ok(()));
        pages.retain(|span| {
            if result.is_err() {
                return true;
            }
            loop {
                match self.stage_span(env, key, &span.page, span.blocks, &mut kick) {
                    Ok(missing) => span.blocks = missing,
                    Err(e) => result = Err(e.on(io.object.fid())),
                }
                if result.is_err() || span.blocks.is_empty() || !self.wait_for_credit(env, deadline) {
                    return !span.blocks.is_empty();
                }
            }
        });
        self.counters.without_quota.fetch_add(pages.blocks() as u64, Ordering::Relaxed);
        self.arm_tick();
        if kick || self.lock_state().is_pressed() {
            self.start_write_out(env);
        }
        result
    }

    /// There is an RPC's worth of dirty data: writes it out, at once or at the end of the burst.
    fn start_write_out(self: &Arc<Self>, env: &Env) {
        let (lag, burst) = {
            let config = self.config.read();
            (config.writeback_lag, config.burst_bytes())
        };
        {
            let mut state = self.lock_state();
            if !lag.is_zero() && state.slots == 0 && state.credits.dirty() <= burst && !state.is_pressed() {
                if std::mem::replace(&mut state.lag_armed, true) {
                    return;
                }
                let device = Arc::downgrade(self);
                drop(state);
                let armed = self.workers.after(lag, move |env| {
                    if let Some(device) = device.upgrade() {
                        device.lock_state().lag_armed = false;
                        device.pump_soon(env);
                    }
                });
                if armed {
                    return;
                }
            }
        }
        self.pump_soon(env);
    }

    /// Size, KMS and time, before anything can be written out.
    fn raise_attrs(&self, io: &IoCommon, pages: &PageList) {
        if matches!(io.kind, IoKind::Fault { .. }) {
            // Pages of a mapping reach beyond the end of file; the layer that faults knows where that is.
            return;
        }
        let ends = pages.iter().map(|s| {
            let e = blocks_extent(&s.page, s.blocks);
            if io.iteration.is_empty() { e.end } else { e.end.min(io.iteration.end.max(e.start)) }
        });
        if let Some(end) = ends.max() {
            io.object.attrs().raise(end, write_time(&io.object));
        }
    }

    /// Stages what of `blocks` finds credit; returns the others.
    fn stage_span(
        self: &Arc<Self>,
        env: &Env,
        key: ObjectKey,
        page: &Arc<Page>,
        blocks: BlockSet,
        kick: &mut bool,
    ) -> Result<BlockSet> {
        let mut missing = BlockSet::EMPTY;
        for (lock, piece) in self.locks.pieces(key, blocks_extent(page, blocks)) {
            let blocks = blocks.and(page.blocks_of(piece));
            if !blocks.is_empty() {
                missing = missing.or(self.stage_piece(env, key, page, lock, blocks, kick)?);
            }
        }
        Ok(missing)
    }

    /// Stages blocks under one lock. Their credit is in a token, where no write-out finds it, until the window is open:
    /// a window whose credit is gone would let data become dirty that nobody knows of. A flush waits for the token.
    fn stage_piece(
        self: &Arc<Self>,
        env: &Env,
        key: ObjectKey,
        page: &Arc<Page>,
        lock: LockTag,
        blocks: BlockSet,
        kick: &mut bool,
    ) -> Result<BlockSet> {
        let extent = blocks_extent(page, blocks);
        let reach = lock.and_then(|h| self.locks.extent(h)).unwrap_or(Extent::new(0, 0));
        let max_bytes = self.config.read().max_rpc_bytes;
        let (begun, previous) = {
            let mut state = self.lock_state();
            let Some(stage) = state.objects.get_mut(&key) else { return Ok(blocks) };
            let previous = stage.next_write;
            let window = stage.next_window(page, extent).and(page.blocks_of(reach));
            let Some(begun) = state.begin_stage(key, page, lock, blocks, window) else { return Ok(blocks) };
            if let Some(stage) = state.objects.get_mut(&key) {
                stage.next_write = blocks_extent(page, begun.held.or(blocks)).end;
            }
            (begun, previous)
        };
        if lock.is_some() {
            page.open_window(begun.held);
        }
        let valid = {
            let mut state = self.lock_state();
            let valid = state.finish_stage(key, page, lock, &begun);
            *kick |= valid && state.note_full(key, extent, previous, max_bytes);
            self.wake(&state);
            valid
        };
        if !valid {
            page.close_window(begun.held);
            page.discard(env, begun.held);
            return Err(evicted());
        }
        Ok(begun.missing)
    }

    /// Waits until there is credit, while there is hope, and at most until `deadline`: false if there is none. Pushes
    /// dirty data out meanwhile.
    fn wait_for_credit(self: &Arc<Self>, env: &Env, deadline: Instant) -> bool {
        self.books.wait_for_credit(deadline, || self.pump(env))
    }
}

impl ObjectStage {
    /// The blocks after `extent`, which is written now, that a sequential writer will write next: more with each step,
    /// at most to the end of the folio.
    fn next_window(&mut self, page: &Page, extent: Extent) -> BlockSet {
        let goes_on = extent.start <= self.next_write && self.next_write <= extent.end;
        if !goes_on {
            self.window = WINDOW_MIN;
            return BlockSet::EMPTY;
        }
        let ahead = Extent::with_len(extent.end, self.window as u64 * clio_core::units::BLOCK_SIZE);
        self.window = (self.window * 2).min(WINDOW_MAX);
        page.blocks_of(ahead)
    }
}
