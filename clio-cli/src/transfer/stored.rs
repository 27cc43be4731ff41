//! The store, as a place.

use super::place::{Info, Kind, Place, Sink, Source};
use clio::{Client, Errno, File, FileType, Metadata, OpenOptions, Result};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

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
        Ok(Box::new(StoredSink(self.0.open_with(path, options)?)))
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

struct StoredSink(File);

impl Sink for StoredSink {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn finish(self: Box<Self>, size: u64) -> Result<()> {
        let outcome = self.size_and_sync(size);
        // Closed in any case, and the first error counts.
        outcome.and(self.0.close())
    }

    fn abandon(self: Box<Self>) {
        // The failure that led here has been reported; another one of the same file adds nothing.
        let _ = self.0.close();
    }
}

impl StoredSink {
    fn size_and_sync(&self, size: u64) -> Result<()> {
        if self.0.metadata()?.len() != size {
            self.0.set_len(size)?;
        }
        self.0.sync_all()
    }
}
