//! One RPC with data: from its making to its completion.

use crate::device::OscDevice;
use crate::staging::LockTag;
use crate::state::{ObjectKey, Over};
use crate::stats::bump;
use clio_core::attr::{AttrMask, Lvb};
use clio_core::env::{Env, EnvTags};
use clio_core::error::{Errno, Error, Result};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::Object;
use clio_core::page::{PageList, Rw, SyncIo};
use clio_core::req::TransferReq;
use clio_core::target::{Bulk, Op, Reply};
use clio_core::units::Extent;
use std::cmp::Ordering;
use std::sync::Arc;

/// Who is told when an RPC is over.
#[derive(Debug)]
pub(crate) enum Owner {
    /// The pages of a request.
    Pages(TransferReq),
    /// A direct transfer.
    Direct(Arc<SyncIo>),
}

/// What an RPC moves, and for whom.
#[derive(Debug)]
pub(crate) struct Rpc {
    pub(crate) rw: Rw,
    pub(crate) owner: Owner,
    pub(crate) object: Arc<Object>,
    pub(crate) key: ObjectKey,
    pub(crate) bulk: Bulk,
    /// Hull of the bulk.
    pub(crate) extent: Extent,
    /// Lock that covers a write.
    pub(crate) lock: LockTag,
    /// Token of a write of pages.
    pub(crate) token: Option<u64>,
    /// Bytes of grant that a write uses up.
    pub(crate) grant: u64,
    /// Evictions before the data was taken.
    pub(crate) epoch: u64,
    /// Whether nobody waits for the result, so that an error is to be kept for fsync.
    pub(crate) latches: bool,
    /// Whether the data must be durable before the reply.
    pub(crate) durable: bool,
    pub(crate) mtime: u64,
    /// Whether it holds a slot.
    pub(crate) slot: bool,
    pub(crate) attempts: u32,
}

impl Rpc {
    fn bytes(&self) -> u64 {
        self.bulk.iter().map(|s| s.mem.len() as u64).sum()
    }

    fn checksum(&self) -> u32 {
        self.bulk.iter().fold(0, |crc, s| s.mem.crc32c(crc))
    }

    fn op(&self, checksums: bool) -> Op {
        let (fid, bulk) = (self.object.fid(), self.bulk.clone());
        match self.rw {
            Rw::Read => Op::Read { fid, bulk, checksum: checksums },
            Rw::Write => Op::Write {
                fid,
                bulk,
                checksum: checksums.then(|| self.checksum()),
                lock: self.lock,
                grant: self.grant,
                mtime: self.mtime,
                sync: self.durable,
            },
        }
    }
}

pub(crate) fn hull(bulk: &Bulk) -> Extent {
    bulk.iter().fold(Extent::new(0, 0), |e, s| e.hull(s.extent()))
}

/// How often data is sent again that the target says it didn't get as it was sent.
const RESENDS_OF_ALTERED: u32 = 4;

/// Errors that may go away by themselves. A target that can't be reached any more says so by its error's kind.
pub(crate) fn is_transient(e: &Error) -> bool {
    matches!(e.errno(), Errno::EIO | Errno::EAGAIN | Errno::ENOMEM | Errno::EBADMSG)
        && e.kind() != std::io::ErrorKind::NotConnected
}

impl OscDevice {
    /// Makes the request of an RPC of pages ready: Created → Prepared. If a layer objects, its pages are completed with
    /// that error.
    ///
    /// # Errors
    /// What a layer says.
    pub(crate) fn make_request(
        env: &Env,
        rw: Rw,
        object: &Arc<Object>,
        pages: PageList,
    ) -> Result<(TransferReq, clio_core::attr::Attr)> {
        let spans = pages.clone();
        let mut req = match TransferReq::new(env, rw, object, pages) {
            Ok(req) => req,
            Err(e) => {
                let failed = Err(e.clone());
                spans.iter().for_each(|s| s.page.completion(env, rw, s.blocks, &failed));
                return Err(e);
            }
        };
        match req.prepare() {
            Ok(attr) => Ok((req, attr)),
            Err(e) => {
                req.complete(env, &Err(e.clone()));
                Err(e)
            }
        }
    }

    /// Sends an RPC that [`State::next_job`](crate::state::State::next_job) has chosen.
    pub(crate) fn send(self: &Arc<Self>, mut rpc: Box<Rpc>, in_flight: usize) {
        let bytes = rpc.bytes();
        self.counters.sent(rpc.rw, bytes, in_flight);
        tracing::trace!(target: "clio::osc", rw = ?rpc.rw, fid = %rpc.object.fid(), extent = ?rpc.extent, bytes, in_flight);
        if let Owner::Pages(req) = &mut rpc.owner {
            req.launch();
        }
        self.transmit(rpc);
    }

    /// Hands the RPC to the target, for the first time or again.
    fn transmit(self: &Arc<Self>, rpc: Box<Rpc>) {
        let checksums = self.config.read().checksums;
        let op = rpc.op(checksums);
        let device = self.clone();
        self.target.submit(self.client(), op, Box::new(move |result| device.answered(rpc, result)));
    }

    /// The target has answered. Called by any thread; doesn't block.
    fn answered(self: &Arc<Self>, mut rpc: Box<Rpc>, result: Result<Reply>) {
        // Data that is damaged where it is stored is so the next time, too.
        let at_rest = rpc.rw == Rw::Read && matches!(&result, Err(e) if e.errno() == Errno::EBADMSG);
        let result = result.and_then(|reply| self.verify(&rpc, reply));
        if let Err(e) = &result {
            if e.errno() == Errno::EBADMSG && !at_rest {
                bump(&self.counters.checksum_errors);
            }
            let (limit, delay) = {
                let config = self.config.read();
                // A target that goes on to find other data than was sent has it altered where it is stored.
                let limit = if e.errno() == Errno::EBADMSG { RESENDS_OF_ALTERED } else { u32::MAX };
                (config.resend_limit.min(limit), config.delay(rpc.attempts + 1))
            };
            let evicted = self.lock_state().epoch != rpc.epoch;
            if e.errno() == Errno::EPROTO && rpc.grant > 0 && !evicted {
                // The grant is gone at the target, with an eviction that is yet to be heard of. The data needs none; if
                // its lock is gone too, that is told now.
                rpc.grant = 0;
                bump(&self.counters.resends);
                return self.transmit(rpc);
            }
            if is_transient(e) && !at_rest && !evicted && rpc.attempts < limit {
                rpc.attempts += 1;
                bump(&self.counters.resends);
                tracing::debug!(target: "clio::osc", fid = %rpc.object.fid(), error = %e, attempt = rpc.attempts, "resend");
                return self.resend_later(rpc, delay, e.clone());
            }
        }
        self.finish(rpc, result);
    }

    fn resend_later(self: &Arc<Self>, rpc: Box<Rpc>, delay: std::time::Duration, why: Error) {
        // Kept where it can be found if the timer won't run any more.
        let parcel = Arc::new(RankedMutex::new(LockRank::Leaf, Some(rpc)));
        let (device, sent) = (self.clone(), parcel.clone());
        let timer = move |_: &Env| {
            let rpc = sent.lock().take();
            if let Some(rpc) = rpc {
                // An eviction meanwhile: the data must not be written any more.
                if device.lock_state().epoch == rpc.epoch {
                    device.transmit(rpc)
                } else {
                    device.finish(rpc, Err(evicted()))
                }
            }
        };
        if !self.workers.after(delay, timer) {
            let rpc = parcel.lock().take();
            if let Some(rpc) = rpc {
                self.finish(rpc, Err(why));
            }
        }
    }

    /// Checks the data of a read against the target's checksum.
    fn verify(&self, rpc: &Rpc, reply: Reply) -> Result<Reply> {
        if let Reply::Read { checksum: Some(sent), .. } = reply {
            let found = rpc.checksum();
            if found != sent {
                let text = format!("the data has crc32c {found:#010x}, but was sent with {sent:#010x}");
                return Err(Error::new(Errno::EBADMSG, "read", text).on(rpc.object.fid()));
            }
        }
        Ok(reply)
    }

    /// The RPC is over: errors are kept, pages are released, credit goes back, and others get the slot.
    fn finish(self: &Arc<Self>, rpc: Box<Rpc>, result: Result<Reply>) {
        let env = Env::get(EnvTags::ANY);
        let Rpc { rw, owner, object, key, extent, lock, token, epoch, latches, slot, .. } = *rpc;
        let mut grant = 0;
        if let Ok(Reply::Written { grant: given, lvb }) = &result {
            grant = *given;
            object.attrs().raise_size(lvb.size);
            self.take_blocks(key, &object, lvb);
        }
        let outcome = result.map(|_| ()).map_err(|e| self.final_error(e, rw, epoch).on(object.fid()));
        if let Err(e) = &outcome {
            tracing::warn!(target: "clio::osc", ?rw, fid = %object.fid(), ?extent, error = %e, "failed");
            // Before anybody that waits for the data goes on.
            if latches {
                self.latch(key, &object, e, epoch);
            }
            if rw == Rw::Write {
                self.doubt_size(lock);
            }
        }
        let sync = match owner {
            Owner::Pages(req) => {
                req.complete(&env, &outcome);
                None
            }
            Owner::Direct(sync) => Some(sync),
        };
        self.books.settle(&Over { key, rw, token, epoch, slot, latches, arrived: outcome.is_ok(), grant });
        // After the device's books are in order: the waiter may look at them, or go.
        if let Some(sync) = sync {
            sync.note(1, &outcome);
        }
        if rw == Rw::Write && slot {
            // The target's thread is not for summing the next one.
            self.pump_soon(&env);
        } else {
            self.pump(&env);
        }
    }

    /// Takes the number of blocks from a write's reply. Replies may come out of order: the object's time at the target is
    /// never lowered, so that one with an earlier time is older; of the same time, more was written by the later.
    fn take_blocks(&self, key: ObjectKey, object: &Object, lvb: &Lvb) {
        object.attr_modify(AttrMask::BLOCKS, |a| {
            let mut state = self.lock_state();
            let Some(stage) = state.objects.get_mut(&key) else { return };
            a.blocks = match lvb.mtime.cmp(&stage.blocks_as_of) {
                Ordering::Less => return,
                Ordering::Equal => a.blocks.max(lvb.blocks),
                Ordering::Greater => lvb.blocks,
            };
            stage.blocks_as_of = lvb.mtime;
        });
    }

    /// A write failed that may have raised the size as known here: the lock goes that this knowledge comes with, so that
    /// the target is asked again.
    fn doubt_size(&self, lock: LockTag) {
        let lock = lock.and_then(|handle| self.locks.find(handle));
        if let Some(lock) = lock {
            self.workers.push(move |env| {
                lock.cancel(env);
            });
        }
    }

    /// What the caller is told: a write under a lock that is gone comes of an eviction, heard of or not yet.
    fn final_error(&self, e: Error, rw: Rw, epoch: u64) -> Error {
        let lost = match e.errno() {
            Errno::ESTALE => rw == Rw::Write,
            Errno::EPROTO => self.lock_state().epoch != epoch,
            _ => false,
        };
        if lost { evicted().with_cause(e) } else { e }
    }

    /// Keeps the error of a write that nobody waits for. One eviction is one error for an object.
    pub(crate) fn latch(&self, key: ObjectKey, object: &Arc<Object>, e: &Error, epoch: u64) {
        let told = {
            let mut state = self.lock_state();
            let now = state.epoch;
            match state.objects.get_mut(&key) {
                Some(stage) if now != epoch => std::mem::replace(&mut stage.told_epoch, now) == now,
                _ => false,
            }
        };
        if !told {
            object.latch_error(e);
        }
    }
}

/// What becomes of data whose locks the target has taken away.
pub(crate) fn evicted() -> Error {
    Error::new(
        Errno::EIO,
        "write",
        "the target evicted this client: data not yet written there is lost; write it again",
    )
}
