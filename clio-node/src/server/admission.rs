//! New connections: who is let in, and what those cost that say nothing.
//!
//! Until a client has greeted, nothing tells whether it ever will. Connections without a greeting have a small limit and a
//! deadline of their own, so that they keep nobody out. Where descriptors are short, who comes is told so, and isn't left to
//! wait.

use super::greeting::refuse;
use super::session::{Session, SessionEnd};
use super::{FIRST_SESSION, LISTENER, Server, failed, watch};
use crate::peer_groups::peer_groups;
use crate::socket::{Buffer, Socket};
use clio_core::{Errno, Error, Result};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Clients at once.
const MAX_CLIENTS: usize = 1024;
/// Connections at once of which no greeting has come.
const MAX_SILENT: usize = 64;
/// How long a greeting may take.
const GREETING: Duration = Duration::from_secs(10);
/// Connections taken before the clients that are there have their turn.
const CONNECTIONS_A_TURN: usize = 64;
/// How long nobody is let in where there is no descriptor even to refuse somebody.
const PAUSE: Duration = Duration::from_millis(100);

/// Where new connections come in.
#[derive(Debug)]
pub(super) struct Door {
    next_session: u64,
    /// Connections without a greeting, in order of their coming, and when they came.
    silent: VecDeque<(u64, Instant)>,
    /// Given up for a moment, to accept somebody who can't be served and say so.
    spare: Option<OwnedFd>,
    /// The listener is not looked at until then.
    closed_until: Option<Instant>,
}

impl Door {
    pub(super) fn new() -> Door {
        Door { next_session: FIRST_SESSION, silent: VecDeque::new(), spare: spare(), closed_until: None }
    }

    /// Whether the listener is looked at.
    pub(super) fn is_open(&self) -> bool {
        self.closed_until.is_none()
    }

    /// Session `id` has greeted, or is gone.
    pub(super) fn left(&mut self, id: u64) {
        self.silent.retain(|(silent, _)| *silent != id);
    }

    /// How long from `now` until there is something to be done here.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let greeting = self.silent.front().map(|(_, came)| *came + GREETING);
        let at = [greeting, self.closed_until].into_iter().flatten().min()?;
        Some(at.saturating_duration_since(now))
    }

    /// The oldest connection whose greeting should have come before `now`.
    fn late(&self, now: Instant) -> Option<u64> {
        self.silent.front().filter(|(_, came)| now >= *came + GREETING).map(|(id, _)| *id)
    }

    /// The oldest connection without a greeting, if there are as many as may be.
    fn crowded(&self) -> Option<u64> {
        self.silent.front().filter(|_| self.silent.len() >= MAX_SILENT).map(|(id, _)| *id)
    }
}

impl Server {
    /// Takes new connections, as far as it is their turn.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn accept(&mut self, buffer: &mut Buffer) -> Result<()> {
        for _ in 0..CONNECTIONS_A_TURN {
            match self.listener.accept() {
                Ok(Some(socket)) => self.admit(socket, buffer),
                Ok(None) => return Ok(()),
                Err(e) => {
                    tracing::warn!(target: "clio::node", error = %e, "a client can't be accepted");
                    if !self.refuse_one(buffer) {
                        epoll::delete(&self.shared.epoll, &self.listener).map_err(|e| failed("epoll", e))?;
                        self.door.closed_until = Some(Instant::now() + PAUSE);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends connections that should have greeted by now, and listens again after a pause.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn keep_door(&mut self) -> Result<()> {
        let now = Instant::now();
        while let Some(id) = self.door.late(now) {
            self.end(id, &SessionEnd::Failed(Error::new(Errno::ETIMEDOUT, "connect", "no greeting came")));
        }
        if self.door.closed_until.is_some_and(|until| now >= until) {
            self.door.closed_until = None;
            self.door.spare = self.door.spare.take().or_else(spare);
            watch(&self.shared.epoll, &self.listener, LISTENER)?;
        }
        Ok(())
    }

    /// Descriptors are short: the next one that waits is told so, by the spare one. False if that can't be.
    fn refuse_one(&mut self, buffer: &mut Buffer) -> bool {
        let Some(given_up) = self.door.spare.take() else { return false };
        drop(given_up);
        let accepted = self.listener.accept();
        let is_done = accepted.is_ok();
        if let Ok(Some(socket)) = accepted {
            let why = "the daemon has no descriptor left for another client; raise its limit on open files";
            turn_away(&socket, &Error::new(Errno::EUSERS, "connect", why), buffer);
        }
        self.door.spare = spare();
        is_done && self.door.spare.is_some()
    }

    /// A new client; a stranger, or one too many, is told so.
    fn admit(&mut self, socket: Socket, buffer: &mut Buffer) {
        let greeted = self.sessions.len() - self.door.silent.len();
        let refused = match socket.peer().and_then(|peer| Ok((peer, peer_groups(&socket)?))) {
            Ok((peer, _)) if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() => {
                Error::new(Errno::EACCES, "connect", "this store is another user's")
            }
            Ok(_) if greeted >= MAX_CLIENTS => {
                Error::new(Errno::EUSERS, "connect", format!("{MAX_CLIENTS} clients are served already"))
            }
            Ok((peer, groups)) => {
                self.make_room(buffer);
                let id = self.door.next_session;
                self.door.next_session += 1;
                let session = Session::new(id, socket, peer, groups, self.shared.clone());
                match watch(&self.shared.epoll, &session.socket, id) {
                    Ok(()) => {
                        self.processes.watch(&self.shared.epoll, id, peer.pid);
                        self.shared.clients.fetch_add(1, Ordering::Relaxed);
                        self.sessions.insert(id, session);
                        self.door.silent.push_back((id, Instant::now()));
                    }
                    Err(e) => tracing::warn!(target: "clio::node", error = %e, "a client can't be watched"),
                }
                return;
            }
            Err(e) => e,
        };
        turn_away(&socket, &refused, buffer);
    }

    /// Makes room for another connection without a greeting: the oldest one goes, unless it has greeted and was not heard yet.
    fn make_room(&mut self, buffer: &mut Buffer) {
        let Some(oldest) = self.door.crowded() else { return };
        self.serve(oldest, EventFlags::IN, buffer);
        if self.door.crowded() == Some(oldest) {
            let why = "too many others have connected, and no greeting came";
            self.end(oldest, &SessionEnd::Failed(Error::new(Errno::EUSERS, "connect", why)));
        }
    }
}

/// Tells who has connected why it isn't served. What it has said by now is taken: unread, it would be an error to it, which
/// it would meet first.
fn turn_away(socket: &Socket, why: &Error, buffer: &mut Buffer) {
    refuse(socket, why);
    socket.stop_receiving();
    while matches!(socket.receive(buffer, false), Ok(Some(_))) {}
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_without_a_greeting_have_a_deadline_each() {
        let mut door = Door::new();
        let start = Instant::now();
        assert_eq!((door.due(start), door.late(start + GREETING)), (None, None));
        door.silent.extend([(2, start), (3, start + GREETING / 2)]);
        assert_eq!((door.due(start), door.late(start + GREETING / 2)), (Some(GREETING), None));
        assert_eq!(door.late(start + GREETING), Some(2));
        door.left(2);
        assert_eq!((door.late(start + GREETING), door.due(start + GREETING)), (None, Some(GREETING / 2)));
        door.closed_until = Some(start + GREETING);
        assert_eq!(door.due(start), Some(GREETING), "it opens before the other one is late");
    }
}
