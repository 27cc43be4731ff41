//! The daemon's side: a store served to the processes of a machine.
//!
//! One thread waits for packets of all clients (epoll). Targets answer by themselves, from threads of their own; what is
//! asked of the namespace, which may block on the disk, is done by a few workers. Answers are sent by whoever has them; one
//! that a client's socket has no room for waits in the session's queue, and a session that asks for more than
//! `MAX_OPEN` things at once is not listened to until some are done. So a client that floods or stalls holds up
//! itself.
//!
//! A daemon that is told to end has its clients give their locks back first. Where one dies, the next one waits for its
//! clients (`recovery.rs`).

mod admission;
mod bulk;
mod callbacks;
mod clients;
mod drain;
mod figures;
mod greeting;
mod locks;
mod names;
mod outbox;
mod processes;
mod recovery;
mod registry;
mod session;
mod syncs;
mod workers;

#[cfg(feature = "fuzz")]
pub(crate) use bulk::find as find_bulk;

use crate::socket::{Buffer, Listener};
use crate::wire::{Answer, FromDaemon, Salt, Status, TargetFigures};
use admission::Door;
use clients::Clients;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::Target;
use clio_core::{Errno, Error, Result};
use clio_namespace::{Doomed, Namespace};
use figures::Counters;
use processes::Processes;
use recovery::LOOK;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use session::{Session, SessionEnd, Turn};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use syncs::Syncs;
use workers::{OWN, Workers};

/// Threads that work on names.
const WORKERS: usize = 4;
/// Threads that write out what clients leave that die.
const DRAINS: usize = 2;
/// Time between two calls of [`Served::tick`].
pub const TICK: Duration = Duration::from_secs(5);
/// How long clients have to give their locks back when the service ends.
const DRAIN: Duration = Duration::from_secs(5);
/// How long nothing may come of that, until the service ends all the same.
const STALLED: Duration = Duration::from_millis(500);
/// Events taken from the system at a time.
const EVENTS: usize = 64;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_SESSION: u64 = 2;
/// With a session's number, its client's process.
const PROCESS: u64 = 1 << 63;

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
    /// Each target's figures, as far as it is the store that has them. May block.
    fn figures(&self) -> Vec<TargetFigures> {
        Vec::new()
    }
    /// Called every [`TICK`] or so. May block.
    fn tick(&self) {}
    /// The clients of an earlier daemon, if there was one that died, have opened anew what they had open. May block.
    fn recovered(&self) {}
}

/// A daemon's service. It listens from [`Server::bind`] on, and serves in [`Server::run`].
pub struct Server {
    shared: Arc<Shared>,
    listener: Listener,
    door: Door,
    sessions: HashMap<u64, Arc<Session>>,
    processes: Processes,
    /// Sessions of new clients, not listened to while old ones are waited for.
    held_up: Vec<u64>,
    /// When it was last looked which clients can still come back.
    looked: Option<Instant>,
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
    /// No more locks are given: the service ends.
    is_draining: AtomicBool,
    clients: AtomicUsize,
    started: Instant,
    salt: Salt,
    workers: RankedMutex<Option<Workers>>,
    /// Write out what clients leave that die.
    drains: RankedMutex<Option<Workers>>,
    syncs: Syncs,
    counters: Counters,
    clients_known: RankedMutex<Clients>,
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
        let clients_known = Clients::open(path, served.namespace())?;
        let counters = Counters::new(served.targets().len());
        let shared = Arc::new(Shared {
            served,
            epoll,
            stop,
            is_stopping: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            clients: AtomicUsize::new(0),
            started: Instant::now(),
            salt: Salt::new(clio_core::clock::now_ns()),
            workers: RankedMutex::new(LockRank::Leaf, Some(Workers::new("cliod-names", WORKERS)?)),
            drains: RankedMutex::new(LockRank::Leaf, Some(Workers::new("cliod-drain", DRAINS)?)),
            syncs: Syncs::default(),
            counters,
            clients_known: RankedMutex::new(LockRank::Leaf, clients_known),
        });
        Ok(Server {
            shared,
            listener,
            door: Door::new(),
            sessions: HashMap::new(),
            processes: Processes::default(),
            held_up: Vec::new(),
            looked: None,
            idle_exit: None,
        })
    }

    /// Has the service end by itself once it has had no client for this long.
    #[must_use]
    pub fn with_idle_exit(mut self, after: Duration) -> Server {
        self.idle_exit = Some(after);
        self
    }

    /// Has the service wait for this long, from now on, for clients of a daemon that died: 10 s if it isn't said.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Server {
        self.shared.clients_known.lock().recovery.has_patience(patience);
        self
    }

    /// What ends [`Server::run`].
    pub fn stop(&self) -> Stop {
        Stop(self.shared.clone())
    }

    /// Serves until told to stop, or idle for long enough. Blocks. Then clients give their locks back, all sessions are
    /// ended, and what was asked for by then is done.
    ///
    /// # Errors
    /// What keeps the service from going on at all.
    pub fn run(mut self) -> Result<()> {
        let mut buffer = Buffer::new();
        let (mut ticked, mut busy) = (Instant::now(), Instant::now());
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            if !self.sessions.is_empty() {
                busy = Instant::now();
            } else if self.idle_exit.is_some_and(|after| busy.elapsed() >= after) {
                break;
            }
            self.recover()?;
            self.keep_door()?;
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick();
            }
            let timeout = if self.shared.is_recovering() { LOOK } else { self.idle_exit.unwrap_or(TICK).min(TICK) };
            let timeout = self.door.due(Instant::now()).map_or(timeout, |due| due.min(timeout));
            self.turn(timeout, &mut buffer)?;
        }
        self.drain(&mut buffer)?;
        let ids: Vec<u64> = self.sessions.keys().copied().collect();
        // All at once: what one client gives back by its end must not be granted to another that goes on with the next daemon,
        // as does the first.
        self.sessions.values().for_each(|session| session.outbox.close());
        ids.into_iter().for_each(|id| self.end(id, &SessionEnd::Stopping));
        // Waits for what the workers have been given, the ends of these sessions too. Those that drain give them more.
        let drains = self.shared.drains.lock().take();
        drop(drains);
        let workers = self.shared.workers.lock().take();
        drop(workers);
        Ok(())
    }

    /// Serves whoever has something to say, and waits for `timeout` at most until somebody has.
    fn turn(&mut self, timeout: Duration, buffer: &mut Buffer) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let timeout = timeout.try_into().ok();
        match epoll::wait(&self.shared.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(failed("epoll", e)),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => self.accept(buffer)?,
                STOP => {}
                id if id & PROCESS != 0 => self.process_ended(id & !PROCESS),
                id => self.serve(id, event.flags, buffer),
            }
        }
        Ok(())
    }

    /// Has clients write out what is dirty and give their locks back, and serves them meanwhile. One that doesn't, in the
    /// time that it has, keeps its locks: the next daemon waits for it.
    fn drain(&mut self, buffer: &mut Buffer) -> Result<()> {
        // New clients wait for the next daemon.
        if self.door.is_open() {
            epoll::delete(&self.shared.epoll, &self.listener).map_err(|e| failed("epoll", e))?;
        }
        let _ = epoll::delete(&self.shared.epoll, &self.shared.stop);
        self.shared.is_draining.store(true, Ordering::Release);
        self.sessions.values().for_each(|session| session.outbox.send(&FromDaemon::Stopping));
        let deadline = Instant::now() + DRAIN;
        let held = |this: &Self| this.sessions.values().map(|session| session.locks.count()).sum::<usize>();
        let (mut last, mut moved) = ((0, 0), Instant::now());
        while held(self) > 0 && Instant::now() < deadline {
            self.turn(LOOK, buffer)?;
            // Who needs another lock to get done with those that it has waits for the next daemon.
            let now = (held(self), self.shared.counters.written_bytes());
            if now != last {
                (last, moved) = (now, Instant::now());
            } else if moved.elapsed() >= STALLED {
                break;
            }
        }
        Ok(())
    }

    /// Looks whether the clients of an earlier daemon are still waited for; once they aren't, listens to the others.
    fn recover(&mut self) -> Result<()> {
        let is_recovering = self.shared.is_recovering();
        let since = if is_recovering { LOOK } else { TICK };
        if self.looked.is_some_and(|looked| looked.elapsed() < since) && !is_recovering {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let look = {
            let mut clients = self.shared.clients_known.lock();
            let look = clients.recovery.look();
            look.lost.iter().for_each(|known| clients.registry.note(known));
            look
        };
        look.cut.into_iter().for_each(|token| self.cut_off(token));
        look.gone.into_iter().for_each(|token| self.shared.forget(token));
        if let Some(done) = look.over {
            tracing::info!(target: "clio::node", "the clients of the daemon before are here");
            done.into_iter().for_each(|(outbox, id)| outbox.reply(id, Ok(Answer::Recovered)));
            for id in std::mem::take(&mut self.held_up) {
                if let Some(session) = self.sessions.get(&id) {
                    watch(&self.shared.epoll, &session.socket, id)?;
                }
            }
        }
        if look.reclaim {
            let served = self.shared.served.clone();
            self.shared.work(move || served.recovered());
        }
        Ok(())
    }

    /// Ends the sessions of client `token`, which loses what it has taken up. Nothing more that it has sent is heard.
    fn cut_off(&mut self, token: u64) {
        let ids: Vec<u64> = self.sessions.values().filter(|s| s.token() == Some(token)).map(|s| s.id).collect();
        for id in ids {
            let why = "it took too long to take up what it held with the daemon before";
            self.end(id, &SessionEnd::Failed(Error::new(Errno::ETIMEDOUT, "recover", why)));
        }
    }

    fn tick(&self) {
        let served = self.shared.served.clone();
        self.shared.work(move || served.tick());
    }

    /// What the client has sent is taken, then its session ends, whoever still has its end of the connection.
    fn process_ended(&mut self, id: u64) {
        self.processes.forget(&self.shared.epoll, id);
        if let Some(session) = self.sessions.get(&id) {
            session.socket.stop_receiving();
        }
    }

    fn serve(&mut self, id: u64, flags: EventFlags, buffer: &mut Buffer) {
        let Some(session) = self.sessions.get(&id).cloned() else { return };
        if self.held_up.contains(&id) {
            // An event of before it was held up.
            return;
        }
        let served = (|| {
            if flags.contains(EventFlags::OUT) {
                session.outbox.flush()?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
                && session.receive(buffer)? == Turn::HeldUp
            {
                epoll::delete(&self.shared.epoll, &session.socket).map_err(|e| failed("epoll", e))?;
                self.held_up.push(id);
            }
            Ok(())
        })();
        if session.token().is_some() {
            self.door.left(id);
        }
        if let Err(e) = served {
            self.end(id, &SessionEnd::Failed(e));
        }
    }

    fn end(&mut self, id: u64, why: &SessionEnd) {
        self.door.left(id);
        self.processes.forget(&self.shared.epoll, id);
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
        self.work_for(OWN, job);
    }

    /// The same, for a session.
    fn work_for(&self, session: u64, job: impl FnOnce() + Send + 'static) {
        if let Some(workers) = &*self.workers.lock() {
            workers.push(session, Box::new(job));
        }
    }

    /// Has `job` done, which writes out what a client leaves. Blocks only where the service ends.
    fn drain_for(&self, session: u64, job: impl FnOnce() + Send + 'static) {
        if let Some(drains) = &*self.drains.lock() {
            return drains.push(session, Box::new(job));
        }
        job();
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

fn watch(epoll: &OwnedFd, fd: &impl AsFd, id: u64) -> Result<()> {
    epoll::add(epoll, fd, EventData::new_u64(id), EventFlags::IN).map_err(|e| failed("epoll", e))
}

fn failed(op: &'static str, e: rustix::io::Errno) -> Error {
    Error::from_io(op, e.into())
}
