//! What a transfer needs of a place that it reads from or writes to.

use clio::Result;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What kind of file something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    File,
    Dir,
    Symlink,
    /// A device, socket or pipe.
    Special,
}

/// What a transfer keeps of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Info {
    pub(crate) kind: Kind,
    /// Bytes.
    pub(crate) size: u64,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Last change, nanoseconds since 1970.
    pub(crate) mtime_ns: u64,
}

/// The end of a range of data whose end is not known: read until nothing comes.
pub(crate) const UNKNOWN_END: u64 = u64::MAX;

/// An open file to read from.
pub(crate) trait Source {
    /// Its size in bytes.
    fn size(&self) -> Result<u64>;
    /// The next range at or after `offset` that may hold data; the rest are holes. `None` if only holes follow.
    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>>;
    /// Reads at `offset`; 0 at the end of file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
}

/// An open file to write to.
pub(crate) trait Sink {
    /// Writes all of `buf` at `offset`.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()>;
    /// Gives the file its size, makes it durable if the place promises that, and closes it.
    fn finish(self: Box<Self>, size: u64) -> Result<()>;
    /// Closes the file after a failure. What was written stays, unless a part of it is lost.
    fn abandon(self: Box<Self>);
}

/// A file system.
pub(crate) trait Place: Sync {
    /// Attributes of `path`; of what it points at, if it is a symbolic link and `follow` is set.
    fn info(&self, path: &Path, follow: bool) -> Result<Info>;
    /// The names in a folder, in order.
    fn list(&self, path: &Path) -> Result<Vec<OsString>>;
    /// What a symbolic link points at.
    fn read_link(&self, path: &Path) -> Result<PathBuf>;
    /// Makes a folder; it is fine if there is one.
    fn make_dir(&self, path: &Path) -> Result<()>;
    /// Makes a symbolic link, in place of a file or link that is there.
    fn make_link(&self, target: &Path, path: &Path) -> Result<()>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> Result<Box<dyn Source>>;
    /// Makes a file, or cuts one to nothing.
    fn create(&self, path: &Path, mode: u32) -> Result<Box<dyn Sink>>;
    /// Sets permissions and the time of the last change.
    fn set_info(&self, path: &Path, info: &Info) -> Result<()>;
    /// Makes all names and attributes durable, if the place promises that.
    fn sync(&self) -> Result<()>;
}
