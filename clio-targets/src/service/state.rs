//! What the service knows, behind one mutex that is never held across a store's call or a callback.

use super::grant::{Free, GrantTable};
use super::outbox::{Delivery, GlimpseId, Outbox, OwnLock};
use clio_core::target::{Completion, DlmHandle, EnqueueFlags, LockMode, Reply, TargetClient};
use clio_core::units::{ClientId, Extent, Fid};
use clio_core::{Errno, Error, Result};
use clio_dlm::{Dlm, Effect, Event};
use std::collections::HashMap;
use std::sync::Arc;

/// The service itself, as a client of its lock manager: it locks for operations that come without a lock.
pub(super) const SERVER: ClientId = ClientId(0);

/// A connected client.
pub(super) struct Client {
    callbacks: Arc<dyn TargetClient>,
    /// Operations of this client that the store is at work on.
    running: usize,
    /// Set once it has asked to go: completed when nothing runs any more.
    leaving: Option<Completion>,
}

/// Who waits for a lock.
pub(super) enum Waiter {
    Client(Fid, Completion),
    Own(OwnLock),
}

/// A request for a lock, as long as the lock manager hasn't seen it.
pub(super) struct LockRequest {
    pub(super) client: ClientId,
    pub(super) extent: Extent,
    pub(super) mode: LockMode,
    pub(super) flags: EnqueueFlags,
    pub(super) waiter: Waiter,
}

/// Requests for locks on an object whose attributes are being read.
#[derive(Default)]
pub(super) struct Loading {
    pub(super) requests: Vec<LockRequest>,
    /// The object has changed meanwhile: read again.
    pub(super) stale: bool,
}

/// I/O that runs under a lock. The lock outlives it: a cancel that comes meanwhile is carried out at its end.
struct UnderLock {
    client: ClientId,
    running: usize,
    cancel: bool,
    /// The lock was lost while this ran: nobody is told of any grant before it has ended.
    evicted: bool,
}

impl UnderLock {
    fn new(client: ClientId) -> Self {
        Self { client, running: 0, cancel: false, evicted: false }
    }
}

pub(super) struct State {
    pub(super) dlm: Dlm,
    pub(super) grants: GrantTable,
    pub(super) outbox: Outbox,
    pub(super) loading: HashMap<Fid, Loading>,
    /// When a tick is scheduled, in milliseconds of the service's clock.
    pub(super) tick_at: Option<u64>,
    clients: HashMap<ClientId, Client>,
    waiters: HashMap<u64, Waiter>,
    under_lock: HashMap<DlmHandle, UnderLock>,
    next_client: u64,
    next_request: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} clients, {:?}, {:?}", self.clients.len(), self.dlm.counts(), self.outbox)
    }
}

fn unknown_client(client: ClientId) -> Error {
    Error::new(Errno::ESTALE, "submit", format!("client {} is not connected to this target", client.0))
}

impl State {
    pub(super) fn new(mut dlm: Dlm, grants: GrantTable) -> Self {
        dlm.step(0, Event::Connect { client: SERVER }, &mut Vec::new());
        Self {
            dlm,
            grants,
            outbox: Outbox::default(),
            loading: HashMap::new(),
            tick_at: None,
            clients: HashMap::new(),
            waiters: HashMap::new(),
            under_lock: HashMap::new(),
            next_client: SERVER.0 + 1,
            next_request: 0,
        }
    }

    pub(super) fn connect(&mut self, callbacks: Arc<dyn TargetClient>, free: Free, now: u64) -> (ClientId, u64) {
        let client = self.register(callbacks, now);
        (client, self.grants.connect(client, free))
    }

    pub(super) fn resume(&mut self, callbacks: Arc<dyn TargetClient>, grant: u64, now: u64) -> ClientId {
        let client = self.register(callbacks, now);
        self.grants.resume(client, grant);
        client
    }

    fn register(&mut self, callbacks: Arc<dyn TargetClient>, now: u64) -> ClientId {
        let client = ClientId(self.next_client);
        self.next_client += 1;
        self.clients.insert(client, Client { callbacks, running: 0, leaving: None });
        self.step(now, Event::Connect { client });
        client
    }

    /// `ESTALE` unless `client` is connected and stays.
    pub(super) fn check(&self, client: ClientId) -> Result<()> {
        match self.clients.get(&client) {
            Some(Client { leaving: None, .. }) => Ok(()),
            _ => Err(unknown_client(client)),
        }
    }

    /// Notes that the store is at work for `client`, under the lock `handle` if it is one. Ended by [`State::end_io`].
    pub(super) fn begin_io(&mut self, client: ClientId, lock: Option<(ClientId, DlmHandle)>) -> Result<()> {
        self.check(client)?;
        if let Some((holder, handle)) = lock {
            let io = self.under_lock.entry(handle).or_insert_with(|| UnderLock::new(holder));
            if io.cancel || io.evicted {
                return Err(Error::new(Errno::ESTALE, "write", "the lock of this write has been cancelled"));
            }
            io.running += 1;
        }
        if let Some(c) = self.clients.get_mut(&client) {
            c.running += 1;
        }
        Ok(())
    }

    pub(super) fn end_io(&mut self, client: ClientId, lock: Option<DlmHandle>, now: u64) {
        if let Some(handle) = lock {
            self.end_under_lock(handle, now);
        }
        if let Some(c) = self.clients.get_mut(&client) {
            c.running -= 1;
            self.leave_if_idle(client, now);
        }
    }

    fn end_under_lock(&mut self, handle: DlmHandle, now: u64) {
        let Some(io) = self.under_lock.get_mut(&handle) else { return };
        io.running -= 1;
        if io.running > 0 {
            return;
        }
        let (client, cancel, evicted) = (io.client, io.cancel, io.evicted);
        self.under_lock.remove(&handle);
        if evicted {
            return self.outbox.release();
        }
        let event = if cancel { Event::Cancel { client, handle } } else { Event::Prolong { client, handle } };
        self.step(now, event);
    }

    /// Gives a lock back, once the writes under it that have come before are in the store.
    pub(super) fn cancel(&mut self, client: ClientId, handle: DlmHandle, now: u64) {
        match self.under_lock.get_mut(&handle) {
            Some(io) if io.client == client => io.cancel = true,
            _ => self.step(now, Event::Cancel { client, handle }),
        }
    }

    /// Takes a client out, once what the store does for it is done.
    pub(super) fn disconnect(&mut self, client: ClientId, done: Completion, now: u64) {
        match self.clients.get_mut(&client) {
            Some(c) if c.leaving.is_none() => {
                c.leaving = Some(done);
                self.leave_if_idle(client, now);
            }
            _ => self.outbox.push(Delivery::Complete(done, Err(unknown_client(client)))),
        }
    }

    fn leave_if_idle(&mut self, client: ClientId, now: u64) {
        let idle = self.clients.get(&client).is_some_and(|c| c.running == 0 && c.leaving.is_some());
        if !idle {
            return;
        }
        self.step(now, Event::Disconnect { client });
        self.grants.forget(client);
        if let Some(done) = self.clients.remove(&client).and_then(|c| c.leaving) {
            self.outbox.push(Delivery::Complete(done, Ok(Reply::Done)));
        }
    }

    /// Hands a request to the lock manager.
    pub(super) fn enqueue(&mut self, fid: Fid, request: LockRequest, lvb: Option<clio_core::attr::Lvb>, now: u64) {
        let LockRequest { client, extent, mode, flags, waiter } = request;
        let id = self.next_request;
        self.next_request += 1;
        self.waiters.insert(id, waiter);
        self.step(now, Event::Enqueue { client, request: id, fid, extent, mode, flags, initial_lvb: lvb });
    }

    /// The part of `bulk` that `client` holds no lock over, as one extent; empty if it holds all.
    pub(super) fn uncovered(&self, client: ClientId, fid: Fid, bulk: &[clio_core::target::BulkSegment]) -> Extent {
        let gaps = bulk.iter().map(|s| self.gap(client, fid, s.extent())).filter(|e| !e.is_empty());
        gaps.fold(Extent::new(0, 0), Extent::hull)
    }

    /// What the locks of `client` leave out of `e`: several of them may cover it together. To ask for a lock over what
    /// they cover could be to wait for one that is in use by the very request.
    fn gap(&self, client: ClientId, fid: Fid, mut e: Extent) -> Extent {
        let mine = |l: &clio_dlm::LockInfo| l.client == client && l.handle.is_some();
        let held = || self.dlm.locks(fid).filter(mine).map(|l| l.extent);
        while let Some(end) = held().filter(|h| h.contains(e.start)).map(|h| h.end).max() {
            if end >= e.end {
                return Extent::new(0, 0);
            }
            e.start = end;
        }
        while let Some(start) = held().filter(|h| h.start < e.end && e.end <= h.end).map(|h| h.start).min() {
            e.end = start;
        }
        e
    }

    /// `ESTALE` if `client` does not hold the lock, `EINVAL` if the lock does not allow to write `extent`.
    pub(super) fn check_write(&self, client: ClientId, handle: DlmHandle, fid: Fid, extent: Extent) -> Result<()> {
        if extent.is_empty() || self.dlm.covers(client, handle, fid, extent) {
            return Ok(());
        }
        let held = self.dlm.locks(fid).any(|l| l.handle == Some(handle) && l.client == client);
        Err(if held {
            Error::new(Errno::EINVAL, "write", format!("the lock does not cover a write of {extent:?}"))
        } else {
            Error::new(Errno::ESTALE, "write", "the lock is gone: cancelled, or lost by eviction")
        })
    }

    /// Keeps clients from being evicted for locks under which the store is at work.
    pub(super) fn prolong_running(&mut self, now: u64) {
        let running: Vec<_> = self.under_lock.iter().map(|(h, io)| (io.client, *h)).collect();
        for (client, handle) in running {
            self.step(now, Event::Prolong { client, handle });
        }
    }

    /// Ends every wait, for a target that goes away.
    pub(super) fn abort_waits(&mut self) {
        let loading = self.loading.drain().flat_map(|(_, l)| l.requests).map(|r| r.waiter);
        let waiters: Vec<_> = loading.chain(self.waiters.drain().map(|(_, w)| w)).collect();
        for waiter in waiters {
            self.fail(waiter, Error::new(Errno::ESHUTDOWN, "enqueue", "the target is being closed"));
        }
    }

    pub(super) fn fail(&mut self, waiter: Waiter, e: Error) {
        self.outbox.push(match waiter {
            Waiter::Client(_, done) => Delivery::Complete(done, Err(e)),
            Waiter::Own(go_on) => Delivery::Own(go_on, Err(e)),
        });
    }

    /// What is to be told next.
    pub(super) fn next_delivery(&mut self) -> Option<Delivery> {
        let mut next = self.outbox.pop();
        if let Some(Delivery::Granted(fid, _, Reply::Granted { lvb, .. })) = &mut next {
            *lvb = self.dlm.lvb(*fid).unwrap_or(*lvb);
        }
        next
    }

    /// One step of the lock manager; what follows from it goes into the outbox.
    pub(super) fn step(&mut self, now: u64, event: Event) {
        let mut effects = Vec::new();
        self.dlm.step(now, event, &mut effects);
        for effect in effects {
            self.apply(effect);
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Granted { client, request, handle, mode, extent, lvb, blocking } => {
                let Some(waiter) = self.waiters.remove(&request) else { return };
                let grant = 0;
                let reply = Reply::Granted { handle: Some(handle), mode, extent, lvb, grant, blocking };
                tracing::trace!(target: "clio::dlm", client = client.0, ?handle, ?mode, ?extent, "granted");
                self.outbox.push(match waiter {
                    Waiter::Client(fid, done) => Delivery::Granted(fid, done, reply),
                    Waiter::Own(go_on) => Delivery::Own(go_on, Ok(handle)),
                });
            }
            Effect::GlimpseAnswer { request, lvb, .. } => {
                if let Some(Waiter::Client(_, done)) = self.waiters.remove(&request) {
                    let extent = Extent::new(0, 0);
                    let (mode, blocking) = (LockMode::Pr, false);
                    let reply = Reply::Granted { handle: None, mode, extent, lvb, grant: 0, blocking };
                    self.outbox.push(Delivery::Complete(done, Ok(reply)));
                }
            }
            Effect::Refused { request, errno, .. } => {
                if let Some(waiter) = self.waiters.remove(&request) {
                    self.fail(waiter, Error::new(errno, "enqueue", refusal(errno)));
                }
            }
            Effect::BlockingAst { client, handle } => {
                if let Some(callbacks) = self.callbacks(client) {
                    self.outbox.push(Delivery::Blocking(callbacks, handle));
                }
            }
            Effect::GlimpseAst { client, handle, glimpse } => {
                if let Some(callbacks) = self.callbacks(client) {
                    self.outbox.push(Delivery::Glimpse(callbacks, GlimpseId { client, handle, glimpse }));
                }
            }
            // The service converts no locks.
            Effect::Converted { .. } => {}
            Effect::Evicted { client, handles } => {
                tracing::warn!(target: "clio::dlm", client = client.0, locks = handles.len(), "evicted");
                self.grants.reset(client);
                for handle in handles {
                    if let Some(io) = self.under_lock.get_mut(&handle) {
                        io.evicted = true;
                        self.outbox.hold();
                    }
                }
                if let Some(callbacks) = self.callbacks(client) {
                    self.outbox.push(Delivery::Evicted(callbacks));
                }
            }
        }
    }

    /// `None` for the service itself: its locks are short, and go by themselves.
    fn callbacks(&self, client: ClientId) -> Option<Arc<dyn TargetClient>> {
        self.clients.get(&client).map(|c| c.callbacks.clone())
    }
}

fn refusal(errno: Errno) -> &'static str {
    match errno {
        Errno::EAGAIN => "a conflicting lock is held",
        Errno::EUSERS => "the object is contended: do this I/O without a lock",
        Errno::EINVAL => "the extent is empty",
        Errno::ESHUTDOWN => "the client has disconnected",
        _ => "the client is not connected, or was evicted",
    }
}
