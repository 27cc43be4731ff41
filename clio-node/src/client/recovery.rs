//! From one daemon to the next.
//!
//! When a daemon dies, its clients look for the next one at once, and one of them starts it. It knows whom it has to wait
//! for, and serves nobody else until they have taken up what they held: registrations with their grant, locks as they were
//! (nobody else can hold what conflicts), open files. What they had cached and made dirty is as good as before.
//!
//! A client that comes too late, or is cut off by a daemon that lives, finds its locks gone: that is an eviction to the
//! layers above. A daemon that ends in order has all locks given back first ([`Connection::daemon_stops`]); then its
//! clients wait until they need the next one.

use super::connection::Connection;
use super::dial::{PATIENCE, START};
use super::line::{Line, unexpected};
use super::link::Link;
use crate::wire::{Answer, NamesOp, Request, WireOp, WireReply};
use clio_core::{Errno, Error, Result};
use std::sync::{Arc, mpsc};

/// Daemons that are tried one after another before all is given up, where each dies at once.
const MAX_TRIES: u32 = 4;
/// Locks that are asked for at once.
const BATCH: usize = 1024;

impl Connection {
    /// A line to a daemon: the present one, or one to the next daemon. Blocks in that case.
    ///
    /// # Errors
    /// `EIO` if none can be reached.
    pub(super) fn line(&self) -> Result<Arc<Line>> {
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
    ///
    /// # Errors
    /// `ESHUTDOWN` if it has ended.
    pub(super) fn adopt(&self, line: &Arc<Line>) -> Result<()> {
        self.state.lock().line = Some(line.clone());
        if !line.has_ended() {
            self.state.lock().is_at_stake = false;
            return Ok(());
        }
        // Its end may have been told before it was the present one.
        self.state.lock().line = None;
        Err(gone_again())
    }

    /// `line` has ended: takes up with the next daemon what it stood for. Blocks. What can't be taken up is lost, and
    /// whoever relied on it is told.
    pub(crate) fn lost(&self, line: &Arc<Line>) {
        let links = self.links();
        let has_locks = links.iter().any(|link| link.has_locks());
        {
            let mut state = self.state.lock();
            // One that ends while it is set up is met by whoever does that.
            if !state.is_on(line) {
                return;
            }
            state.line = None;
            state.is_at_stake = has_locks;
        }
        if line.ends_in_order() && !has_locks {
            return;
        }
        let _change = self.changing.lock();
        if self.state.lock().line.is_some() {
            // Somebody else was faster.
            return;
        }
        if let Err(e) = self.reconnect() {
            tracing::warn!(target: "clio::node", error = %e, "what the daemon stood for is lost");
            self.state.lock().is_at_stake = false;
            links.iter().for_each(|link| link.lose());
        }
    }

    /// The daemon ends before long: what is dirty is written out, and locks are given back.
    pub(crate) fn daemon_stops(&self) {
        self.links().iter().for_each(|link| link.give_all_back());
    }

    fn links(&self) -> Vec<Arc<Link>> {
        self.state.lock().links.values().cloned().collect()
    }

    /// Finds or starts another daemon, and takes up there what this client had. The caller holds the mutex.
    fn reconnect(&self) -> Result<Arc<Line>> {
        for _ in 1..MAX_TRIES {
            match self.try_reconnect() {
                Err(e) if e.errno() == Errno::ESHUTDOWN => {}
                done => return done,
            }
        }
        self.try_reconnect()
    }

    fn try_reconnect(&self) -> Result<Arc<Line>> {
        let patience = match (self.state.lock().is_at_stake, &self.place.starter) {
            (true, _) => Some(PATIENCE),
            (false, Some(_)) => Some(START),
            (false, None) => None,
        };
        let greeted = self.place.dial(self.token, 0, self.arena.fd(), patience)?;
        if greeted.targets != self.targets {
            let why = format!("the store has {} targets now, and had {}", greeted.targets, self.targets);
            return Err(Error::new(Errno::ESTALE, "connect", why));
        }
        let line = Line::start(greeted.socket, greeted.buffer, self.this.clone())?;
        let restored = self.restore(&line, greeted.is_awaited).and_then(|()| self.adopt(&line));
        restored.map_err(|e| if line.has_ended() { gone_again() } else { e }).inspect_err(|_| line.hang_up())?;
        tracing::info!(target: "clio::node", "connected to another daemon");
        Ok(line)
    }

    fn restore(&self, line: &Arc<Line>, is_awaited: bool) -> Result<()> {
        for link in self.links() {
            // Without locks there may be grant, which this daemon has given to others.
            if !is_awaited && (link.has_locks() || link.grant() > 0) {
                link.lose();
            }
            if !take_up(line, &link)? {
                link.lose();
                take_up(line, &link)?;
            }
        }
        let files = self.state.lock().files.clone();
        for (fid, count) in files {
            for _ in 0..count {
                match line.call(Request::Names(NamesOp::OpenRef(fid.to_bytes()))) {
                    // It had no name any more, and went with the last one that knew of its being open.
                    Err(e) if e.errno() == Errno::ENOENT && !line.has_ended() => {
                        self.state.lock().files.remove(&fid);
                        break;
                    }
                    opened => drop(opened?),
                }
            }
        }
        if is_awaited {
            line.call(Request::Recovered)?;
        }
        Ok(())
    }
}

/// Registers `link` with the daemon of `line`, and asks for the locks that it holds. False if one of them can't be had:
/// then the registration is undone.
fn take_up(line: &Arc<Line>, link: &Arc<Link>) -> Result<bool> {
    let target = link.target.0;
    line.link(Request::Resume { target, grant: link.grant() }, link)?;
    let client = link.remote();
    for batch in link.to_replay().chunks(BATCH) {
        let (tx, rx) = mpsc::channel();
        for (known, op) in batch {
            let (tx, link, known) = (tx.clone(), link.clone(), *known);
            let replayed = move |result: Result<Answer>| {
                if let Ok(Answer::Target(WireReply::Granted { handle: Some(remote), .. })) = &result {
                    // Here, where no later message has been looked at yet: it may be a callback.
                    link.replayed(known, *remote);
                }
                let _ = tx.send(result);
            };
            line.ask(Request::Target { target, client, op: op.clone() }, Box::new(replayed));
        }
        drop(tx);
        for result in rx {
            match result {
                Ok(Answer::Target(WireReply::Granted { handle: Some(_), .. })) => {}
                Ok(answer) => return Err(unexpected(&answer)),
                Err(e) if line.has_ended() => return Err(e),
                Err(e) => {
                    tracing::warn!(target: "clio::node", target, error = %e, "a lock can't be taken up again");
                    line.unlink(link);
                    line.call(Request::Target { target, client, op: WireOp::Disconnect })?;
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn gone_again() -> Error {
    Error::new(Errno::ESHUTDOWN, "connect", "the daemon went away again")
}

/// What a program sees when no daemon can be reached. Its kind, `NotConnected`, says that asking at once again won't help.
fn unreachable(why: &Error) -> Error {
    let cause = std::io::Error::new(std::io::ErrorKind::NotConnected, why.clone());
    let text = format!("the store's daemon is gone, and none can be reached: {}", why.detail());
    Error::new(Errno::EIO, "node", text).with_cause(cause)
}
