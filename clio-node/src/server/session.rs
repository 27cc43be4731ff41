//! One client.

use super::Shared;
use super::bulk;
use super::callbacks::{Callbacks, Glimpses};
use super::clients::Leaving;
use super::drain::Drained;
use super::greeting::Greeted;
use super::locks::{Locks, WriteLock};
use super::names::{self, OpenFiles};
use super::outbox::Outbox;
use crate::socket::{Buffer, Socket};
use crate::wire::{self, Answer, FromClient, NamesOp, Request, WireOp, op_from_wire};
use clio_arena::Mapping;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{Op, Reply, Target};
use clio_core::units::ClientId;
use clio_core::{Errno, Error, Result};
use clio_namespace::Caller;
use rustix::net::UCred;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Requests of one client that are worked on at once; it isn't listened to while there are more.
pub(super) const MAX_OPEN: usize = 256;
/// Locks that one client may wait for at once.
const MAX_ENQUEUES: usize = 16_384;
/// Registrations with targets of one client.
const MAX_LINKS: usize = 4096;
/// Packets taken from one client before the others have their turn.
const PACKETS_A_TURN: usize = 32;

pub(super) struct Session {
    pub(super) id: u64,
    pub(super) socket: Arc<Socket>,
    pub(super) outbox: Arc<Outbox>,
    peer: UCred,
    /// Whose rights count for names: those that the system tells of the other end.
    caller: Arc<Caller>,
    shared: Arc<Shared>,
    /// There once the client has been greeted.
    greeted: OnceLock<Greeted>,
    /// Registrations: target and id there.
    links: RankedMutex<HashSet<(u16, u64)>>,
    glimpses: Arc<Glimpses>,
    files: Arc<OpenFiles>,
    enqueues: Arc<AtomicUsize>,
    pub(super) locks: Arc<Locks>,
    /// The client has said that it doesn't come back.
    is_bye: AtomicBool,
    /// It may take up what it held with an earlier daemon: it was awaited, and has not said that it is done.
    is_taking_up: AtomicBool,
}

/// How a session's turn ends.
#[derive(PartialEq, Eq)]
pub(super) enum Turn {
    Over,
    /// It is not to be listened to until clients of an earlier daemon have come.
    HeldUp,
}

/// Why a session ends.
pub(super) enum SessionEnd {
    /// The client is gone, or did what it must not.
    Failed(Error),
    /// The daemon ends.
    Stopping,
}

impl Session {
    pub(super) fn new(id: u64, socket: Socket, peer: UCred, groups: Vec<u32>, shared: Arc<Shared>) -> Arc<Session> {
        let caller = Arc::new(Caller::new(peer.uid.as_raw(), peer.gid.as_raw(), groups));
        let socket = Arc::new(socket);
        let outbox = Arc::new(Outbox::new(id, socket.clone(), shared.clone()));
        tracing::debug!(target: "clio::node", session = id, pid = peer.pid.as_raw_nonzero().get(), "a client comes");
        Arc::new(Session {
            id,
            socket,
            outbox,
            peer,
            caller,
            shared,
            greeted: OnceLock::new(),
            links: RankedMutex::new(LockRank::Leaf, HashSet::new()),
            glimpses: Arc::default(),
            files: Arc::default(),
            enqueues: Arc::default(),
            locks: Arc::default(),
            is_bye: AtomicBool::new(false),
            is_taking_up: AtomicBool::new(false),
        })
    }

    /// Whose session it is, once the client has been greeted.
    pub(super) fn token(&self) -> Option<u64> {
        self.greeted.get().map(|greeted| greeted.token)
    }

    /// Takes packets, as far as it is this client's turn. Doesn't block.
    ///
    /// # Errors
    /// What ends the session.
    pub(super) fn receive(&self, buffer: &mut Buffer) -> Result<Turn> {
        for _ in 0..PACKETS_A_TURN {
            let Some((packet, fd)) = self.socket.receive(buffer, false)? else { return Ok(Turn::Over) };
            let Some(greeted) = self.greeted.get() else {
                let greeted = super::greeting::greet(&self.shared, &self.socket, &self.peer, packet, fd)?;
                let waits = greeted.waits;
                self.is_taking_up.store(greeted.is_awaited, Ordering::Relaxed);
                let _ = self.greeted.set(greeted);
                if waits {
                    return Ok(Turn::HeldUp);
                }
                continue;
            };
            match wire::decode(packet)? {
                FromClient::Request { id, request } => {
                    if !self.begin(id, request, greeted)? {
                        return Ok(Turn::Over);
                    }
                }
                FromClient::Glimpsed { token, lvb } => self.glimpses.answer(token, lvb),
                FromClient::Bye => self.is_bye.store(true, Ordering::Relaxed),
            }
        }
        Ok(Turn::Over)
    }

    /// Begins what a client asks for. False if no more of it is to be taken for now.
    fn begin(&self, id: u64, request: Request, greeted: &Greeted) -> Result<bool> {
        match request {
            Request::Connect(target) => {
                let result = self.connect(target, None);
                self.outbox.reply(id, result);
                Ok(true)
            }
            Request::Resume { target, grant } => {
                let may = grant == 0 || self.is_taking_up.load(Ordering::Relaxed);
                let not = || Error::new(Errno::EPERM, "connect", "the daemon doesn't know this client to hold grant");
                let result = may.then_some(grant).ok_or_else(not).and_then(|held| self.connect(target, Some(held)));
                self.outbox.reply(id, result);
                Ok(true)
            }
            Request::Recovered if !self.is_taking_up.swap(false, Ordering::Relaxed) => {
                let why = "this client has nothing to take up, or has said that it is done";
                self.outbox.reply(id, Err(Error::new(Errno::EINVAL, "recover", why)));
                Ok(true)
            }
            Request::Recovered => {
                let now = self.shared.clients_known.lock().recovery.recovered(greeted.token, &self.outbox, id);
                if now {
                    self.outbox.reply(id, Ok(Answer::Recovered));
                }
                Ok(true)
            }
            Request::Target { target, client, op } => self.begin_op(id, target, client, op, &greeted.arena),
            Request::Status => {
                self.outbox.reply(id, Ok(Answer::Status(self.shared.status())));
                Ok(true)
            }
            Request::Shutdown => {
                tracing::info!(target: "clio::node", pid = self.peer.pid.as_raw_nonzero().get(), "told to end");
                self.outbox.reply(id, Ok(Answer::Stopping));
                self.shared.stop();
                Ok(true)
            }
            Request::Sync => {
                let listen = self.outbox.begin()?;
                super::syncs::begin(&self.shared, id, self.outbox.clone());
                Ok(listen)
            }
            Request::Figures => {
                let listen = self.outbox.begin()?;
                super::figures::begin(&self.shared, id, self.outbox.clone());
                Ok(listen)
            }
            Request::Names(op) => {
                let listen = self.outbox.begin()?;
                self.begin_names(id, op, None);
                Ok(listen)
            }
            Request::Once { xid, op } => {
                let listen = self.outbox.begin()?;
                self.begin_names(id, op, Some((ClientId(greeted.token), xid)));
                Ok(listen)
            }
        }
    }

    fn target(&self, index: u16) -> Result<&Arc<dyn Target>> {
        let target = self.shared.served.targets().get(usize::from(index));
        target.ok_or_else(|| Error::new(Errno::ENODEV, "request", format!("the store has no target {index}")))
    }

    fn connect(&self, index: u16, held: Option<u64>) -> Result<Answer> {
        let target = self.target(index)?;
        if self.links.lock().len() >= MAX_LINKS {
            return Err(Error::new(Errno::EUSERS, "connect", "too many registrations of one client"));
        }
        let (outbox, glimpses, salt) = (self.outbox.clone(), self.glimpses.clone(), self.shared.salt);
        let locks = self.locks.clone();
        let callbacks = Arc::new(Callbacks { outbox, glimpses, salt, locks, client: OnceLock::new() });
        let (client, grant) = match held {
            None => target.connect(callbacks.clone())?,
            Some(grant) => (target.resume(callbacks.clone(), grant)?, 0),
        };
        let _ = callbacks.client.set(client.0);
        self.links.lock().insert((index, client.0));
        Ok(Answer::Connected { client: client.0, grant })
    }

    fn begin_op(&self, id: u64, index: u16, client: u64, op: WireOp, arena: &Arc<Mapping>) -> Result<bool> {
        let op = self.check_op(index, client, op, arena);
        let (target, op) = match op {
            Ok(both) => both,
            Err(e) => {
                self.outbox.reply(id, Err(e));
                return Ok(true);
            }
        };
        if matches!(op, Op::Enqueue { .. }) && self.shared.is_draining.load(Ordering::Acquire) {
            // The client asks the next daemon for it.
            return Ok(true);
        }
        self.shared.counters.count(index, &op);
        // One that waits for others' locks must not keep the client from giving back its own.
        let open = match op {
            Op::Enqueue { .. } => Open::Enqueue(self.enqueues.clone()),
            Op::Cancel(_) | Op::ReturnGrant { .. } | Op::Disconnect => Open::Light,
            _ => Open::Counted(self.outbox.clone()),
        };
        let listen = open.begin()?;
        let (outbox, arena, salt) = (self.outbox.clone(), arena.clone(), self.shared.salt);
        let locks = self.locks.clone();
        let (cancelled, asked_for) = match &op {
            Op::Cancel(handle) => (Some(*handle), None),
            Op::Enqueue { fid, .. } => (None, Some(*fid)),
            _ => (None, None),
        };
        let done = move |result: Result<Reply>| {
            match (&result, cancelled, asked_for) {
                (Ok(Reply::Granted { handle: Some(handle), mode, extent, .. }), _, Some(fid)) => {
                    locks.add((index, client), *handle, fid, *mode, *extent);
                }
                (Ok(_), Some(handle), _) => locks.remove(index, client, handle),
                _ => {}
            }
            outbox.reply(id, result.map(|reply| Answer::Target(salt.reply(reply.into()))));
            open.end();
            // What the request's bulk data lies in.
            drop(arena);
        };
        target.submit(ClientId(client), op, Box::new(done));
        Ok(listen)
    }

    fn check_op(&self, index: u16, client: u64, op: WireOp, arena: &Mapping) -> Result<(&Arc<dyn Target>, Op)> {
        let target = self.target(index)?;
        let leaves = matches!(op, WireOp::Disconnect);
        let known = {
            let mut links = self.links.lock();
            if leaves { links.remove(&(index, client)) } else { links.contains(&(index, client)) }
        };
        if !known {
            return Err(Error::new(Errno::ESTALE, "request", "no registration of this client has that id"));
        }
        if matches!(op, WireOp::Enqueue { .. }) && self.enqueues.load(Ordering::Relaxed) >= MAX_ENQUEUES {
            return Err(Error::new(Errno::EAGAIN, "enqueue", "too many locks are waited for at once"));
        }
        Ok((target, op_from_wire(self.shared.salt.op(op), |segments| bulk::find(arena, &segments))?))
    }

    fn begin_names(&self, id: u64, op: NamesOp, once: Option<(ClientId, u64)>) {
        self.shared.counters.count_names();
        let (outbox, files, served) = (self.outbox.clone(), self.files.clone(), self.shared.served.clone());
        let caller = self.caller.clone();
        let job = move || {
            outbox.reply(id, names::run(served.as_ref(), &files, &caller, op, once).map(Answer::Names));
            outbox.end();
        };
        self.shared.work_for(self.id, job);
    }

    /// Releases all that the client holds.
    pub(super) fn end(&self, why: &SessionEnd) {
        match why {
            SessionEnd::Failed(e) if e.errno() != Errno::ESHUTDOWN => {
                tracing::warn!(target: "clio::node", session = self.id, error = %e, "a session is ended");
            }
            _ => tracing::debug!(target: "clio::node", session = self.id, "a client goes"),
        }
        let had_locks = self.locks.are_held();
        self.outbox.close();
        let leaving = match why {
            _ if self.is_bye.load(Ordering::Relaxed) => Leaving::ForGood,
            SessionEnd::Stopping if had_locks => Leaving::WithLocks,
            SessionEnd::Stopping => Leaving::Idle,
            _ => Leaving::Cut,
        };
        // Where the daemon ends, what is open stays so, for the next one.
        let stays_open = matches!(why, SessionEnd::Stopping) && !matches!(leaving, Leaving::ForGood);
        let estate = Estate {
            session: self.id,
            shared: self.shared.clone(),
            links: std::mem::take(&mut *self.links.lock()),
            glimpses: self.glimpses.clone(),
            files: (!stays_open).then(|| self.files.clone()),
        };
        let locks = self.locks.for_writing();
        match self.greeted.get() {
            Some(greeted) if matches!(leaving, Leaving::Cut) && !locks.is_empty() => {
                let arena = greeted.arena.clone();
                self.shared.drain_for(self.id, move || estate.drain_and_release(&arena, &locks));
            }
            _ => estate.release(),
        }
        if let Some(greeted) = self.greeted.get() {
            self.shared.gone(greeted.token, leaving);
        }
    }
}

/// What a client leaves.
struct Estate {
    session: u64,
    shared: Arc<Shared>,
    links: HashSet<(u16, u64)>,
    /// Whoever asks for a size that it may have raised is answered once what it had written is at the targets.
    glimpses: Arc<Glimpses>,
    /// What it had open, if that is to be closed.
    files: Option<Arc<OpenFiles>>,
}

impl Estate {
    /// Writes out what is left in the client's arena, under the locks that it has; then releases them. Blocks.
    fn drain_and_release(self, arena: &Arc<Mapping>, locks: &[WriteLock]) {
        let drained = super::drain::drain(self.shared.served.targets(), arena, locks);
        let (session, Drained { bytes, uncovered, error }) = (self.session, drained);
        match error {
            Some(e) => tracing::error!(target: "clio::node", session, bytes, error = %e,
                "not all that a client had written before it died could be written out"),
            None if bytes > 0 => {
                tracing::info!(target: "clio::node", session, bytes, "written out for a client that died");
            }
            None => {}
        }
        if uncovered > 0 {
            tracing::warn!(target: "clio::node", session, uncovered, "bytes that no lock of their client covered");
        }
        self.release();
    }

    /// Releases all.
    fn release(self) {
        self.glimpses.close();
        for (index, client) in self.links {
            if let Some(target) = self.shared.served.targets().get(usize::from(index)) {
                target.submit(ClientId(client), Op::Disconnect, Box::new(|_| {}));
            }
        }
        if let Some(files) = self.files {
            let served = self.shared.served.clone();
            self.shared.work_for(self.session, move || files.close_all(served.as_ref()));
        }
    }
}

/// How a request counts while it is worked on.
enum Open {
    Counted(Arc<Outbox>),
    Enqueue(Arc<AtomicUsize>),
    Light,
}

impl Open {
    /// Counts it. False if no more requests are to be taken for now.
    fn begin(&self) -> Result<bool> {
        match self {
            Open::Counted(outbox) => return outbox.begin(),
            Open::Enqueue(count) => drop(count.fetch_add(1, Ordering::Relaxed)),
            Open::Light => {}
        }
        Ok(true)
    }

    fn end(self) {
        match self {
            Open::Counted(outbox) => outbox.end(),
            Open::Enqueue(count) => drop(count.fetch_sub(1, Ordering::Relaxed)),
            Open::Light => {}
        }
    }
}
