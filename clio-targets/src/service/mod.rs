//! The half of a target that all kinds of stores share: connections, locks, grants, callbacks, lockless I/O.
//!
//! One mutex guards what the service knows. It is never held while the store works or a callback runs: what is to be
//! told goes into an outbox first, and is told after, in order.

mod data;
mod grant;
mod locks;
mod outbox;
mod state;
#[cfg(test)]
mod tests;

pub use grant::{GrantConfig, GrantStats};

use crate::exec::{Executor, Pool};
use crate::store::ObjectStore;
use crate::timer::Timer;
use clio_core::Result;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::atomic::{AtomicBool, Ordering};
use clio_core::target::{Completion, Op, Reply, Target, TargetClient};
use clio_core::units::{ClientId, TargetIndex};
use clio_core::{Errno, Error};
use clio_dlm::{Dlm, DlmConfig};
use grant::GrantTable;
use state::State;
use std::sync::Arc;
use std::time::Instant;

/// Settings of a [`Service`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceConfig {
    /// Grants.
    pub grant: GrantConfig,
    /// The lock manager.
    pub dlm: DlmConfig,
}

/// A storage target: an [`ObjectStore`] with clients.
///
/// A client keeps its callbacks alive here until it sends [`Op::Disconnect`]. Dropping the service finishes what the
/// store is at work on; whoever waits for a lock then gets `ESHUTDOWN`.
///
/// A write under a lock keeps that lock until it is done, even if the client cancels it, leaves or is evicted
/// meanwhile: nobody is granted what an older write could still reach.
///
/// A failed write uses up no grant: the client still holds what it named in the request.
#[derive(Debug)]
pub struct Service<S: ObjectStore> {
    core: Arc<Core<S>>,
}

#[derive(Debug)]
struct Core<S: ObjectStore> {
    index: TargetIndex,
    store: S,
    exec: Executor,
    timer: Timer,
    started: Instant,
    closing: AtomicBool,
    state: RankedMutex<State>,
}

impl<S: ObjectStore> Service<S> {
    /// A target over `store` whose requests run on the thread that submits them.
    pub fn inline(index: TargetIndex, store: S, config: ServiceConfig) -> Self {
        Self::new(index, store, Executor::Inline, config)
    }

    /// A target over `store` whose requests run on up to `threads` threads of its own, which start when there is work.
    /// More than `queue` requests that wait for a thread are refused with `EAGAIN`.
    pub fn pooled(index: TargetIndex, store: S, threads: usize, queue: usize, config: ServiceConfig) -> Self {
        let pool = Pool::new(format!("clio-target-{}", index.0), threads.max(1), queue);
        Self::new(index, store, Executor::Pool(pool), config)
    }

    fn new(index: TargetIndex, store: S, exec: Executor, config: ServiceConfig) -> Self {
        let state = State::new(Dlm::new(config.dlm), GrantTable::new(config.grant));
        Self {
            core: Arc::new(Core {
                index,
                store,
                exec,
                timer: Timer::new(),
                started: Instant::now(),
                closing: AtomicBool::new(false),
                state: RankedMutex::new(LockRank::Target, state),
            }),
        }
    }

    /// The store below.
    pub fn store(&self) -> &S {
        &self.core.store
    }

    /// Grants given and not yet used.
    pub fn grants(&self) -> GrantStats {
        self.core.state.lock().grants.stats()
    }

    /// How many locks there are.
    pub fn lock_counts(&self) -> clio_dlm::Counts {
        self.core.state.lock().dlm.counts()
    }
}

impl<S: ObjectStore> Target for Service<S> {
    fn index(&self) -> TargetIndex {
        self.core.index
    }

    fn connect(&self, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        let core = &self.core;
        core.check_open("connect")?;
        let since = core.state.lock().grants.moment();
        let free = grant::Free { bytes: core.store.space()?.free, since };
        let now = core.now_ms();
        Ok(core.state.lock().connect(callbacks, free, now))
    }

    fn resume(&self, callbacks: Arc<dyn TargetClient>, grant: u64) -> Result<ClientId> {
        let core = &self.core;
        core.check_open("connect")?;
        let now = core.now_ms();
        Ok(core.state.lock().resume(callbacks, grant, now))
    }

    fn submit(&self, client: ClientId, op: Op, done: Completion) {
        if let Err(e) = self.core.check_open("submit") {
            return done(Err(e));
        }
        self.core.submit(client, op, done);
        self.core.deliver();
    }
}

impl<S: ObjectStore> Drop for Service<S> {
    fn drop(&mut self) {
        self.core.closing.store(true, Ordering::Relaxed);
        self.core.exec.close();
        self.core.state.lock().abort_waits();
        self.core.deliver();
    }
}

impl<S: ObjectStore> Core<S> {
    fn check_open(&self, op: &'static str) -> Result<()> {
        if self.closing.load(Ordering::Relaxed) {
            return Err(Error::new(Errno::ESHUTDOWN, op, "the target is being closed"));
        }
        Ok(())
    }

    /// The service's clock, in milliseconds since it was made.
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn submit(self: &Arc<Self>, client: ClientId, op: Op, done: Completion) {
        match op {
            Op::Read { fid, bulk, checksum } => self.read(client, data::Read { fid, bulk, checksum }, done),
            Op::Write { fid, bulk, checksum, lock, grant, mtime, sync } => {
                self.write(client, data::Write { fid, bulk, checksum, lock, grant, mtime, sync }, done);
            }
            Op::Punch { fid, extent, lock, mtime } => {
                self.punch(client, data::Punch { fid, extent, lock, mtime }, done);
            }
            Op::SetAttr { fid, attr, mask } => {
                self.simple(client, done, move |core| core.setattr(fid, attr, mask));
            }
            Op::Create(fid) => self.simple(client, done, move |core| core.store.create(fid).map(|()| Reply::Done)),
            Op::Destroy(fid) => self.simple(client, done, move |core| core.destroy(fid)),
            Op::GetAttr(fid) => match self.store.try_getattr(fid) {
                Some(attr) => {
                    let known = self.state.lock().check(client);
                    done(known.and(attr).map(Reply::Attr));
                }
                None => self.simple(client, done, move |core| core.store.getattr(fid).map(Reply::Attr)),
            },
            Op::Sync(fid) => self.simple(client, done, move |core| core.store.sync(fid).map(|()| Reply::Done)),
            Op::Seek { fid, offset, hole } => {
                self.simple(client, done, move |core| core.store.seek(fid, offset, hole).map(Reply::Offset));
            }
            Op::StatFs => self.simple(client, done, |core| {
                let space = core.store.space()?;
                Ok(Reply::StatFs { total: space.total, free: space.free, objects: core.store.count()? })
            }),
            Op::Enqueue { fid, extent, mode, flags } => {
                // The lock manager knows the service itself as a client too, which nobody else may speak for.
                let known = self.state.lock().check(client);
                if let Err(e) = known {
                    return done(Err(e.on(fid)));
                }
                let waiter = state::Waiter::Client(fid, done);
                self.enqueue(fid, state::LockRequest { client, extent, mode, flags, waiter });
            }
            Op::Cancel(handle) => {
                let now = self.now_ms();
                let mut state = self.state.lock();
                let known = state.check(client);
                if known.is_ok() {
                    state.cancel(client, handle, now);
                }
                state.outbox.push(outbox::Delivery::Complete(done, known.map(|()| Reply::Done)));
            }
            Op::ReturnGrant { bytes } => {
                let result = {
                    let mut state = self.state.lock();
                    state.check(client).map(|()| state.grants.give_back(client, bytes))
                };
                done(result.map(|()| Reply::Done));
            }
            Op::Disconnect => {
                let now = self.now_ms();
                self.state.lock().disconnect(client, done, now);
            }
        }
    }
}
