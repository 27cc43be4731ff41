//! The local file system.

use super::place::{Info, Kind, Place, Sink, Source, UNKNOWN_END};
use clio::{Errno, Error, Result};
use rustix::fs::SeekFrom;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The local file system.
#[derive(Debug)]
pub(crate) struct Local;

fn fail(op: &'static str) -> impl Fn(io::Error) -> Error {
    move |e| match e.raw_os_error() {
        // Without the number, which the errno's name says already.
        Some(raw) => Error::new(Errno::from_raw(raw), op, text_of(&e)).with_cause(e),
        None => Error::from_io(op, e),
    }
}

fn text_of(e: &io::Error) -> String {
    let text = e.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let text = &text[..end];
    text.chars().take(1).flat_map(char::to_lowercase).chain(text.chars().skip(1)).collect()
}

impl Place for Local {
    fn info(&self, path: &Path, follow: bool) -> Result<Info> {
        let meta = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) }.map_err(fail("stat"))?;
        let kind = match meta.file_type() {
            t if t.is_file() => Kind::File,
            t if t.is_dir() => Kind::Dir,
            t if t.is_symlink() => Kind::Symlink,
            _ => Kind::Special,
        };
        // Times before 1970 become 1970: a store has no others.
        let mtime_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        let mtime_ns = u64::try_from(mtime_ns.max(0)).unwrap_or(u64::MAX);
        Ok(Info { kind, size: meta.len(), mode: meta.mode() & 0o7777, mtime_ns })
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>> {
        let entries = fs::read_dir(path).map_err(fail("list"))?;
        let names: io::Result<Vec<_>> = entries.map(|e| e.map(|e| e.file_name())).collect();
        let mut names = names.map_err(fail("list"))?;
        names.sort();
        Ok(names)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf> {
        fs::read_link(path).map_err(fail("readlink"))
    }

    fn make_dir(&self, path: &Path) -> Result<()> {
        match fs::create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other.map_err(fail("mkdir")),
        }
    }

    fn make_link(&self, target: &Path, path: &Path) -> Result<()> {
        match fs::symlink_metadata(path) {
            Ok(m) if !m.is_dir() => fs::remove_file(path).map_err(fail("unlink"))?,
            _ => {}
        }
        std::os::unix::fs::symlink(target, path).map_err(fail("symlink"))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        let file = File::open(path).map_err(fail("open"))?;
        // Folders can be opened, but not read: too late, when the file in the destination's place has been cut.
        if file.metadata().map_err(fail("stat"))?.is_dir() {
            return Err(Error::new(Errno::EISDIR, "open", "it is a folder by now"));
        }
        Ok(Box::new(LocalSource(file)))
    }

    fn create(&self, path: &Path, mode: u32) -> Result<Box<dyn Sink>> {
        let mut options = OpenOptions::new();
        // Nobody else reads the file before it has its own mode.
        let file = options.write(true).create(true).truncate(true).mode(mode & 0o700 | 0o600).open(path);
        Ok(Box::new(LocalSink(file.map_err(fail("open"))?)))
    }

    fn set_info(&self, path: &Path, info: &Info) -> Result<()> {
        // A device or pipe that took the data keeps its own.
        match fs::metadata(path) {
            Ok(m) if m.is_file() || m.is_dir() => {}
            _ => return Ok(()),
        }
        let file = File::open(path).map_err(fail("open"))?;
        let mtime = SystemTime::UNIX_EPOCH + Duration::from_nanos(info.mtime_ns);
        file.set_modified(mtime).map_err(fail("set times"))?;
        // Set-id bits mean the owner in the store: they must not come to mean the one who fetches.
        file.set_permissions(Permissions::from_mode(info.mode & 0o1777)).map_err(fail("chmod"))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

struct LocalSource(File);

impl Source for LocalSource {
    fn size(&self) -> Result<u64> {
        Ok(self.0.metadata().map_err(fail("stat"))?.len())
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>> {
        // Files of /proc have no size, but data.
        if self.size()? == 0 {
            return Ok((offset == 0).then_some(0..UNKNOWN_END));
        }
        match rustix::fs::seek(&self.0, SeekFrom::Data(offset)) {
            Ok(start) => match rustix::fs::seek(&self.0, SeekFrom::Hole(start)) {
                Ok(end) => Ok(Some(start..end)),
                Err(_) => Ok(Some(start..UNKNOWN_END)),
            },
            Err(rustix::io::Errno::NXIO) => Ok(None),
            // A file system that knows no holes.
            Err(_) => Ok(Some(offset..UNKNOWN_END)),
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        loop {
            match self.0.read_at(buf, offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map_err(fail("read")),
            }
        }
    }
}

struct LocalSink(File);

impl Sink for LocalSink {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.0.write_all_at(buf, offset).map_err(fail("write"))
    }

    fn finish(self: Box<Self>, size: u64) -> Result<()> {
        // Only what can have a size: the destination may be a pipe or device.
        match self.0.metadata() {
            Ok(m) if m.is_file() && m.len() != size => self.0.set_len(size).map_err(fail("truncate")),
            _ => Ok(()),
        }
    }

    fn abandon(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences_without_numbers() {
        let e = fail("open")(io::Error::from_raw_os_error(2));
        assert_eq!((e.errno(), e.detail()), (Errno::ENOENT, "no such file or directory"));
    }

    #[test]
    fn holes_are_told_from_data() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(b"x", 4 << 20).unwrap();
        let source = LocalSource(file);
        let range = source.data_after(0).unwrap().unwrap();
        assert!(range.contains(&(4 << 20)));
        let size = source.size().unwrap();
        assert!(source.data_after(size).unwrap().is_none_or(|r| r.end == UNKNOWN_END));
    }
}
