//! The lock on a store's folder: one process has the store open. Its file says which, so that others can be told what to do.

use clio_core::{Errno, Error, Result};
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Its file's name.
pub(super) const LOCK: &str = "lock";
/// How a daemon calls itself there.
const DAEMON: &str = "cliod";

/// Keeps other processes out of a store, as long as it lives.
#[derive(Debug)]
pub(crate) struct StoreLock(File);

/// Who has a store open, as the lock's file says. That is a help for people: the lock itself is what counts.
#[derive(PartialEq, Eq, Debug)]
enum Holder {
    /// It doesn't say.
    Unknown,
    /// A process has the store for itself.
    Process(u32),
    /// A daemon serves it, at the store's own place or at a socket that it was given.
    Daemon(u32, Option<PathBuf>),
}

impl StoreLock {
    /// Takes the lock of the store in the folder `path`.
    ///
    /// # Errors
    /// `EBUSY` if another process has it, with what to do about that; what the system says.
    pub(super) fn take(path: &Path) -> Result<StoreLock> {
        let fail = |e| Error::from_io("open", e);
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path.join(LOCK));
        let file = file.map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {
                let lock = StoreLock(file);
                lock.say(b"");
                Ok(lock)
            }
            Err(TryLockError::WouldBlock) => {
                Err(Error::new(Errno::EBUSY, "open", Holder::read(&file).what_to_do(path)))
            }
            Err(TryLockError::Error(e)) => Err(fail(e)),
        }
    }

    /// This process serves the store to others, at `socket` if that isn't the store's own place.
    pub(crate) fn is_served(&self, socket: Option<&Path>) {
        let socket = socket.map(|s| std::path::absolute(s).unwrap_or_else(|_| s.to_path_buf()));
        let socket = socket.map(|s| [b" ", s.as_os_str().as_bytes()].concat()).unwrap_or_default();
        self.say(&[DAEMON.as_bytes(), &socket, b"\n"].concat());
    }

    /// Writes this process and `more` into the file. On a full disk it says nothing, which is no reason to fail.
    fn say(&self, more: &[u8]) {
        let text = [format!("{}\n", std::process::id()).as_bytes(), more].concat();
        let _ = self.0.set_len(0).and_then(|()| self.0.write_all_at(&text, 0));
    }
}

impl Holder {
    fn read(file: &File) -> Holder {
        let mut text = Vec::new();
        match file.take(8192).read_to_end(&mut text) {
            Ok(_) => Self::parse(&text),
            Err(_) => Holder::Unknown,
        }
    }

    fn parse(text: &[u8]) -> Holder {
        let (pid, rest) = text.split_at(text.iter().position(|b| *b == b'\n').unwrap_or(text.len()));
        let Some(pid) = str::from_utf8(pid).ok().and_then(|pid| pid.parse().ok()) else { return Holder::Unknown };
        let Some(rest) = rest.strip_prefix(b"\n").and_then(|r| r.strip_prefix(DAEMON.as_bytes())) else {
            return Holder::Process(pid);
        };
        let socket = rest.strip_prefix(b" ").map(|s| s.strip_suffix(b"\n").unwrap_or(s));
        Holder::Daemon(pid, socket.map(|s| OsStr::from_bytes(s).into()))
    }

    /// What to tell whoever wants the store in the folder `path`.
    fn what_to_do(&self, path: &Path) -> String {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let who = match self {
            Holder::Daemon(pid, socket) => {
                let node = socket.as_ref().unwrap_or(&path).display();
                return format!(
                    "cliod (process {pid}) serves this store; use it as node:{node}, or end the daemon with \
                     'clio shutdown --store node:{node}'"
                );
            }
            Holder::Process(pid) => format!("another process ({pid})"),
            Holder::Unknown => "another process".into(),
        };
        format!(
            "{who} has this store open for itself; wait until that ends, or share the store through its daemon, cliod: \
             have all processes name it node:{} ('clio serve' runs cliod in the foreground)",
            path.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_tells_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let lock = StoreLock::take(folder.path()).unwrap();
        let said = || Holder::read(&File::open(folder.path().join(LOCK)).unwrap());
        let pid = std::process::id();
        assert_eq!(said(), Holder::Process(pid));
        lock.is_served(None);
        assert_eq!(said(), Holder::Daemon(pid, None));
        lock.is_served(Some(Path::new("/a b/socket")));
        assert_eq!(said(), Holder::Daemon(pid, Some("/a b/socket".into())));
        let e = StoreLock::take(folder.path()).unwrap_err();
        let says = [&format!("process {pid}"), "node:/a b/socket", "clio shutdown --store node:/a b/socket"];
        assert!(e.errno() == Errno::EBUSY && says.iter().all(|s| e.to_string().contains(s)), "{e}");
        drop(lock);
        // What an earlier holder said is gone.
        let _lock = StoreLock::take(folder.path()).unwrap();
        assert_eq!(said(), Holder::Process(pid));
    }

    #[test]
    fn a_file_that_says_nothing_names_nobody() {
        for text in [&b""[..], b"\n", b"cliod\n", b"12x\ncliod\n", b"\xff\n"] {
            assert_eq!(Holder::parse(text), Holder::Unknown, "{text:?}");
        }
        assert_eq!(Holder::parse(b"12"), Holder::Process(12));
        let text = Holder::Unknown.what_to_do(Path::new("/s"));
        assert!(
            text.starts_with("another process has") && text.contains("node:/s ") && text.contains("cliod"),
            "{text}"
        );
    }
}
