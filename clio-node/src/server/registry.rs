//! Which clients a daemon has, on disk, so that the next one knows whom to wait for if this one dies.
//!
//! A file for each client, named by its token, with its process in it: number and time of start, by which a later process
//! of the same number is told from it. A client that a daemon which ends in order leaves without locks is *idle*; one whose
//! locks have been taken away, as the connection was cut or it came too late, is *lost*. Neither is waited for, but what it
//! may come back for is kept for as long as its process lives.

use clio_core::{Error, Result};
use rustix::io::Errno as Os;
use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The clients of this daemon.
#[derive(Debug)]
pub(super) struct Registry {
    folder: PathBuf,
    /// The sessions of each client, one or more: it may come back before its former session has ended.
    sessions: HashMap<u64, (Known, u32)>,
}

/// A client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) token: u64,
    pid: u32,
    started: u64,
    pub(super) standing: Standing,
}

/// How a client stands to the daemon that it may come back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It may hold locks, and takes them up.
    Holder,
    /// It holds no locks.
    Idle,
    /// It has lost its locks, and doesn't know.
    Lost,
}

impl Standing {
    const ALL: [(Standing, &'static str); 3] =
        [(Standing::Holder, "holder"), (Standing::Idle, "idle"), (Standing::Lost, "lost")];
}

impl Known {
    /// Client `token` of process `pid`, as it is now. It may hold locks.
    pub(super) fn of(token: u64, pid: u32) -> Known {
        Known { token, pid, started: start_of(pid).ok().flatten().unwrap_or(0), standing: Standing::Holder }
    }

    /// The same client, as it stands now.
    pub(super) fn standing(self, standing: Standing) -> Known {
        Known { standing, ..self }
    }

    /// Whether it is of the same process as `other`. Where its start isn't known (descriptors are short), the number counts.
    pub(super) fn is_of_process_of(&self, other: &Known) -> bool {
        self.pid == other.pid && (self.started == other.started || self.started == 0 || other.started == 0)
    }

    /// Whether its process is still there, for all that can be told.
    pub(super) fn is_alive(&self) -> bool {
        self.is_alive_by(start_of(self.pid))
    }

    /// The same, where `start` is what could be learned of the process that has its number now.
    fn is_alive_by(&self, start: io::Result<Option<u64>>) -> bool {
        match start {
            Ok(Some(start)) => self.started == 0 || self.started == start,
            Ok(None) => false,
            // Descriptors may be short: it must not lose its locks for that.
            Err(_) => true,
        }
    }
}

impl Registry {
    /// The registry beside the socket at `socket`, and what an earlier daemon has left in it.
    ///
    /// # Errors
    /// What the system says of its folder.
    pub(super) fn open(socket: &Path) -> Result<(Registry, Vec<Known>)> {
        let mut folder = socket.as_os_str().to_os_string();
        folder.push(".clients");
        let folder = PathBuf::from(folder);
        let at = |e| Error::from_io("serve", e).at(folder.display().to_string());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(at)?;
        let mut left = Vec::new();
        for entry in fs::read_dir(&folder).map_err(at)? {
            let path = entry.map_err(at)?.path();
            match known(&path) {
                Some(known) => left.push(known),
                // Its greeting was not answered when the daemon died.
                None => drop(fs::remove_file(&path)),
            }
        }
        Ok((Registry { folder, sessions: HashMap::new() }, left))
    }

    /// A client comes. Where it can't be noted, it is not waited for when this daemon dies: it loses its locks then.
    pub(super) fn add(&mut self, known: Known) {
        self.sessions.entry(known.token).or_insert((known, 0)).1 += 1;
        self.note(&known);
    }

    /// A client that has a session.
    pub(super) fn get(&self, token: u64) -> Option<&Known> {
        self.sessions.get(&token).map(|(known, _)| known)
    }

    /// A session of a client has ended. The client, if it was its last one.
    pub(super) fn remove(&mut self, token: u64) -> Option<Known> {
        let (known, count) = self.sessions.get_mut(&token)?;
        let known = *known;
        *count -= 1;
        (*count == 0).then(|| self.sessions.remove(&token)).map(|_| known)
    }

    /// What is known of a client.
    pub(super) fn note(&self, known: &Known) {
        let Known { token, pid, started, standing } = known;
        let word = Standing::ALL.iter().find(|(s, _)| s == standing).map_or("", |(_, word)| word);
        let text = format!("{pid} {started} {word}");
        // In one step: a daemon that is killed in between must not leave half of it.
        let new = self.folder.join("new");
        if let Err(e) = fs::write(&new, text).and_then(|()| fs::rename(&new, self.file(*token))) {
            tracing::warn!(target: "clio::node", pid, error = %e, "a client can't be noted");
        }
    }

    /// A client doesn't come back.
    pub(super) fn forget(&self, token: u64) {
        let _ = fs::remove_file(self.file(token));
    }

    fn file(&self, token: u64) -> PathBuf {
        self.folder.join(format!("{token:016x}"))
    }
}

fn known(path: &Path) -> Option<Known> {
    let token = u64::from_str_radix(path.file_name()?.to_str()?, 16).ok()?;
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split(' ');
    let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let word = words.next()?;
    let (standing, _) = Standing::ALL.into_iter().find(|(_, w)| *w == word)?;
    Some(Known { token, pid, started, standing })
}

/// When process `pid` started, in ticks since the machine did; `None` without such a process.
fn start_of(pid: u32) -> io::Result<Option<u64>> {
    start_in(fs::read_to_string(format!("/proc/{pid}/stat")))
}

/// As [`start_of`], of what the system has to say of the process, if anything.
fn start_in(stat: io::Result<String>) -> io::Result<Option<u64>> {
    match stat {
        Ok(stat) => Ok(start_field(&stat)),
        // It may go while it is asked about.
        Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(Os::SRCH.raw_os_error()) => Ok(None),
        Err(e) => Err(e),
    }
}

fn start_field(stat: &str) -> Option<u64> {
    // After the program's name, which may hold anything, and ends with the last parenthesis; the state is the third field.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    if is_dead { None } else { fields.get(19)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_cant_be_asked_about_is_not_taken_for_dead() {
        let of = |errno: Os| start_in(Err(errno.into()));
        let known = Known { started: 5, ..Known::of(1, std::process::id()) };
        for (errno, is_alive) in [(Os::NOENT, false), (Os::SRCH, false), (Os::MFILE, true), (Os::NOMEM, true)] {
            assert_eq!(known.is_alive_by(of(errno)), is_alive, "{errno:?}");
        }
        assert!(known.is_alive_by(Ok(Some(5))) && !known.is_alive_by(Ok(Some(6))), "another one has its number");
        let unknown = Known { started: 0, ..known };
        assert!(unknown.is_alive_by(Ok(Some(6))) && !unknown.is_alive_by(Ok(None)));
        assert!(Known::of(1, std::process::id()).is_alive());
    }

    #[test]
    fn the_next_daemon_knows_who_lives() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (mut registry, left) = Registry::open(&socket).unwrap();
        assert!(left.is_empty());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        for (token, pid) in [(1, std::process::id()), (2, child.id()), (3, child.id())] {
            registry.add(Known::of(token, pid));
        }
        registry.add(Known::of(1, std::process::id()));
        let gone = registry.remove(3).unwrap();
        assert!(registry.remove(1).is_none() && registry.remove(7).is_none());
        registry.note(&gone.standing(Standing::Idle));
        fs::write(registry.file(8), "half").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let (next, mut left) = Registry::open(&socket).unwrap();
        left.sort_by_key(|k| k.token);
        let left: Vec<_> = left.iter().map(|k| (k.token, k.is_alive(), k.standing)).collect();
        assert_eq!(left, [(1, true, Standing::Holder), (2, false, Standing::Holder), (3, false, Standing::Idle)]);
        next.forget(2);
        assert_eq!(Registry::open(&socket).unwrap().1.len(), 2);
    }
}
