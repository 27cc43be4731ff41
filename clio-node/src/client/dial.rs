//! Reaching the daemon, which may have to be started first.

use crate::socket::{Buffer, Socket};
use crate::wire::{self, Hello, MAGIC, MAJOR, MINOR, Welcome};
use clio_core::{Errno, Error, Result};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for a daemon that somebody else has started, or where something is at stake.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(2);
/// How long somebody else's start may take: that process may be stopped.
pub(crate) const START: Duration = Duration::from_secs(1);
/// Longest time between two daemons that are started, while the store is open elsewhere: each start is a process.
const LONG_STEP: Duration = Duration::from_millis(200);

/// How long a daemon that listens may take to greet a client: longer than one takes that is told to end.
const GREETING: Duration = Duration::from_secs(10);

/// Starts daemons.
pub trait Starter: Send + Sync {
    /// Starts the store's daemon, and waits until it listens; where another process is about to do that, only if told to do so
    /// `anyway`. Blocks.
    ///
    /// # Errors
    /// `EAGAIN` if another process is starting one, or the one that was started has ended without a word; `EBUSY` if another process has the store open, a daemon that is about to
    /// end perhaps. Others: why it can't be started.
    fn start(&self, anyway: bool) -> Result<()>;
}

/// Where a daemon listens, and who starts one there.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) socket: PathBuf,
    pub(crate) starter: Option<Arc<dyn Starter>>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.socket).finish()
    }
}

/// A daemon that has greeted this client.
pub(crate) struct Greeted {
    pub(crate) socket: Socket,
    pub(crate) buffer: Buffer,
    pub(crate) targets: u16,
    /// The daemon waits for what this client held with an earlier one.
    pub(crate) is_awaited: bool,
    /// The arena that the daemon has made, or has been given.
    pub(crate) arena: OwnedFd,
}

impl Place {
    /// Connects as client `token`, and wishes for an arena of `arena_bytes`, or brings the one that the client has. Where nobody
    /// listens, a daemon is started. With `patience`, it keeps trying for so long, whatever is in the way. Blocks.
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV` if nobody listens and nobody can start a daemon; `EACCES`; `EPROTO` if it is another version's;
    /// `ENOMEM`; `ETIMEDOUT` if a daemon listens, and has not answered for 10 s: it may be stopped; what the starter says.
    pub(crate) fn dial(
        &self,
        token: u64,
        arena_bytes: u64,
        arena: Option<BorrowedFd<'_>>,
        patience: Option<Duration>,
    ) -> Result<Greeted> {
        let (deadline, start_anyway) = (Instant::now() + patience.unwrap_or(PATIENCE), Instant::now() + START);
        let mut step = STEP;
        loop {
            let greeted = greet(&self.socket, token, arena_bytes, arena, GREETING);
            let absent = match greeted {
                Err(e) if is_absent(&e) => e,
                done => return done.map_err(|e| e.at(self.socket.display().to_string())),
            };
            let started = self.starter.as_ref().map(|starter| starter.start(Instant::now() >= start_anyway));
            let why = match started {
                None => absent.at(self.socket.display().to_string()),
                Some(Ok(())) if Instant::now() < deadline => continue,
                Some(Ok(())) => absent,
                Some(Err(e)) => e,
            };
            let may_pass =
                patience.is_some() || matches!(why.errno(), Errno::EAGAIN | Errno::EBUSY) && self.starter.is_some();
            if !may_pass || Instant::now() >= deadline {
                // EAGAIN is for whoever can try again; this has been tried.
                let is_tired = why.errno() == Errno::EAGAIN;
                return Err(if is_tired { Error::new(Errno::EIO, "start", why.detail().to_string()) } else { why });
            }
            if why.errno() == Errno::EAGAIN {
                std::thread::sleep(STEP);
            } else {
                std::thread::sleep(step);
                step = (step * 2).min(LONG_STEP);
            }
        }
    }
}

/// Whether nobody listens, or whoever did is just going.
fn is_absent(e: &Error) -> bool {
    matches!(e.errno(), Errno::ENOENT | Errno::ENODEV | Errno::ESHUTDOWN)
}

/// Connects to the daemon at `path`, and greets it. Each step may block for `limit`.
fn greet(path: &Path, token: u64, arena_bytes: u64, arena: Option<BorrowedFd<'_>>, limit: Duration) -> Result<Greeted> {
    let socket = Socket::connect(path, limit)?;
    let hello = Hello { magic: MAGIC, major: MAJOR, minor: MINOR, arena_bytes, brings_arena: arena.is_some(), token };
    let sent = match socket.send(&wire::encode(&hello)?, arena, true) {
        // It may have been refused before that, and be told why.
        Err(e) if e.errno() == Errno::ESHUTDOWN => Err(e),
        sent => Ok(sent?),
    };
    let mut buffer = Buffer::new();
    let Some((packet, fd)) = socket.receive(&mut buffer, true).map_err(|e| sent.err().unwrap_or(e))? else {
        let why = format!("the daemon has not answered for {} s: it may be stopped", limit.as_secs());
        return Err(Error::new(Errno::ETIMEDOUT, "connect", why));
    };
    let (targets, is_awaited) = match wire::decode(packet)? {
        Welcome::Served { targets, is_awaited, .. } => (targets, is_awaited),
        Welcome::Refused(e) => return Err(e.into_error("connect")),
    };
    let arena = fd.ok_or_else(|| Error::new(Errno::EPROTO, "connect", "the daemon's answer names no arena"))?;
    socket.block_for(None)?;
    Ok(Greeted { socket, buffer, targets, is_awaited, arena })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Listener;

    #[test]
    fn a_daemon_that_is_stopped_is_waited_for_but_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _nobody_accepts = Listener::bind(&path).unwrap();
        let limit = Duration::from_millis(20);
        let e = greet(&path, 1, 0, None, limit).err().unwrap();
        assert!(e.errno() == Errno::ETIMEDOUT && e.detail().contains("answered"), "{e}");
        // Until the system lets no more wait there.
        let mut waiting = Vec::new();
        let e = loop {
            match Socket::connect(&path, limit) {
                Ok(socket) => waiting.push(socket),
                Err(e) => break e,
            }
            assert!(waiting.len() < 10_000, "no end of it");
        };
        assert_eq!(e.errno(), Errno::ETIMEDOUT, "{e}");
    }
}
