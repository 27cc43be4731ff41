//! What the target tells this client: recorded or queued, never worked on here.
//!
//! The two mutexes taken (the lock table's, and for an eviction the staging area's) are held for a few look-ups and
//! never while a target is called, so that no AST waits for anything that waits for an AST.

use crate::device::OscDevice;
use crate::lock_table::AstOutcome;
use crate::rpc::evicted;
use crate::staging::Taken;
use crate::state::ObjectKey;
use crate::stats::bump;
use clio_core::env::Env;
use clio_core::target::{DlmHandle, GlimpseReply, TargetClient};
use clio_core::units::{Extent, TargetIndex};
use std::sync::{Arc, Weak};

pub(crate) struct Callbacks {
    device: Weak<OscDevice>,
}

impl Callbacks {
    pub(crate) fn new(device: Weak<OscDevice>) -> Self {
        Self { device }
    }
}

impl TargetClient for Callbacks {
    fn blocking_ast(&self, _: TargetIndex, handle: DlmHandle) {
        let Some(device) = self.device.upgrade() else { return };
        bump(&device.counters.blocking_asts);
        let workers = device.workers.clone();
        match device.locks.note_blocking(handle) {
            AstOutcome::Cancel => drop(workers.push(move |env| device.give_up(env, handle))),
            AstOutcome::Disown => drop(workers.push_quick(move |_| device.send_cancel(handle, 1))),
            AstOutcome::Noted => {}
        }
    }

    fn glimpse_ast(&self, _: TargetIndex, handle: DlmHandle, reply: GlimpseReply) {
        let Some(device) = self.device.upgrade() else { return };
        bump(&device.counters.glimpse_asts);
        // A reply that is dropped says that we know no better.
        if let Some(attrs) = device.locks.attrs(handle) {
            let a = attrs.load();
            reply(clio_core::attr::Lvb {
                size: a.kms,
                blocks: a.blocks,
                mtime: a.mtime,
                atime: a.atime,
                ctime: a.ctime,
            });
        }
    }

    fn evicted(&self, _: TargetIndex) {
        let Some(device) = self.device.upgrade() else { return };
        bump(&device.counters.evictions);
        tracing::warn!(target: "clio::osc", target = device.target.index().0, "evicted");
        let dropped = device.lock_state().evict();
        let workers = device.workers.clone();
        workers.push(move |env| device.bury(env, dropped));
    }
}

impl OscDevice {
    /// Somebody wants the lock: cancels it, now or at its last use. Blocks.
    fn give_up(&self, env: &Env, handle: DlmHandle) {
        if let Some(lock) = self.locks.find(handle) {
            lock.cancel(env);
        }
    }

    /// After an eviction: data goes first, then the locks, then whoever lost something is told. Blocks.
    fn bury(self: &Arc<Self>, env: &Env, dropped: Vec<(ObjectKey, Vec<Taken>)>) {
        let epoch = self.lock_state().epoch;
        for (key, taken) in dropped {
            let lost = crate::engine::forget(env, &taken);
            drop(taken);
            let object = self.lock_state().objects.get(&key).and_then(|s| s.object.upgrade());
            let Some(object) = object else { continue };
            // Told before anything under the locks is gone, and with it the chance to notice.
            if lost {
                self.latch(key, &object, &evicted().on(object.fid()), epoch.wrapping_sub(1));
            }
            self.invalidate(env, &object, Extent::WHOLE, &[]);
            // Each drops what came under it since, and cuts KMS; those in use do so at their last use.
            object.locks().discard_all(env);
        }
        let state = self.lock_state();
        self.wake(&state);
    }
}
