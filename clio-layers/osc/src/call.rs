//! Requests without data: somebody waits for the answer, and they are sent again after passing trouble, as RPCs are.

use crate::device::OscDevice;
use crate::rpc::is_transient;
use crate::stats::bump;
use clio_core::error::{Errno, Error, Result};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::Condvar;
use clio_core::target::{DlmHandle, Op, Reply};
use std::sync::Arc;

/// The answer to come.
#[derive(Debug)]
struct Answer {
    reply: RankedMutex<Option<Result<Reply>>>,
    done: Condvar,
}

/// A call that waits for its answer.
#[derive(Debug)]
pub(crate) struct Call {
    answer: Arc<Answer>,
    /// What to ask again.
    op: Option<Op>,
    /// Evictions before it was asked.
    epoch: u64,
}

/// The same request once more, if it may be carried out twice: whoever asks has a lock on what it changes.
fn again(op: &Op) -> Option<Op> {
    Some(match *op {
        Op::Punch { fid, extent, lock, mtime } => Op::Punch { fid, extent, lock, mtime },
        Op::Seek { fid, offset, hole } => Op::Seek { fid, offset, hole },
        Op::Enqueue { fid, extent, mode, flags } if flags.glimpse => Op::Enqueue { fid, extent, mode, flags },
        Op::GetAttr(fid) => Op::GetAttr(fid),
        Op::Sync(fid) => Op::Sync(fid),
        Op::StatFs => Op::StatFs,
        Op::Disconnect => Op::Disconnect,
        _ => return None,
    })
}

/// Whether an error of `op`, which has no data, may go away by itself. One of a disk that was told to sync never does: the
/// system forgets that it couldn't write, and would call the next attempt a success. Nor does damage, where nothing was
/// sent that the way could have altered.
fn passes(op: &Op, e: &Error) -> bool {
    is_transient(e) && e.errno() != Errno::EBADMSG && !(matches!(op, Op::Sync(_)) && e.errno() == Errno::EIO)
}

impl OscDevice {
    /// Asks the target something that has no data, and waits for the answer. Blocks; the caller holds no mutex.
    ///
    /// # Errors
    /// What the target says.
    pub fn call(&self, op: Op) -> Result<Reply> {
        self.wait_call(&self.begin_call(op))
    }

    /// Starts what [`OscDevice::call`] does.
    pub(crate) fn begin_call(&self, op: Op) -> Call {
        let epoch = self.lock_state().epoch;
        let kept = again(&op);
        Call { answer: self.ask(op), op: kept, epoch }
    }

    fn ask(&self, op: Op) -> Arc<Answer> {
        let reply = RankedMutex::new(LockRank::Transfer, None);
        let asked = Arc::new(Answer { reply, done: Condvar::new() });
        let answer = asked.clone();
        let done = move |result| {
            *answer.reply.lock() = Some(result);
            answer.done.notify_all();
        };
        self.target.submit(self.client(), op, Box::new(done));
        asked
    }

    /// Waits for the answer. Blocks; the caller holds no mutex. Asked for once.
    ///
    /// # Errors
    /// What the target says.
    pub(crate) fn wait_call(&self, call: &Call) -> Result<Reply> {
        let (mut attempts, mut result) = (0, call.answer.wait());
        while let (Err(e), Some(op)) = (&result, &call.op) {
            if matches!(op, Op::Enqueue { .. }) {
                self.suspect_lost_lock();
            }
            let (limit, delay) = {
                let config = self.config.read();
                (config.resend_limit, config.delay(attempts + 1))
            };
            let evicted = self.lock_state().epoch != call.epoch;
            let next = again(op).filter(|_| passes(op, e) && attempts < limit && !evicted);
            let Some(next) = next else { break };
            attempts += 1;
            bump(&self.counters.resends);
            tracing::debug!(target: "clio::osc", ?op, error = %e, attempt = attempts, "resend");
            std::thread::sleep(delay);
            result = self.ask(next).wait();
        }
        result
    }

    /// An answer didn't come that may have named a lock. Doesn't block.
    pub(crate) fn suspect_lost_lock(&self) {
        for handle in self.locks.suspect() {
            let device = self.this.clone();
            self.workers.push_quick(move |_| {
                if let Some(device) = device.upgrade() {
                    device.send_cancel(handle, 1);
                }
            });
        }
    }

    /// Tells the target that the lock `handle` is given back, as often as it takes: somebody may wait for it. Doesn't
    /// block.
    pub(crate) fn send_cancel(&self, handle: DlmHandle, attempt: u32) {
        let device = self.this.clone();
        let done = move |result: Result<Reply>| {
            let (Some(device), Err(e)) = (device.upgrade(), result) else { return };
            if is_transient(&e) {
                let delay = device.config.read().delay(attempt);
                bump(&device.counters.resends);
                tracing::debug!(target: "clio::osc", handle = handle.0, error = %e, attempt, "cancel again");
                let later = device.this.clone();
                // Without a timer the device is going, and its locks with it.
                device.workers.after(delay, move |_| {
                    if let Some(device) = later.upgrade() {
                        device.send_cancel(handle, attempt.saturating_add(1));
                    }
                });
            }
        };
        self.target.submit(self.client(), Op::Cancel(handle), Box::new(done));
    }
}

impl Answer {
    fn wait(&self) -> Result<Reply> {
        let mut reply = self.reply.lock();
        loop {
            match reply.take() {
                Some(result) => return result,
                None => reply = reply.wait(&self.done),
            }
        }
    }
}
