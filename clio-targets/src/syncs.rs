//! Making files durable: the only place of this crate that does, so that its tests see it done, and have it fail.

use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Writes a file's data to its medium, with what is needed to read it.
pub(crate) fn data(file: &File) -> io::Result<()> {
    told(file.as_fd())?;
    file.sync_data()
}

/// Writes a file's data and attributes to its medium.
pub(crate) fn all(file: &File) -> io::Result<()> {
    told(file.as_fd())?;
    file.sync_all()
}

/// Writes the names in a folder to its medium.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    all(&File::open(path)?)
}

/// Writes everything of the file system that `fd` is on to its medium.
pub(crate) fn file_system(fd: BorrowedFd<'_>) -> io::Result<()> {
    told(fd)?;
    sys::sync_fs(fd)
}

#[cfg(not(test))]
fn told(_: BorrowedFd<'_>) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use watch::told;
#[cfg(test)]
pub(crate) use watch::watch;

#[cfg(test)]
mod watch {
    use super::{BorrowedFd, Path, io};
    use std::cell::RefCell;
    use std::os::fd::AsRawFd;

    /// What is called before each sync, with the path of what is synced.
    type Hook = Box<dyn FnMut(&Path) -> io::Result<()>>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Has `hook` called before each sync that this thread does, until it gives another; its error is the sync's.
    pub(crate) fn watch(hook: impl FnMut(&Path) -> io::Result<()> + 'static) {
        HOOK.set(Some(Box::new(hook)));
    }

    pub(super) fn told(fd: BorrowedFd<'_>) -> io::Result<()> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        HOOK.with_borrow_mut(|hook| hook.as_mut().map_or(Ok(()), |hook| hook(&path)))
    }
}
