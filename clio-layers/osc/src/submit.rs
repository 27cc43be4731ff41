//! Immediate transfers: lists of owned pages, and memory past the cache.
//!
//! Nothing here waits for a slot: RPCs are queued, and sent as slots become free. What is queued is bounded by the
//! pages that callers own and by the memory that they wait for.

use crate::commit::{now_ns, write_time};
use crate::device::OscDevice;
use crate::rpc::{Owner, Rpc, hull};
use crate::staging::{LockTag, first_blocks};
use crate::state::{ObjectKey, blocks_extent};
use clio_core::env::Env;
use clio_core::error::Result;
use clio_core::io::{IoCommon, IoKind, LockDemand};
use clio_core::page::{PageList, PageQueues, PageSpan, Rw, SyncIo};
use clio_core::target::{Bulk, BulkSegment};
use clio_core::units::{BLOCK_SIZE, Extent};
use std::sync::Arc;

/// Collects blocks in transfer into RPCs.
struct Builder<'a> {
    device: &'a Arc<OscDevice>,
    env: &'a Env,
    io: &'a IoCommon,
    key: ObjectKey,
    rw: Rw,
    max_blocks: usize,
    lock: LockTag,
    pages: PageList,
}

impl Builder<'_> {
    /// Adds blocks of one page that have been prepared. On an error, those not sent are completed with it.
    fn add(&mut self, span: &PageSpan) -> Result<()> {
        if self.rw == Rw::Read {
            return self.add_under(span, None);
        }
        let pieces = self.device.locks.pieces(self.key, blocks_extent(&span.page, span.blocks));
        let mut result = Ok(());
        for (lock, piece) in pieces {
            let blocks = span.blocks.and(span.page.blocks_of(piece));
            let added = self.add_under(&PageSpan { page: span.page.clone(), blocks }, lock);
            result = result.and(added);
        }
        result
    }

    fn add_under(&mut self, span: &PageSpan, lock: LockTag) -> Result<()> {
        let mut result = Ok(());
        if self.lock != lock {
            result = self.send();
            self.lock = lock;
        }
        let mut left = span.blocks;
        while !left.is_empty() {
            let some = first_blocks(left, self.max_blocks - self.pages.blocks());
            self.pages.push(span.page.clone(), some);
            left = left.minus(some);
            if self.pages.blocks() == self.max_blocks {
                let sent = self.send();
                result = result.and(sent);
            }
        }
        result
    }

    /// Makes an RPC of what was collected, and queues it.
    fn send(&mut self) -> Result<()> {
        let pages = std::mem::take(&mut self.pages);
        if pages.is_empty() {
            return Ok(());
        }
        let mut bulk = Bulk::new();
        pages.iter().for_each(|s| s.page.bulk(self.rw, s.blocks, &mut bulk));
        let extent = hull(&bulk);
        let object = self.io.object.clone();
        if self.rw == Rw::Write && !matches!(self.io.kind, IoKind::Fault { .. }) {
            object.attrs().raise(extent.end, write_time(&object));
        }
        let (req, attr) = OscDevice::make_request(self.env, self.rw, &object, pages)?;
        let mut state = self.device.lock_state();
        let token = (self.rw == Rw::Write).then(|| state.add_token(self.key, extent, 0));
        let rpc = Rpc {
            rw: self.rw,
            owner: Owner::Pages(req),
            object,
            key: self.key,
            bulk,
            extent,
            lock: self.lock,
            token,
            grant: 0,
            epoch: state.epoch,
            latches: false,
            durable: self.io.dsync,
            mtime: attr.mtime,
            slot: false,
            attempts: 0,
        };
        state.pending.push_back(Box::new(rpc));
        Ok(())
    }
}

impl OscDevice {
    /// Starts the transfer of owned pages: see [`clio_core::io::IoSlice::submit`]. Doesn't wait.
    ///
    /// # Errors
    /// The first error of a page's or a request's preparation. What was prepared before is on its way, or completed.
    pub(crate) fn submit(
        self: &Arc<Self>,
        env: &Env,
        io: &IoCommon,
        key: ObjectKey,
        rw: Rw,
        queues: &mut PageQueues,
    ) -> Result<()> {
        let max_blocks = (self.config.read().max_rpc_bytes / BLOCK_SIZE) as usize;
        let mut builder = Builder { device: self, env, io, key, rw, max_blocks, lock: None, pages: PageList::new() };
        let mut result = Ok(());
        let mut stay = PageList::new();
        for mut span in queues.qin.drain() {
            let moving = match result {
                Ok(()) => span.page.prep(env, io.id, rw, span.blocks),
                Err(_) => Ok(clio_core::units::BlockSet::EMPTY),
            };
            let moving = moving.unwrap_or_else(|e| {
                result = Err(e);
                clio_core::units::BlockSet::EMPTY
            });
            span.blocks = span.blocks.minus(moving);
            if !span.blocks.is_empty() {
                stay.push(span.page.clone(), span.blocks);
            }
            if moving.is_empty() {
                continue;
            }
            if let Some(sync) = &queues.sync {
                span.page.notify(moving, sync);
            }
            queues.qout.push(span.page.clone(), moving);
            let added = builder.add(&PageSpan { page: span.page, blocks: moving });
            result = result.and(added);
        }
        queues.qin = stay;
        result = result.and(builder.send());
        self.pump(env);
        result
    }

    /// Starts a transfer past the cache: see [`clio_core::io::IoSlice::direct`]. Doesn't wait.
    pub(crate) fn direct(
        self: &Arc<Self>,
        env: &Env,
        io: &IoCommon,
        key: ObjectKey,
        rw: Rw,
        bulk: &Bulk,
        sync: &Arc<SyncIo>,
    ) {
        let max_bytes = self.config.read().max_rpc_bytes;
        let under_lock = rw == Rw::Write && io.demand != LockDemand::Never;
        let mut rpcs: Vec<(LockTag, Bulk)> = Vec::new();
        let mut room = 0;
        for segment in bulk.iter().filter(|s| !s.mem.is_empty()) {
            let pieces = match under_lock {
                true => self.locks.pieces(key, segment.extent()),
                false => std::iter::once((None, segment.extent())).collect(),
            };
            for (lock, piece) in pieces {
                let mut at = piece.start;
                while at < piece.end {
                    if room == 0 || rpcs.last().is_none_or(|(l, _)| *l != lock) {
                        rpcs.push((lock, Bulk::new()));
                        room = max_bytes;
                    }
                    let end = piece.end.min(at + room);
                    let mem = segment.mem.slice((at - segment.offset) as usize..(end - segment.offset) as usize);
                    if let Some((_, bulk)) = rpcs.last_mut() {
                        bulk.push(BulkSegment { offset: at, mem });
                    }
                    room -= end - at;
                    at = end;
                }
            }
        }
        let end = bulk.iter().map(|s| s.extent().end).max().unwrap_or(0);
        let mtime = if rw == Rw::Write { write_time(&io.object) } else { now_ns() };
        if under_lock && !bulk.is_empty() {
            // The lock says that nobody else changes the size meanwhile, and asks us for it.
            io.object.attrs().raise(end, mtime);
        }
        sync.expect(rpcs.len());
        {
            let mut state = self.lock_state();
            for (lock, bulk) in rpcs {
                let rpc = Rpc {
                    rw,
                    owner: Owner::Direct(sync.clone()),
                    object: io.object.clone(),
                    key,
                    extent: hull(&bulk),
                    bulk,
                    lock,
                    token: None,
                    grant: 0,
                    epoch: state.epoch,
                    latches: false,
                    durable: io.dsync,
                    mtime,
                    slot: false,
                    attempts: 0,
                };
                state.pending.push_back(Box::new(rpc));
            }
        }
        self.pump(env);
    }

    /// What a read under the locks held now may fetch around `offset`.
    pub(crate) fn covered(&self, io: &IoCommon, offset: u64) -> Extent {
        let covered = io.object.locks().covered_around(offset, clio_core::target::LockMode::Pr);
        covered.unwrap_or(Extent::new(offset, offset))
    }
}
