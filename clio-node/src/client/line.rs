//! One socket to one daemon, for as long as both live.
//!
//! A thread receives what the daemon says, and runs completions and callbacks. Requests are sent by whoever makes them.

use super::connection::Connection;
use super::link::Link;
use crate::socket::{Buffer, Socket};
use crate::wire::{self, Answer, Event, FromClient, FromDaemon, Request};
use clio_core::attr::Lvb;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::{Errno, Error, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak, mpsc};

/// Called once with the outcome of a request.
pub(crate) type Done = Box<dyn FnOnce(Result<Answer>) + Send>;

pub(crate) struct Line {
    socket: Socket,
    next_id: AtomicU64,
    /// The daemon has said that it ends.
    stops: AtomicBool,
    state: RankedMutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests without an answer yet.
    pending: HashMap<u64, Done>,
    /// Who gets the callbacks of which target, by the daemon's number.
    links: HashMap<(u16, u64), Arc<Link>>,
    /// Why nothing can be asked any more.
    closed: Option<Error>,
}

impl Line {
    /// Starts to receive. `owner` is told when the line ends.
    ///
    /// # Errors
    /// `EAGAIN` for want of a thread.
    pub(crate) fn start(socket: Socket, mut buffer: Buffer, owner: Weak<Connection>) -> Result<Arc<Line>> {
        let state = RankedMutex::new(LockRank::Leaf, State::default());
        let line = Arc::new(Line { socket, next_id: AtomicU64::new(1), stops: AtomicBool::new(false), state });
        let receiver = line.clone();
        let thread = std::thread::Builder::new().name("clio-node".into());
        let spawned = thread.spawn(move || {
            let end = receiver.receive_all(&mut buffer, &owner);
            receiver.close(&gone(&end), &owner);
        });
        spawned.map_err(|e| Error::from_io("connect", e))?;
        Ok(line)
    }

    /// Asks the daemon for something; `done` is called exactly once, from any thread, possibly before this returns.
    pub(crate) fn ask(&self, request: Request, done: Done) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let packet = match wire::encode(&FromClient::Request { id, request }) {
            Ok(packet) => packet,
            Err(e) => return done(Err(e)),
        };
        let mut state = self.state.lock();
        if let Some(e) = &state.closed {
            let e = e.clone();
            drop(state);
            return done(Err(e));
        }
        state.pending.insert(id, done);
        drop(state);
        match self.socket.send(&packet, None, true) {
            Ok(_) => {}
            // The receiver meets the end of the line too, and tells this request with all others.
            Err(e) if e.errno() == Errno::ESHUTDOWN => self.socket.shut_down(),
            Err(e) => {
                let done = self.state.lock().pending.remove(&id);
                if let Some(done) = done {
                    done(Err(e));
                }
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
        rx.recv().unwrap_or_else(|_| Err(no_answer()))
    }

    /// Registers `link`, as `request` says. Returns the first grant. Blocks.
    ///
    /// # Errors
    /// As [`Line::call`].
    pub(crate) fn link(self: &Arc<Self>, request: Request, link: &Arc<Link>) -> Result<u64> {
        let (tx, rx) = mpsc::sync_channel(1);
        let (line, link, resumed) = (Arc::downgrade(self), link.clone(), matches!(request, Request::Resume { .. }));
        let done = move |result: Result<Answer>| {
            let linked = result.and_then(|answer| match answer {
                Answer::Connected { client, grant } => {
                    let held = if resumed { link.grant() } else { grant };
                    link.is_with(client, held);
                    // Here, where no later message has been looked at yet: it may be a callback.
                    if let Some(line) = line.upgrade() {
                        line.state.lock().links.insert((link.target.0, client), link);
                    }
                    Ok(grant)
                }
                answer => Err(unexpected(&answer)),
            });
            let _ = tx.send(linked);
        };
        self.ask(request, Box::new(done));
        rx.recv().unwrap_or_else(|_| Err(no_answer()))
    }

    /// Forgets whom a registration's callbacks are for.
    pub(crate) fn unlink(&self, link: &Link) {
        let key = (link.target.0, link.remote());
        let link = self.state.lock().links.remove(&key);
        // Outside the mutex: the last reference may go.
        drop(link);
    }

    /// Whether the daemon has said that it ends.
    pub(crate) fn ends_in_order(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// Whether nothing can be asked any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().closed.is_some()
    }

    /// Tells the daemon that this client doesn't come back. Where there is no room for that, it looks for itself.
    pub(crate) fn say_bye(&self) {
        let _ = wire::encode(&FromClient::Bye).and_then(|packet| self.socket.send(&packet, None, false));
    }

    /// Ends the line. Whoever waits for an answer is told.
    pub(crate) fn hang_up(&self) {
        self.socket.shut_down();
    }

    fn receive_all(self: &Arc<Self>, buffer: &mut Buffer, owner: &Weak<Connection>) -> Error {
        loop {
            let message = match self.socket.receive(buffer, true) {
                Ok(Some((packet, _))) => wire::decode(packet),
                Ok(None) => continue,
                Err(e) => return e,
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
                Ok(FromDaemon::Stopping) => {
                    self.stops.store(true, Ordering::Release);
                    if let Some(owner) = owner.upgrade() {
                        owner.daemon_stops();
                    }
                }
                Err(e) => return e,
            }
        }
    }

    fn tell(self: &Arc<Self>, target: u16, client: u64, event: Event) {
        let link = self.state.lock().links.get(&(target, client)).cloned();
        let Some(link) = link else { return };
        match event {
            Event::Blocking(handle) => link.blocking(handle),
            Event::Glimpse { handle, token } => {
                let mut answer = GlimpseAnswer { line: self.clone(), token, told: false };
                let reply = move |lvb: Lvb| answer.send(Some(lvb));
                link.glimpse(handle, Box::new(reply));
            }
            Event::Evicted => link.lose(),
        }
    }

    /// Nothing comes any more: whoever waits is told.
    fn close(self: &Arc<Self>, why: &Error, owner: &Weak<Connection>) {
        self.socket.shut_down();
        let (pending, links) = {
            let mut state = self.state.lock();
            state.closed = Some(why.clone());
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.links))
        };
        tracing::debug!(target: "clio::node", pending = pending.len(), why = %why, "the line has ended");
        match owner.upgrade() {
            Some(owner) => owner.lost(self),
            None => links.values().for_each(|link| link.lose()),
        }
        // After that: they are asked of the next daemon, where that is known to hold what this one did.
        pending.into_values().for_each(|done| done(Err(why.clone())));
    }
}

/// The answer to a glimpse: dropped unanswered, it says that nothing better is known.
struct GlimpseAnswer {
    line: Arc<Line>,
    token: u64,
    told: bool,
}

impl GlimpseAnswer {
    fn send(&mut self, lvb: Option<Lvb>) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let message = FromClient::Glimpsed { token: self.token, lvb: lvb.map(Into::into) };
        // Where the line has ended, nobody waits for it.
        let _ = wire::encode(&message).and_then(|packet| self.line.socket.send(&packet, None, true));
    }
}

impl Drop for GlimpseAnswer {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// What a program sees of a request that was under way when the daemon went.
fn gone(why: &Error) -> Error {
    Error::new(Errno::EIO, "node", "the daemon went away while it was asked").with_cause(why.clone())
}

fn no_answer() -> Error {
    gone(&Error::new(Errno::EIO, "node", "no answer came"))
}

pub(crate) fn unexpected(answer: &Answer) -> Error {
    Error::new(Errno::EPROTO, "node", format!("the daemon's answer is another's: {answer:?}"))
}
