//! Attributes of files and entries of directories, for callers.

use clio_core::attr::Attr;
use clio_core::units::Fid;
use clio_namespace::{Inode, Kind};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, SystemTime};

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
}

impl From<Kind> for FileType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => FileType::File,
            Kind::Dir => FileType::Dir,
            Kind::Symlink => FileType::Symlink,
        }
    }
}

/// Attributes of a file, directory or symbolic link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata {
    inode: Inode,
    attr: Option<Attr>,
}

impl Metadata {
    /// `attr` is what the objects of a file say.
    pub(crate) fn new(inode: Inode, attr: Option<Attr>) -> Self {
        Self { inode, attr }
    }

    /// Identity.
    pub fn fid(&self) -> Fid {
        self.inode.fid
    }

    /// What it is.
    pub fn file_type(&self) -> FileType {
        self.inode.kind.into()
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.inode.kind == Kind::File
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.inode.kind == Kind::Dir
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.inode.kind == Kind::Symlink
    }

    /// Size in bytes: of a file's data, of a symbolic link's target; for a directory its number of entries.
    #[expect(clippy::len_without_is_empty, reason = "as std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        match self.inode.kind {
            Kind::File => self.attr.map_or(0, |a| a.size),
            Kind::Dir => self.inode.entries,
            Kind::Symlink => self.inode.target.len() as u64,
        }
    }

    /// Space in use, in 512-byte units.
    pub fn blocks(&self) -> u64 {
        self.attr.map_or(0, |a| a.blocks)
    }

    /// Permission bits.
    pub fn mode(&self) -> u32 {
        self.inode.mode
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.inode.uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.inode.gid
    }

    /// Number of names.
    pub fn nlink(&self) -> u32 {
        self.inode.nlink
    }

    /// Last change of data, nanoseconds since 1970. Data is stamped where it is kept; who set the time explicitly
    /// after the last write has the last word.
    pub fn mtime_ns(&self) -> u64 {
        match self.attr {
            Some(a) if a.ctime > self.inode.ctime => self.inode.mtime.max(a.mtime),
            _ => self.inode.mtime,
        }
    }

    /// Last read, nanoseconds since 1970.
    pub fn atime_ns(&self) -> u64 {
        self.attr.map_or(self.inode.atime, |a| self.inode.atime.max(a.atime))
    }

    /// Last change of attributes or data, nanoseconds since 1970.
    pub fn ctime_ns(&self) -> u64 {
        self.attr.map_or(self.inode.ctime, |a| self.inode.ctime.max(a.ctime))
    }

    /// Last change of data.
    pub fn modified(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.mtime_ns())
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    name: Vec<u8>,
    fid: Fid,
    kind: Kind,
}

impl DirEntry {
    pub(crate) fn new(entry: clio_namespace::DirEntry) -> Self {
        Self { name: entry.name, fid: entry.fid, kind: entry.kind }
    }

    /// Name within the directory.
    pub fn file_name(&self) -> OsString {
        OsString::from_vec(self.name.clone())
    }

    /// Name within the directory, borrowed.
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    /// Identity.
    pub fn fid(&self) -> Fid {
        self.fid
    }

    /// What it is.
    pub fn file_type(&self) -> FileType {
        self.kind.into()
    }
}
