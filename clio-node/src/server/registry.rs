//! Which clients a daemon has, on disk, so that the next one knows whom to wait for if this one dies.
//!
//! A file for each client, named by its token, with its process in it: number and time of start, by which a later process
//! of the same number is told from it. A client that goes, or is left without locks by a daemon that ends in order, has no
//! file.

use clio_core::{Error, Result};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The clients of this daemon.
#[derive(Debug)]
pub(super) struct Registry {
    folder: PathBuf,
    /// Sessions of each client: one may come back before its former session has ended.
    sessions: HashMap<u64, u32>,
}

/// A client of an earlier daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) token: u64,
    pid: u32,
    started: u64,
}

impl Known {
    /// Whether its process is still there.
    pub(super) fn is_alive(&self) -> bool {
        start_of(self.pid) == Some(self.started)
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
    pub(super) fn add(&mut self, token: u64, pid: u32) {
        *self.sessions.entry(token).or_insert(0) += 1;
        let noted = start_of(pid).map(|started| fs::write(self.file(token), format!("{pid} {started}")));
        if let Some(Err(e)) = noted {
            tracing::warn!(target: "clio::node", pid, error = %e, "a client can't be noted");
        }
    }

    /// A session of a client has ended. Whether it was the last one, and the client is forgotten.
    pub(super) fn remove(&mut self, token: u64) -> bool {
        let Some(count) = self.sessions.get_mut(&token) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.sessions.remove(&token);
            self.forget(token);
        }
        is_last
    }

    /// A client of an earlier daemon doesn't come back.
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
    let (pid, started) = text.split_once(' ')?;
    Some(Known { token, pid: pid.parse().ok()?, started: started.parse().ok()? })
}

/// When process `pid` started, in ticks since the machine did; `None` without such a process.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the program's name, which may hold anything, and ends with the last parenthesis; the state is the third field.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    if is_dead { None } else { fields.get(19)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_daemon_knows_who_lives() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (mut registry, left) = Registry::open(&socket).unwrap();
        assert!(left.is_empty());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        for (token, pid) in [(1, std::process::id()), (2, child.id()), (3, child.id())] {
            registry.add(token, pid);
        }
        registry.add(1, std::process::id());
        assert!(registry.remove(3) && !registry.remove(1) && !registry.remove(7));
        fs::write(registry.file(8), "half").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let (next, mut left) = Registry::open(&socket).unwrap();
        left.sort_by_key(|k| k.token);
        assert_eq!(left.iter().map(|k| (k.token, k.is_alive())).collect::<Vec<_>>(), [(1, true), (2, false)]);
        next.forget(2);
        assert_eq!(Registry::open(&socket).unwrap().1.len(), 1);
    }
}
