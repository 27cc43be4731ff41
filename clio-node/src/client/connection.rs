//! The connection of one client: a line to the daemon, and another one to the next daemon when that dies.
//!
//! The daemon's death is an eviction to the layers above: locks, and data that had not been written out, are lost, which
//! every open file is told. What is asked next finds, or starts, another daemon, which is given the client's arena, and
//! where the client registers and opens its files anew.

use super::dial::{Place, Starter};
use super::line::{Done, Line, unexpected};
use crate::wire::{Answer, NamesOp, NamesReply, Request, Status, WireOp};
use clio_arena::Arena;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::Mutex;
use clio_core::target::TargetClient;
use clio_core::units::{ClientId, Fid, TargetIndex};
use clio_core::{Errno, Error, Result};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Daemons that a request is made of, one after another, where each dies of it, or at that moment.
const MAX_TRIES: u32 = 4;

/// A connection to a store's daemon. Dropping it ends it: the daemon then releases all that the client holds.
pub struct Connection {
    place: Place,
    arena: Arc<Arena>,
    targets: u16,
    state: RankedMutex<State>,
    /// Held while a line is set up, and while the end of one is told: one after another.
    changing: Mutex<()>,
    this: Weak<Connection>,
}

#[derive(Default)]
struct State {
    /// `None` once the daemon is gone, until something is asked.
    line: Option<Arc<Line>>,
    /// Registrations with targets, by the number that the client has for good.
    links: HashMap<u64, Link>,
    last_link: u64,
    /// Files that are open, and how often.
    files: HashMap<Fid, u32>,
}

struct Link {
    target: u16,
    callbacks: Arc<dyn TargetClient>,
    /// The number that the daemon of the present line has for it.
    remote: u64,
}

impl Connection {
    /// Connects to the daemon that listens at `path`, and wishes for `arena_bytes` of memory that both share. Blocks.
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV` if no daemon listens there; `EACCES`; `EPROTO` if it is another version's; `ENOMEM`.
    pub fn open(path: &Path, arena_bytes: u64) -> Result<Arc<Connection>> {
        Self::to(Place { socket: path.into(), starter: None }, arena_bytes)
    }

    /// As [`Connection::open`], but where nobody listens, now or later, `starter` is asked to start a daemon.
    ///
    /// # Errors
    /// As there, and what `starter` says.
    pub fn open_or_start(path: &Path, starter: Arc<dyn Starter>, arena_bytes: u64) -> Result<Arc<Connection>> {
        Self::to(Place { socket: path.into(), starter: Some(starter) }, arena_bytes)
    }

    fn to(place: Place, arena_bytes: u64) -> Result<Arc<Connection>> {
        let greeted = place.dial(arena_bytes, None)?;
        let arena = Arc::new(Arena::attach(greeted.arena)?);
        let connection = Arc::new_cyclic(|this| Connection {
            place,
            arena,
            targets: greeted.targets,
            state: RankedMutex::new(LockRank::Leaf, State::default()),
            changing: Mutex::new(()),
            this: this.clone(),
        });
        let line = Line::start(greeted.socket, greeted.buffer, Arc::downgrade(&connection))?;
        connection.adopt(&line)?;
        Ok(connection)
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

    /// Makes durable what the daemon's targets hold, and all names. Blocks.
    ///
    /// # Errors
    /// The first of what the daemon meets, after which it goes on; `EIO` if it is gone.
    pub fn sync(&self) -> Result<()> {
        match self.call(Request::Sync)? {
            Answer::Synced => Ok(()),
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

    /// Asks the daemon, or the next one, for something, and waits for the answer. Blocks.
    ///
    /// # Errors
    /// What the daemon says; `EIO` if it went while it was asked, or none can be reached.
    pub(crate) fn call(&self, request: Request) -> Result<Answer> {
        for _ in 1..MAX_TRIES {
            let line = self.line()?;
            match line.call(request.clone()) {
                Err(_) if line.has_ended() && asks_only(&request) => {}
                done => return done,
            }
        }
        self.line()?.call(request)
    }

    /// Has a target do something for registration `client`; `done` is called exactly once. Blocks only where another
    /// daemon has to be found first.
    pub(crate) fn ask(&self, client: ClientId, op: WireOp, done: Done) {
        self.ask_again(client, op, done, MAX_TRIES);
    }

    fn ask_again(&self, client: ClientId, op: WireOp, done: Done, tries: u32) {
        let line = match self.line() {
            Ok(line) => line,
            Err(e) => return done(Err(e)),
        };
        let link = self.state.lock().links.get(&client.0).map(|link| (link.target, link.remote));
        let Some((target, remote)) = link else {
            return done(Err(Error::new(Errno::ESTALE, "node", "this registration has ended")));
        };
        if tries <= 1 || !can_be_asked_of_another(&op) {
            return line.ask(Request::Target { target, client: remote, op }, done);
        }
        let (this, sent, again) = (self.this.clone(), line.clone(), op.clone());
        let done = move |result: Result<Answer>| match (result, this.upgrade()) {
            (Err(_), Some(this)) if sent.has_ended() => this.ask_again(client, again, done, tries - 1),
            (result, _) => done(result),
        };
        line.ask(Request::Target { target, client: remote, op }, Box::new(done));
    }

    /// Registers `callbacks` with a target. Blocks.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(crate) fn link(&self, target: TargetIndex, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        loop {
            let line = self.line()?;
            let (remote, grant) = line.link(target.0, callbacks.clone())?;
            let mut state = self.state.lock();
            // Of a line that has ended since, nothing counts.
            if state.is_on(&line) {
                state.last_link += 1;
                let id = state.last_link;
                state.links.insert(id, Link { target: target.0, callbacks, remote });
                return Ok((ClientId(id), grant));
            }
        }
    }

    /// Forgets a registration.
    pub(crate) fn unlink(&self, client: ClientId) {
        let (link, line) = {
            let mut state = self.state.lock();
            (state.links.remove(&client.0), state.line.clone())
        };
        if let (Some(link), Some(line)) = (&link, line) {
            line.unlink(link.target, link.remote);
        }
        // Outside the mutex: the last reference to its callbacks may go.
        drop(link);
    }

    /// Opens a file at the daemon. Blocks.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(crate) fn open_file(&self, fid: Fid) -> Result<()> {
        loop {
            let line = self.line()?;
            line.call(Request::Names(NamesOp::OpenRef(fid.to_bytes())))?;
            let mut state = self.state.lock();
            if state.is_on(&line) {
                *state.files.entry(fid).or_insert(0) += 1;
                return Ok(());
            }
        }
    }

    /// Closes a file at the daemon; whether it is gone with that. Blocks.
    ///
    /// # Errors
    /// `EBADF` if it isn't open; what the daemon says. Where the daemon is gone, so is its opening, and all is well.
    pub(crate) fn close_file(&self, fid: Fid) -> Result<bool> {
        let line = {
            // Not while a new line is given what is open.
            let _change = self.changing.lock();
            let mut state = self.state.lock();
            let Some(count) = state.files.get_mut(&fid) else {
                return Err(Error::new(Errno::EBADF, "close", "it isn't open").on(fid));
            };
            *count -= 1;
            if *count == 0 {
                state.files.remove(&fid);
            }
            state.line.clone()
        };
        let Some(line) = line else { return Ok(false) };
        match line.call(Request::Names(NamesOp::CloseRef(fid.to_bytes()))) {
            Ok(Answer::Names(NamesReply::Closed { gone })) => Ok(gone),
            Ok(answer) => Err(unexpected(&answer)),
            Err(_) if line.has_ended() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// A line to a daemon: the present one, or one to the next daemon. Blocks in that case.
    fn line(&self) -> Result<Arc<Line>> {
        let present = || self.state.lock().line.clone();
        if let Some(line) = present() {
            return Ok(line);
        }
        let _change = self.changing.lock();
        match present() {
            Some(line) => Ok(line),
            None => self.reconnect().map_err(|e| unreachable(&e)),
        }
    }

    /// Makes `line` the present one.
    fn adopt(&self, line: &Arc<Line>) -> Result<()> {
        self.state.lock().line = Some(line.clone());
        if !line.has_ended() {
            return Ok(());
        }
        // Its end may have been told before it was the present one.
        self.state.lock().line = None;
        Err(Error::new(Errno::ESHUTDOWN, "connect", "the daemon went away again"))
    }

    /// Finds or starts another daemon, and restores there what this client had. The caller holds the mutex.
    fn reconnect(&self) -> Result<Arc<Line>> {
        let greeted = self.place.dial(0, self.arena.fd())?;
        if greeted.targets != self.targets {
            let why = format!("the store has {} targets now, and had {}", greeted.targets, self.targets);
            return Err(Error::new(Errno::ESTALE, "connect", why));
        }
        let line = Line::start(greeted.socket, greeted.buffer, self.this.clone())?;
        let restored = self.restore(&line).and_then(|()| self.adopt(&line));
        restored.inspect_err(|_| line.hang_up())?;
        tracing::info!(target: "clio::node", "connected to another daemon");
        Ok(line)
    }

    fn restore(&self, line: &Arc<Line>) -> Result<()> {
        let (links, files) = {
            let state = self.state.lock();
            let links: Vec<_> = state.links.iter().map(|(id, l)| (*id, l.target, l.callbacks.clone())).collect();
            (links, state.files.clone())
        };
        for (id, target, callbacks) in links {
            let (remote, grant) = line.link(target, callbacks)?;
            if let Some(link) = self.state.lock().links.get_mut(&id) {
                link.remote = remote;
            }
            // An eviction has taken all grant; the client doesn't know of this one.
            line.call(Request::Target { target, client: remote, op: WireOp::ReturnGrant(grant) })?;
        }
        for (fid, count) in files {
            for _ in 0..count {
                match line.call(Request::Names(NamesOp::OpenRef(fid.to_bytes()))) {
                    // It had no name any more, and went with the daemon that knew of its being open.
                    Err(e) if e.errno() == Errno::ENOENT => {
                        self.state.lock().files.remove(&fid);
                        break;
                    }
                    opened => drop(opened?),
                }
            }
        }
        Ok(())
    }

    /// `line` has ended, and `evict` tells so all who relied on it.
    pub(crate) fn lost(&self, line: &Arc<Line>, evict: impl FnOnce()) {
        // One that ends while it is set up is met by whoever does that, and holds the mutex.
        if !self.state.lock().is_on(line) {
            return;
        }
        let _change = self.changing.lock();
        evict();
        let mut state = self.state.lock();
        if state.is_on(line) {
            state.line = None;
        }
    }
}

impl State {
    fn is_on(&self, line: &Arc<Line>) -> bool {
        self.line.as_ref().is_some_and(|l| Arc::ptr_eq(l, line))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(line) = &self.state.lock().line {
            line.hang_up();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("place", &self.place).field("targets", &self.targets).finish_non_exhaustive()
    }
}

/// Whether a request changes nothing, or nothing that the next daemon can't do as well, so that it can be made twice.
fn asks_only(request: &Request) -> bool {
    let Request::Names(op) = request else { return matches!(request, Request::Status | Request::Sync) };
    matches!(
        op,
        NamesOp::Resolve { .. }
            | NamesOp::GetAttr(_)
            | NamesOp::ReadDir { .. }
            | NamesOp::ReadLink(_)
            | NamesOp::GetLayout(_)
            | NamesOp::GetXattr { .. }
            | NamesOp::ListXattrs(_)
            | NamesOp::Sync
    )
}

/// Whether what a daemon that is gone was asked can be asked of the next one: it depends on no lock, and what the first
/// may have done of it is either nothing that lasts, or the same.
fn can_be_asked_of_another(op: &WireOp) -> bool {
    use WireOp::{Enqueue, GetAttr, Seek, StatFs, Sync};
    matches!(op, GetAttr(_) | Sync(_) | Seek { .. } | StatFs | Enqueue { .. })
}

/// What a program sees when no daemon can be reached. Its kind, `NotConnected`, says that asking at once again won't help.
fn unreachable(why: &Error) -> Error {
    let cause = std::io::Error::new(std::io::ErrorKind::NotConnected, why.clone());
    let text = format!("the store's daemon is gone, and none can be reached: {}", why.detail());
    Error::new(Errno::EIO, "node", text).with_cause(cause)
}
