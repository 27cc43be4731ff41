//! The daemon's side: a store served to the processes of a machine.
//!
//! One thread waits for packets of all clients (epoll). Targets answer by themselves, from threads of their own; what is
//! asked of the namespace, which may block on the disk, is done by a few workers. Answers are sent by whoever has them; one
//! that a client's socket has no room for waits in the session's queue, and a session that asks for more than
//! `MAX_OPEN` things at once is not listened to until some are done. So a client that floods or stalls holds up
//! itself.

mod bulk;
mod callbacks;
mod names;
mod outbox;
mod session;
mod syncs;
mod workers;

#[cfg(feature = "fuzz")]
pub(crate) use bulk::find as find_bulk;

use crate::socket::{Buffer, Listener, Socket};
use crate::wire::{self, Hello, MAGIC, MAJOR, MINOR, Salt, Status, Welcome, WireError};
use clio_arena::{CHUNK_BYTES, Mapping};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::Target;
use clio_core::{Errno, Error, Result};
use clio_namespace::{Doomed, Namespace};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use session::{Session, SessionEnd};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use syncs::Syncs;
use workers::Workers;

/// Smallest and largest arena of a client, in bytes of address space; memory is only taken as it is used.
const ARENA_BYTES: std::ops::RangeInclusive<u64> = CHUNK_BYTES as u64..=1 << 40;
/// Threads that work on names.
const WORKERS: usize = 4;
/// Clients at once.
const MAX_CLIENTS: usize = 1024;
/// Time between two calls of [`Served::tick`].
pub const TICK: Duration = Duration::from_secs(5);
/// Events taken from the system at a time.
const EVENTS: usize = 64;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_SESSION: u64 = 2;

/// What is served.
pub trait Served: Send + Sync + 'static {
    /// The storage targets, in order of their indices.
    fn targets(&self) -> &[Arc<dyn Target>];
    /// The names.
    fn namespace(&self) -> &Namespace;
    /// Destroys the objects of a file that is gone, and tells the namespace. May block.
    fn destroy(&self, doomed: &Doomed);
    /// Makes durable all that the targets hold, and all names. Blocks.
    ///
    /// # Errors
    /// The first error; everything else is made durable all the same.
    fn sync(&self) -> Result<()>;
    /// Called every [`TICK`] or so. May block.
    fn tick(&self) {}
}

/// A daemon's service. It listens from [`Server::bind`] on, and serves in [`Server::run`].
pub struct Server {
    shared: Arc<Shared>,
    listener: Listener,
    next_session: u64,
    sessions: HashMap<u64, Arc<Session>>,
    /// Time without clients after which the service ends.
    idle_exit: Option<Duration>,
}

/// Ends a [`Server::run`] from another thread.
#[derive(Clone)]
pub struct Stop(Arc<Shared>);

struct Shared {
    served: Arc<dyn Served>,
    epoll: OwnedFd,
    stop: OwnedFd,
    is_stopping: AtomicBool,
    clients: AtomicUsize,
    started: Instant,
    salt: Salt,
    workers: RankedMutex<Option<Workers>>,
    syncs: Syncs,
}

impl Server {
    /// Listens at `path`, where no socket must be.
    ///
    /// # Errors
    /// `EEXIST` if something is there; `ENAMETOOLONG`; what the system says.
    pub fn bind(path: &Path, served: Arc<dyn Served>) -> Result<Server> {
        let listener = Listener::bind(path).map_err(|e| e.at(path.display().to_string()))?;
        listener.set_nonblocking()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|e| failed("epoll", e))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| failed("eventfd", e))?;
        watch(&epoll, &listener, LISTENER)?;
        watch(&epoll, &stop, STOP)?;
        let shared = Arc::new(Shared {
            served,
            epoll,
            stop,
            is_stopping: AtomicBool::new(false),
            clients: AtomicUsize::new(0),
            started: Instant::now(),
            salt: Salt::new(clio_core::clock::now_ns()),
            workers: RankedMutex::new(LockRank::Leaf, Some(Workers::new(WORKERS)?)),
            syncs: Syncs::default(),
        });
        Ok(Server { shared, listener, next_session: FIRST_SESSION, sessions: HashMap::new(), idle_exit: None })
    }

    /// Has the service end by itself once it has had no client for this long.
    #[must_use]
    pub fn with_idle_exit(mut self, after: Duration) -> Server {
        self.idle_exit = Some(after);
        self
    }

    /// What ends [`Server::run`].
    pub fn stop(&self) -> Stop {
        Stop(self.shared.clone())
    }

    /// Serves until told to stop, or idle for long enough. Blocks. Then all sessions are ended, and what was asked for by then is done.
    ///
    /// # Errors
    /// What keeps the service from going on at all.
    pub fn run(mut self) -> Result<()> {
        let mut buffer = Buffer::new();
        let mut events = Vec::with_capacity(EVENTS);
        let (mut ticked, mut busy) = (Instant::now(), Instant::now());
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            if !self.sessions.is_empty() {
                busy = Instant::now();
            } else if self.idle_exit.is_some_and(|after| busy.elapsed() >= after) {
                break;
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick();
            }
            events.clear();
            let timeout = self.idle_exit.unwrap_or(TICK).min(TICK).try_into().ok();
            match epoll::wait(&self.shared.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(failed("epoll", e)),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    STOP => {}
                    id => self.serve(id, event.flags, &mut buffer),
                }
            }
        }
        let ids: Vec<u64> = self.sessions.keys().copied().collect();
        ids.into_iter().for_each(|id| self.end(id, &SessionEnd::Stopping));
        // Waits for what the workers have been given, the ends of these sessions too.
        let workers = self.shared.workers.lock().take();
        drop(workers);
        Ok(())
    }

    fn tick(&self) {
        let served = self.shared.served.clone();
        self.shared.work(move || served.tick());
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return,
                Err(e) => {
                    // Descriptors or memory are short: it is tried again with the next event.
                    tracing::warn!(target: "clio::node", error = %e, "a client can't be accepted");
                    return;
                }
            }
        }
    }

    /// A new client; a stranger, or one too many, is told so.
    fn admit(&mut self, socket: Socket) {
        let refused = match socket.peer() {
            Ok(peer) if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() => {
                Some(Error::new(Errno::EACCES, "connect", "this store is another user's"))
            }
            Ok(_) if self.sessions.len() >= MAX_CLIENTS => {
                Some(Error::new(Errno::EUSERS, "connect", format!("{MAX_CLIENTS} clients are served already")))
            }
            Ok(peer) => {
                let id = self.next_session;
                self.next_session += 1;
                let session = Session::new(id, socket, peer, self.shared.clone());
                match watch(&self.shared.epoll, &session.socket, id) {
                    Ok(()) => {
                        self.shared.clients.fetch_add(1, Ordering::Relaxed);
                        self.sessions.insert(id, session);
                    }
                    Err(e) => tracing::warn!(target: "clio::node", error = %e, "a client can't be watched"),
                }
                return;
            }
            Err(e) => Some(e),
        };
        if let Some(e) = refused {
            refuse(&socket, &e);
        }
    }

    fn serve(&mut self, id: u64, flags: EventFlags, buffer: &mut Buffer) {
        let Some(session) = self.sessions.get(&id).cloned() else { return };
        let served = (|| {
            if flags.contains(EventFlags::OUT) {
                session.outbox.flush()?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                session.receive(buffer)?;
            }
            Ok(())
        })();
        if let Err(e) = served {
            self.end(id, &SessionEnd::Failed(e));
        }
    }

    fn end(&mut self, id: u64, why: &SessionEnd) {
        if let Some(session) = self.sessions.remove(&id) {
            let _ = epoll::delete(&self.shared.epoll, &session.socket);
            self.shared.clients.fetch_sub(1, Ordering::Relaxed);
            session.end(why);
        }
    }
}

impl Stop {
    /// Ends the service.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Clients now.
    pub fn clients(&self) -> usize {
        self.0.clients.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        // It can only be full, which wakes as well.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Has a worker do `job`, which may block.
    fn work(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(workers) = &*self.workers.lock() {
            workers.push(Box::new(job));
        }
    }

    fn status(&self) -> Status {
        Status {
            pid: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_string(),
            uptime_seconds: self.started.elapsed().as_secs(),
            clients: self.clients.load(Ordering::Relaxed) as u32,
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

/// Answers a client's first packet; what is shared with it: an arena that is made for it, or its own, of an earlier daemon.
///
/// # Errors
/// What the client did wrong, or what is short; it has been told.
fn greet(socket: &Socket, hello: &[u8], arena: Option<OwnedFd>, targets: u16) -> Result<Arc<Mapping>> {
    let welcomed = check(hello).and_then(|hello| {
        if hello.brings_arena {
            let none = || Error::new(Errno::EPROTO, "connect", "the client's arena didn't come with its greeting");
            return Ok(Arc::new(Mapping::attach(arena.ok_or_else(none)?)?));
        }
        let bytes = hello.arena_bytes.clamp(*ARENA_BYTES.start(), *ARENA_BYTES.end());
        Ok(Arc::new(Mapping::create_shared((bytes as usize).div_ceil(CHUNK_BYTES))?))
    });
    let mapping = welcomed.inspect_err(|e| refuse(socket, e))?;
    let welcome = wire::encode(&Welcome::Served { minor: MINOR, targets })?;
    match socket.send(&welcome, mapping.fd(), false)? {
        true => Ok(mapping),
        false => Err(Error::new(Errno::EPROTO, "connect", "the client leaves no room for an answer")),
    }
}

fn check(hello: &[u8]) -> Result<Hello> {
    let hello: Hello = wire::decode(hello)?;
    if hello.magic != MAGIC {
        return Err(Error::new(Errno::EPROTO, "connect", "the client speaks another protocol"));
    } else if hello.major != MAJOR {
        let why = format!(
            "the client speaks version {}.{} of the protocol, the daemon {MAJOR}.{MINOR}; use the same release for both",
            hello.major, hello.minor
        );
        return Err(Error::new(Errno::EPROTO, "connect", why));
    }
    Ok(hello)
}

fn refuse(socket: &Socket, e: &Error) {
    tracing::info!(target: "clio::node", error = %e, "a client is refused");
    // It may be gone already.
    let _ = wire::encode(&Welcome::Refused(WireError::from(e))).and_then(|packet| socket.send(&packet, None, false));
}

fn watch(epoll: &OwnedFd, fd: &impl AsFd, id: u64) -> Result<()> {
    epoll::add(epoll, fd, EventData::new_u64(id), EventFlags::IN).map_err(|e| failed("epoll", e))
}

fn failed(op: &'static str, e: rustix::io::Errno) -> Error {
    Error::from_io(op, e.into())
}
