//! The store, as a place.

use super::place::{Info, Kind, Place, Sink, Source};
use crate::log::say;
use clio::{Client, Errno, File, FileType, Metadata, OpenOptions, Result};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The store. Files written here are durable when [`Sink::finish`] returns.
#[derive(Debug)]
pub(crate) struct Stored(pub(crate) Client);

fn info_of(m: &Metadata) -> Info {
    let kind = match m.file_type() {
        FileType::File => Kind::File,
        FileType::Dir => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
    };
    Info { kind, size: m.len(), mode: m.mode() & 0o7777, mtime_ns: m.mtime_ns() }
}

impl Place for Stored {
    fn info(&self, path: &Path, follow: bool) -> Result<Info> {
        let meta = if follow { self.0.metadata(path) } else { self.0.symlink_metadata(path) };
        meta.map(|m| info_of(&m))
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>> {
        Ok(self.0.read_dir(path)?.iter().map(clio::DirEntry::file_name).collect())
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf> {
        self.0.read_link(path)
    }

    fn make_dir(&self, path: &Path) -> Result<()> {
        match self.0.mkdir(path) {
            Err(e) if e.errno() == Errno::EEXIST && self.0.metadata(path).is_ok_and(|m| m.is_dir()) => Ok(()),
            other => other,
        }
    }

    fn make_link(&self, target: &Path, path: &Path) -> Result<()> {
        match self.0.symlink_metadata(path) {
            Ok(m) if !m.is_dir() => self.0.remove_file(path)?,
            _ => {}
        }
        self.0.symlink(target, path)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        Ok(Box::new(StoredSource(self.0.open_file(path)?)))
    }

    fn create(&self, path: &Path, mode: u32) -> Result<Box<dyn Sink>> {
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(mode);
        let is_new = matches!(self.0.identity(path), Err(e) if e.errno() == Errno::ENOENT);
        let file = self.0.open_with(path, options)?;
        let broken = AtomicBool::new(false);
        Ok(Box::new(StoredSink { client: self.0.clone(), path: path.to_owned(), is_new, file, broken }))
    }

    fn set_info(&self, path: &Path, info: &Info) -> Result<()> {
        self.0.set_mode(path, info.mode)?;
        self.0.set_times(path, None, Some(info.mtime_ns))
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}

struct StoredSource(File);

impl Source for StoredSource {
    fn size(&self) -> Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>> {
        match self.0.seek_data(offset) {
            Ok(start) => Ok(Some(start..self.0.seek_hole(start)?)),
            Err(e) if e.errno() == Errno::ENXIO => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buf, offset)
    }
}

struct StoredSink {
    client: Client,
    path: PathBuf,
    /// There was nothing of its name.
    is_new: bool,
    file: File,
    /// The store didn't take all that it was given.
    broken: AtomicBool,
}

impl Sink for StoredSink {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(buf, offset).inspect_err(|_| self.broken.store(true, Ordering::Relaxed))
    }

    fn finish(self: Box<Self>, size: u64) -> Result<()> {
        // Closed in any case, and the first error counts.
        let outcome = self.size_and_sync(size);
        let Self { client, path, is_new, file, .. } = *self;
        let outcome = outcome.and(file.close());
        if outcome.is_err() {
            undo(&client, &path, is_new);
        }
        outcome
    }

    fn abandon(self: Box<Self>) {
        // The failure that led here has been reported; another one of the same file adds nothing. If it is the source's, all
        // that was written is a part of it, and stays.
        let Self { client, path, is_new, file, broken } = *self;
        let synced = file.sync_all().and(file.close());
        if synced.is_err() || broken.into_inner() {
            undo(&client, &path, is_new);
        }
    }
}

impl StoredSink {
    fn size_and_sync(&self, size: u64) -> Result<()> {
        if self.file.metadata()?.len() != size {
            self.file.set_len(size)?;
        }
        self.file.sync_all()
    }
}

/// Some of what was written is lost, and would read as zeros in the middle of the rest: nothing of it stays.
fn undo(client: &Client, path: &Path, is_new: bool) {
    let undone = match is_new {
        true => client.remove_file(path),
        false => client.open_with(path, OpenOptions::new().write(true).truncate(true)).map(drop),
    };
    if let Err(e) = undone {
        say(format_args!("clio: note: '{}' stays, as an incomplete copy: {}", path.display(), e.detail()));
    }
}
