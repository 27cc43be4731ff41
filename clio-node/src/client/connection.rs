//! The connection of one client: a line to the daemon, and another one to the next daemon when that dies.
//!
//! The layers above don't see the daemon's death: what they held is taken up with the next daemon (`recovery.rs`), which
//! is asked for what the last one had not answered. Nothing happens twice: changes of names carry a number, by which the
//! next daemon knows what the last one did; data is written to the same place again.

use super::dial::{Place, Starter};
use super::line::{Done, Line, unexpected};
use super::link::{Entry, Link};
use super::xids::Xids;
use crate::wire::{Answer, Figures, NamesOp, NamesReply, Request, Status, WireOp, WireReply};
use clio_arena::Arena;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::Mutex;
use clio_core::target::TargetClient;
use clio_core::units::{ClientId, Fid, TargetIndex};
use clio_core::{Errno, Error, Result};
use clio_namespace::Access;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Daemons that a request is made of, one after another, where each dies of it, or at that moment.
const MAX_TRIES: u32 = 4;

/// A connection to a store's daemon. Dropping it ends it: the daemon then releases all that the client holds.
pub struct Connection {
    pub(super) place: Place,
    pub(super) arena: Arc<Arena>,
    pub(super) targets: u16,
    /// By this, daemons know the client again.
    pub(super) token: u64,
    /// Numbers of operations that must not happen twice.
    xids: Xids,
    pub(super) state: RankedMutex<State>,
    /// Held while a line is set up: one after another.
    pub(super) changing: Mutex<()>,
    pub(super) this: Weak<Connection>,
}

#[derive(Default)]
pub(super) struct State {
    /// `None` once the daemon is gone, until there is another one.
    pub(super) line: Option<Arc<Line>>,
    /// Registrations with targets, by the number that the client has for good.
    pub(super) links: HashMap<u64, Arc<Link>>,
    last_link: u64,
    /// Files that are open, and how often.
    pub(super) files: HashMap<Fid, u32>,
    /// What the last line stood for is yet to be taken up, or given up.
    pub(super) is_at_stake: bool,
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
        let token = new_token()?;
        let greeted = place.dial(token, arena_bytes, None, None)?;
        let arena = Arc::new(Arena::attach(greeted.arena)?);
        let connection = Arc::new_cyclic(|this| Connection {
            place,
            arena,
            targets: greeted.targets,
            token,
            xids: Xids::default(),
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

    /// What the daemon has counted. Blocks.
    ///
    /// # Errors
    /// As [`Connection::status`].
    pub fn figures(&self) -> Result<Figures> {
        match self.call(Request::Figures)? {
            Answer::Figures(figures) => Ok(figures),
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
                Err(_) if line.has_ended() && can_be_repeated(&request) => {}
                done => return done,
            }
        }
        self.line()?.call(request)
    }

    /// As [`Connection::call`], for a change of names, which happens once, whichever daemon does it. Blocks.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn call_once(&self, op: NamesOp) -> Result<Answer> {
        let xid = self.xids.take();
        let answer = self.call(Request::Once { xid, op });
        self.xids.give_back(xid);
        answer
    }

    /// Has a target do something for registration `client`; `done` is called exactly once. Blocks only where another
    /// daemon has to be found first.
    pub(crate) fn ask(&self, client: ClientId, op: WireOp, done: Done) {
        self.ask_again(Asked { client, op, losses: None, tries: MAX_TRIES }, done);
    }

    fn ask_again(&self, asked: Asked, done: Done) {
        let line = match self.line() {
            Ok(line) => line,
            Err(e) => return done(Err(e)),
        };
        let link = self.state.lock().links.get(&asked.client.0).cloned();
        let Some(link) = link else {
            return done(Err(Error::new(Errno::ESTALE, "node", "this registration has ended")));
        };
        let is_first = asked.losses.is_none();
        let losses = link.losses();
        if asked.losses.is_some_and(|before| before != losses) && !needs_no_lock(&asked.op) {
            let why = "the daemon went away, and with it the locks that this relied on";
            return done(Err(Error::new(Errno::EIO, "node", why)));
        }
        let Some((remote, op)) = link.send(asked.op.clone(), is_first) else {
            return done(Ok(Answer::Target(WireReply::Done)));
        };
        let request = Request::Target { target: link.target.0, client: remote, op };
        let (entry, this, sent) = (Entry::of(&asked.op), self.this.clone(), line.clone());
        let done = move |result: Result<Answer>| {
            link.enter(&entry, &result);
            match (result, this.upgrade()) {
                (Err(_), Some(this)) if asked.tries > 1 && sent.has_ended() => {
                    this.ask_again(Asked { losses: Some(losses), tries: asked.tries - 1, ..asked }, done);
                }
                (Err(e), _) if !is_first && is_done_already(&asked.op, &e) => {
                    done(Ok(Answer::Target(WireReply::Done)));
                }
                (result, _) => done(result),
            }
        };
        line.ask(request, Box::new(done));
    }

    /// Registers `callbacks` with a target. Blocks.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(crate) fn link(&self, target: TargetIndex, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        let link = Link::new(target, callbacks);
        loop {
            let line = self.line()?;
            let grant = line.link(Request::Connect(target.0), &link)?;
            let mut state = self.state.lock();
            // Of a line that has ended since, nothing counts.
            if state.is_on(&line) {
                state.last_link += 1;
                let id = state.last_link;
                state.links.insert(id, link);
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
            line.unlink(link);
        }
        // Outside the mutex: the last reference to its callbacks may go.
        drop(link);
    }

    /// Opens a file at the daemon, for access of that kind. Blocks.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(crate) fn open_file(&self, fid: Fid, access: Access) -> Result<()> {
        let mut tries = MAX_TRIES;
        loop {
            let line = self.line()?;
            tries = tries.saturating_sub(1);
            let open = NamesOp::Open { fid: fid.to_bytes(), access: access.bits() };
            match line.call(Request::Names(open)) {
                Err(_) if line.has_ended() && tries > 0 => continue,
                opened => drop(opened?),
            }
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
}

impl State {
    pub(super) fn is_on(&self, line: &Arc<Line>) -> bool {
        self.line.as_ref().is_some_and(|l| Arc::ptr_eq(l, line))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(line) = &self.state.lock().line {
            line.say_bye();
            line.hang_up();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("place", &self.place).field("targets", &self.targets).finish_non_exhaustive()
    }
}

/// A request to a target, until it is answered.
struct Asked {
    client: ClientId,
    op: WireOp,
    /// How often the registration had lost everything when this was asked first; `None` while that is now.
    losses: Option<u64>,
    tries: u32,
}

/// Whether a request can be made of the next daemon, where one is gone without an answer: it changes nothing, or carries
/// a number by which the next one knows what the last one did.
fn can_be_repeated(request: &Request) -> bool {
    let Request::Names(op) = request else {
        return matches!(request, Request::Status | Request::Figures | Request::Sync | Request::Once { .. });
    };
    !op.is_change() && !matches!(op, NamesOp::OpenRef(_) | NamesOp::Open { .. } | NamesOp::CloseRef(_))
}

/// Whether the client needs no lock for what is asked of a target, so that it can be asked though all locks were lost.
fn needs_no_lock(op: &WireOp) -> bool {
    use WireOp::{Enqueue, GetAttr, Seek, StatFs, Sync};
    matches!(op, GetAttr(_) | Sync(_) | Seek { .. } | StatFs | Enqueue { .. })
}

/// Whether an operation that was asked for again fails since the daemon before had done it.
fn is_done_already(op: &WireOp, e: &Error) -> bool {
    matches!((op, e.errno()), (WireOp::Create(_), Errno::EEXIST) | (WireOp::Destroy(_), Errno::ENOENT))
}

fn new_token() -> Result<u64> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => Ok(u64::from_ne_bytes(bytes)),
        Err(e) => Err(Error::from_io("connect", e.into())),
    }
}
