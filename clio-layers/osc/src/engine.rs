//! The engine that makes RPCs of staged data and sends what waits.

use crate::device::OscDevice;
use crate::rpc::{Owner, Rpc, hull};
use crate::staging::{ANY_ROUND, Taken};
use crate::state::{Batch, Job, ObjectKey, State};
use clio_core::env::Env;
use clio_core::page::{PageList, Rw};
use clio_core::sync::atomic::Ordering;
use clio_core::target::Bulk;
use clio_core::units::{BLOCK_SIZE, BlockSet, Extent};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// Devices whose engine runs on this thread. A target that completes within `submit` calls it again from there:
    /// the outer call does what is to be done, and the stack stays flat.
    static RUNNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a device's engine runs on this thread.
struct Running(usize);

impl Running {
    fn enter(device: usize) -> Option<Self> {
        RUNNING.with_borrow_mut(|r| {
            let new = !r.contains(&device);
            new.then(|| r.push(device))
        })?;
        Some(Self(device))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(|r| r.retain(|d| *d != self.0));
    }
}

impl OscDevice {
    /// Sends what there is to send, and forms RPCs, as far as the limits allow. Doesn't block; the caller holds no
    /// mutex. May be called in a completion.
    pub(crate) fn pump(self: &Arc<Self>, env: &Env) {
        let Some(_running) = Running::enter(Arc::as_ptr(self) as usize) else { return };
        self.lock_state().next_round();
        loop {
            let (slots, bytes) = {
                let config = self.config.read();
                (config.max_rpcs_in_flight, config.max_rpc_bytes)
            };
            let job = self.lock_state().next_job(slots, bytes);
            match job {
                None => return,
                Some(Job::Send(rpc, in_flight)) => self.send(rpc, in_flight),
                Some(Job::Form(batch)) => {
                    if let Some(rpc) = self.form(env, batch, false) {
                        let in_flight = {
                            let mut state = self.lock_state();
                            state.on_their_way += 1;
                            state.on_their_way
                        };
                        self.send(rpc, in_flight);
                    }
                }
            }
        }
    }

    /// Has a worker run the engine, so that a writer goes on while its data is summed and sent. Doesn't block.
    pub(crate) fn pump_soon(self: &Arc<Self>, env: &Env) {
        if self.pump_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let device = self.clone();
        let taken = self.workers.push_quick(move |env| {
            // Before the engine looks: what is staged from now on asks again.
            device.pump_due.store(false, Ordering::Release);
            device.pump(env);
        });
        if !taken {
            self.pump_due.store(false, Ordering::Release);
            self.pump(env);
        }
    }

    /// Makes an RPC of a batch: Cached → PageOut for what is dirty of it. What isn't dirty gives its credit back; what
    /// is in use stays staged, unless `wait` says to wait for it. `None` if there is nothing to send.
    pub(crate) fn form(self: &Arc<Self>, env: &Env, mut batch: Batch, wait: bool) -> Option<Box<Rpc>> {
        let mut pages = PageList::new();
        let mut bulk = Bulk::new();
        let mut rest = Vec::new();
        for Taken { page, blocks, since } in std::mem::take(&mut batch.spans) {
            let (moved, _window) = page.make_ready(env, blocks, wait);
            // If the page was in use, its window is still open; no credit goes while it is.
            let left = blocks.minus(moved);
            page.close_window(left);
            let dirty = page.dirty().and(left);
            if !dirty.is_empty() {
                rest.push(Taken { page: page.clone(), blocks: dirty, since });
            }
            if !moved.is_empty() {
                page.bulk(Rw::Write, moved, &mut bulk);
                pages.push(page, moved);
            }
        }
        let blocks = pages.blocks();
        let valid = self.lock_state().launch_token(&batch, blocks, rest);
        if blocks == 0 {
            self.drop_batch(&batch, false);
            return None;
        }
        let Batch { key, lock, token, epoch, slot, .. } = batch;
        let object = batch.object.clone();
        let (req, attr) = match Self::make_request(env, Rw::Write, &object, pages) {
            Ok(made) => made,
            Err(e) => {
                self.latch(key, &object, &e, epoch);
                self.drop_batch(&batch, false);
                return None;
            }
        };
        let rpc = Rpc {
            rw: Rw::Write,
            owner: Owner::Pages(req),
            extent: hull(&bulk),
            object,
            key,
            bulk,
            lock,
            token: Some(token),
            grant: if valid { blocks as u64 * BLOCK_SIZE } else { 0 },
            epoch,
            latches: true,
            durable: false,
            mtime: attr.mtime,
            slot,
            attempts: 0,
        };
        Some(Box::new(rpc))
    }

    /// Nothing of the batch goes on its way.
    fn drop_batch(&self, batch: &Batch, arrived: bool) {
        let mut state = self.lock_state();
        state.end_token(batch.key, batch.token, arrived);
        state.slots -= usize::from(batch.slot);
        self.wake(&state);
    }

    /// Wakes those who wait for something to change.
    pub(crate) fn wake(&self, state: &State) {
        self.books.wake(state);
    }

    /// Puts an RPC in the queue: of those that go at once, or of those that wait for a slot.
    pub(crate) fn queue(&self, rpc: Box<Rpc>, hot: bool) {
        let mut state = self.lock_state();
        if hot { state.hot.push_back(rpc) } else { state.pending.push_back(rpc) }
    }

    /// Writes out what is dirty of `range` and waits until all of it, and all that was on its way, has arrived or
    /// failed; errors are kept at the object. With `hot`, slots don't matter: somebody waits for a lock. Blocks; the
    /// caller holds no mutex and owns no page of the object.
    pub(crate) fn flush(self: &Arc<Self>, env: &Env, key: ObjectKey, range: Extent, hot: bool) {
        loop {
            let max_bytes = self.config.read().max_rpc_bytes;
            let batch = {
                let mut state = self.lock_state();
                let batch = state.take(key, range, max_bytes, ANY_ROUND);
                let moving = state.objects.get(&key).is_some_and(|s| s.is_moving(range));
                match batch {
                    None if !moving => return,
                    None if (hot && state.heat(key, range)) || !state.hot.is_empty() => None,
                    None => {
                        self.books.wait(&mut state, None);
                        continue;
                    }
                    batch => batch,
                }
            };
            if let Some(rpc) = batch.and_then(|b| self.form(env, b, true)) {
                self.queue(rpc, hot);
            }
            self.pump(env);
        }
    }

    /// Waits until nothing of `range` is between the staging area and the target. Blocks.
    pub(crate) fn wait_moving(&self, key: ObjectKey, range: Extent) {
        self.books.wait_moving(key, range);
    }

    /// Drops what is dirty of `range`, without writing it. In flight it may be, and stays.
    pub(crate) fn drop_dirty(&self, env: &Env, key: ObjectKey, range: Extent) -> bool {
        forget(env, &self.books.drop_staged(key, range))
    }
}

/// Invalidates blocks that were taken out of the staging area. Whether one was dirty.
pub(crate) fn forget(env: &Env, taken: &[Taken]) -> bool {
    let mut any = false;
    for t in taken {
        t.page.close_window(t.blocks);
        let dirty = t.page.dirty().and(t.blocks);
        any |= !dirty.is_empty();
        if dirty != BlockSet::EMPTY {
            t.page.discard(env, dirty);
        }
    }
    any
}
