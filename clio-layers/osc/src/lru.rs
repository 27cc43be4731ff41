//! How many locks are kept: those not used for long go, and when there are too many, the least recently used.

use crate::device::OscDevice;
use clio_core::env::Env;
use clio_core::lock::ExtentLock;
use clio_core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// How many more locks go than must, at least, so that not every new lock costs a scan; a sixteenth of a large limit.
const SPARE: usize = 16;

/// What is scheduled.
#[derive(Debug, Default)]
pub(crate) struct LockUpkeep {
    shrinking: AtomicBool,
    ageing: AtomicBool,
}

impl OscDevice {
    /// A lock is being added: has others cancelled if there are too many. Doesn't block.
    pub(crate) fn limit_locks(self: &Arc<Self>) {
        let limit = self.config.read().lock_limit;
        if self.locks.surplus(limit) > 0 && !self.upkeep.shrinking.swap(true, Ordering::AcqRel) {
            let device = Arc::downgrade(self);
            self.workers.push(move |env| {
                if let Some(device) = Weak::upgrade(&device) {
                    // First, so that a lock that comes during the scan has another one made.
                    device.upkeep.shrinking.store(false, Ordering::Release);
                    device.shrink_locks(env);
                }
            });
        }
        self.arm_ageing();
    }

    /// Cancels idle locks that nothing would be lost with, the least recently used first. Blocks.
    pub(crate) fn shrink_locks(&self, env: &Env) {
        let limit = self.config.read().lock_limit;
        let surplus = self.locks.surplus(limit);
        if surplus == 0 {
            return;
        }
        let mut idle: Vec<_> = self.locks.all().into_iter().filter(is_idle).map(|l| (l.last_used(), l)).collect();
        idle.sort_by_key(|(used, lock)| (*used, lock.id()));
        let spare = SPARE.min(limit / 4).max(limit / 16);
        let worthless = idle.iter().map(|(_, l)| l).filter(|l| l.weigh(env) == 0);
        for lock in worthless.take(surplus + spare) {
            lock.cancel(env);
        }
    }

    fn arm_ageing(self: &Arc<Self>) {
        if self.upkeep.ageing.swap(true, Ordering::AcqRel) {
            return;
        }
        let period = self.config.read().lock_age / 4;
        let (device, workers) = (Arc::downgrade(self), Arc::downgrade(&self.workers));
        self.workers.after(period, move |_| {
            // Cancelling blocks, and this is the timer.
            if let Some(workers) = workers.upgrade() {
                workers.push(move |env| {
                    if let Some(device) = Weak::upgrade(&device) {
                        device.age_locks(env);
                    }
                });
            }
        });
    }

    fn age_locks(self: &Arc<Self>, env: &Env) {
        self.upkeep.ageing.store(false, Ordering::Release);
        self.shrink_locks(env);
        let idle_for = self.config.read().lock_age;
        let old = self.locks.begin_age(Instant::now(), ExtentLock::advance_age(), idle_for);
        if let Some(old) = old {
            let unused = self.locks.all().into_iter().filter(|l| l.last_used() < old && is_idle(l));
            for lock in unused.filter(|l| l.weigh(env) == 0).collect::<Vec<_>>() {
                lock.cancel(env);
            }
        }
        if self.locks.len() > 0 {
            self.arm_ageing();
        }
    }
}

fn is_idle(lock: &Arc<ExtentLock>) -> bool {
    lock.is_granted() && lock.counts().1 == 0
}
