//! The connection of one client.
//!
//! A thread receives what the daemon says, and runs completions and callbacks. Requests are sent by whoever makes them.

use crate::socket::{Buffer, Socket};
use crate::wire::{self, Answer, Event, FromClient, FromDaemon, Hello, MAGIC, MAJOR, MINOR, Request, Status, Welcome};
use clio_arena::Arena;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{DlmHandle, TargetClient};
use clio_core::units::{ClientId, TargetIndex};
use clio_core::{Errno, Error, Result};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

/// Called once with the outcome of a request.
pub(crate) type Done = Box<dyn FnOnce(Result<Answer>) + Send>;

/// A connection to the daemon. Dropping it ends it: the daemon then releases all that the client holds.
pub struct Connection {
    shared: Arc<Shared>,
    arena: Arc<Arena>,
    targets: u16,
}

struct Shared {
    socket: Socket,
    next_id: AtomicU64,
    state: RankedMutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests without an answer yet.
    pending: HashMap<u64, Done>,
    /// Who gets the callbacks of which target.
    links: HashMap<(u16, u64), Arc<dyn TargetClient>>,
    /// Why nothing can be asked any more.
    closed: Option<Error>,
}

impl Connection {
    /// Connects to the daemon at `path`, and wishes for `arena_bytes` of memory that both share. Blocks.
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV` if no daemon listens there; `EACCES`; `EPROTO` if it is another version's; `ENOMEM`.
    pub fn open(path: &Path, arena_bytes: u64) -> Result<Arc<Connection>> {
        let socket = Socket::connect(path).map_err(|e| e.at(path.display().to_string()))?;
        Self::greet(socket, arena_bytes).map_err(|e| e.at(path.display().to_string()))
    }

    pub(crate) fn greet(socket: Socket, arena_bytes: u64) -> Result<Arc<Connection>> {
        let hello = Hello { magic: MAGIC, major: MAJOR, minor: MINOR, arena_bytes };
        socket.send(&wire::encode(&hello)?, None, true)?;
        let mut buffer = Buffer::new();
        let Some((packet, fd)) = socket.receive(&mut buffer, true)? else {
            return Err(Error::new(Errno::EPROTO, "connect", "the daemon said nothing"));
        };
        let targets = match wire::decode(packet)? {
            Welcome::Served { targets, .. } => targets,
            Welcome::Refused(e) => return Err(e.into_error("connect")),
        };
        let fd = fd.ok_or_else(|| Error::new(Errno::EPROTO, "connect", "the daemon's answer names no arena"))?;
        let arena = Arc::new(Arena::attach(fd)?);
        let state = RankedMutex::new(LockRank::Leaf, State::default());
        let shared = Arc::new(Shared { socket, next_id: AtomicU64::new(1), state });
        let receiver = shared.clone();
        let thread = std::thread::Builder::new().name("clio-node".into());
        let spawned = thread.spawn(move || receiver.receive_all(&mut buffer));
        spawned.map_err(|e| Error::from_io("connect", e))?;
        Ok(Arc::new(Connection { shared, arena, targets }))
    }

    /// The memory that the daemon sees too: bulk data that lies here is not copied on its way.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Targets of the store.
    pub fn targets(&self) -> u16 {
        self.targets
    }

    /// How the daemon is. Blocks.
    ///
    /// # Errors
    /// `EIO` if it is gone.
    pub fn status(&self) -> Result<Status> {
        match self.call(Request::Status)? {
            Answer::Status(status) => Ok(status),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Ends the daemon, for all its clients. Blocks until it has said that it will.
    ///
    /// # Errors
    /// `EIO` if it is gone.
    pub fn shut_down(&self) -> Result<()> {
        self.call(Request::Shutdown).map(drop)
    }

    /// Asks the daemon for something; `done` is called exactly once, from any thread, possibly before this returns.
    pub(crate) fn ask(&self, request: Request, done: Done) {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let packet = match wire::encode(&FromClient::Request { id, request }) {
            Ok(packet) => packet,
            Err(e) => return done(Err(e)),
        };
        let mut state = self.shared.state.lock();
        if let Some(e) = &state.closed {
            let e = e.clone();
            drop(state);
            return done(Err(e));
        }
        state.pending.insert(id, done);
        drop(state);
        if let Err(e) = self.shared.socket.send(&packet, None, true) {
            let done = self.shared.state.lock().pending.remove(&id);
            // Otherwise the receiver has met the end of the connection, and told so.
            if let Some(done) = done {
                done(Err(gone(&e)));
            }
        }
    }

    /// Asks and waits for the answer. Blocks; not to be called from a completion or callback.
    ///
    /// # Errors
    /// What the daemon says; `EIO` if it is gone.
    pub(crate) fn call(&self, request: Request) -> Result<Answer> {
        let (tx, rx) = mpsc::sync_channel(1);
        self.ask(
            request,
            Box::new(move |result| {
                let _ = tx.send(result);
            }),
        );
        rx.recv().unwrap_or_else(|_| Err(gone(&Error::new(Errno::EIO, "node", "no answer came"))))
    }

    /// Registers `callbacks` with a target. Blocks.
    pub(crate) fn link(&self, target: TargetIndex, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        let (tx, rx) = mpsc::sync_channel(1);
        let shared = Arc::downgrade(&self.shared);
        let done = move |result: Result<Answer>| {
            let linked = result.and_then(|answer| match answer {
                Answer::Connected { client, grant } => {
                    // Here, where no later message has been looked at yet: it may be a callback.
                    if let Some(shared) = shared.upgrade() {
                        shared.state.lock().links.insert((target.0, client), callbacks);
                    }
                    Ok((ClientId(client), grant))
                }
                answer => Err(unexpected(&answer)),
            });
            let _ = tx.send(linked);
        };
        self.ask(Request::Connect(target.0), Box::new(done));
        rx.recv().unwrap_or_else(|_| Err(gone(&Error::new(Errno::EIO, "node", "no answer came"))))
    }

    /// Forgets whom a target's callbacks are for.
    pub(crate) fn unlink(&self, target: TargetIndex, client: ClientId) {
        let link = self.shared.state.lock().links.remove(&(target.0, client.0));
        // Outside the mutex: the last reference may go.
        drop(link);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.socket.shut_down();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("targets", &self.targets).finish_non_exhaustive()
    }
}

impl Shared {
    fn receive_all(self: Arc<Self>, buffer: &mut Buffer) {
        let end = loop {
            let message = match self.socket.receive(buffer, true) {
                Ok(Some((packet, _))) => wire::decode(packet),
                Ok(None) => continue,
                Err(e) => break e,
            };
            match message {
                Ok(FromDaemon::Reply { id, result }) => {
                    let done = self.state.lock().pending.remove(&id);
                    match done {
                        Some(done) => done(result.map_err(|e| e.into_error("node"))),
                        None => tracing::warn!(target: "clio::node", id, "an answer that nobody waits for"),
                    }
                }
                Ok(FromDaemon::Event { target, client, event }) => self.tell(target, client, event),
                Err(e) => break e,
            }
        };
        self.close(&gone(&end));
    }

    fn tell(self: &Arc<Self>, target: u16, client: u64, event: Event) {
        let link = self.state.lock().links.get(&(target, client)).cloned();
        let Some(link) = link else { return };
        let index = TargetIndex(target);
        match event {
            Event::Blocking(handle) => link.blocking_ast(index, DlmHandle(handle)),
            Event::Glimpse { handle, token } => {
                let answer = GlimpseAnswer { shared: self.clone(), token, told: false };
                let reply = move |lvb: clio_core::attr::Lvb| answer.tell(Some(lvb));
                link.glimpse_ast(index, DlmHandle(handle), Box::new(reply));
            }
            Event::Evicted => link.evicted(index),
        }
    }

    /// Nothing comes any more: whoever waits is told.
    fn close(&self, why: &Error) {
        self.socket.shut_down();
        let (pending, links) = {
            let mut state = self.state.lock();
            state.closed = Some(why.clone());
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.links))
        };
        tracing::debug!(target: "clio::node", pending = pending.len(), why = %why, "the connection has ended");
        // First, so that what fails then isn't asked for again.
        links.into_iter().for_each(|((target, _), link)| link.evicted(TargetIndex(target)));
        pending.into_values().for_each(|done| done(Err(why.clone())));
    }
}

/// The answer to a glimpse: dropped unanswered, it says that nothing better is known.
struct GlimpseAnswer {
    shared: Arc<Shared>,
    token: u64,
    told: bool,
}

impl GlimpseAnswer {
    fn tell(mut self, lvb: Option<clio_core::attr::Lvb>) {
        self.send(lvb);
    }

    fn send(&mut self, lvb: Option<clio_core::attr::Lvb>) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let message = FromClient::Glimpsed { token: self.token, lvb: lvb.map(Into::into) };
        // Where the connection has ended, nobody waits for it.
        let _ = wire::encode(&message).and_then(|packet| self.shared.socket.send(&packet, None, true));
    }
}

impl Drop for GlimpseAnswer {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// What a program sees when the daemon is gone. Its kind, `NotConnected`, says that asking again won't help.
fn gone(why: &Error) -> Error {
    let text = "the connection to the daemon has ended; what was written and not synced may be lost";
    let cause = std::io::Error::new(std::io::ErrorKind::NotConnected, why.clone());
    Error::new(Errno::EIO, "node", text).with_cause(cause)
}

pub(crate) fn unexpected(answer: &Answer) -> Error {
    Error::new(Errno::EPROTO, "node", format!("the daemon's answer is another's: {answer:?}"))
}
