//! A file's attributes in JSON and in the form of `ls -l`.

use super::JsonName;
use clio::{FileType, Metadata};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What `ls` and `stat` tell programs about a file.
#[derive(Serialize, Clone, Debug)]
pub(crate) struct FileRecord {
    #[serde(flatten)]
    name: JsonName,
    r#type: &'static str,
    fid: String,
    /// Permission bits in octal.
    mode: String,
    nlink: u32,
    uid: u32,
    gid: u32,
    /// Bytes of data; of a folder its number of entries.
    size: u64,
    allocated_bytes: u64,
    atime_ns: u64,
    mtime_ns: u64,
    ctime_ns: u64,
    /// What a symbolic link points at.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<JsonName>,
}

impl FileRecord {
    pub(crate) fn new(path: &Path, m: &Metadata, target: Option<&PathBuf>) -> Self {
        Self {
            name: JsonName::new(path),
            r#type: type_name(m.file_type()),
            fid: m.fid().to_string(),
            mode: format!("{:04o}", m.mode() & 0o7777),
            nlink: m.nlink(),
            uid: m.uid(),
            gid: m.gid(),
            size: m.len(),
            allocated_bytes: m.blocks() * 512,
            atime_ns: m.atime_ns(),
            mtime_ns: m.mtime_ns(),
            ctime_ns: m.ctime_ns(),
            target: target.map(JsonName::new),
        }
    }

    /// What kind of file it is, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        self.r#type
    }
}

fn type_name(t: FileType) -> &'static str {
    match t {
        FileType::File => "file",
        FileType::Dir => "directory",
        FileType::Symlink => "symlink",
    }
}

/// Type and permissions as `ls -l` shows them: `drwxr-x--t`.
pub(crate) fn mode_text(file_type: FileType, mode: u32) -> String {
    let kind = match file_type {
        FileType::File => '-',
        FileType::Dir => 'd',
        FileType::Symlink => 'l',
    };
    let bit = |b: u32, c: char| if mode & b != 0 { c } else { '-' };
    let exec = |x: u32, special: u32, both: char, alone: char| match (mode & x != 0, mode & special != 0) {
        (true, true) => both,
        (false, true) => alone,
        (true, false) => 'x',
        (false, false) => '-',
    };
    let user = [bit(0o400, 'r'), bit(0o200, 'w'), exec(0o100, 0o4000, 's', 'S')];
    let group = [bit(0o040, 'r'), bit(0o020, 'w'), exec(0o010, 0o2000, 's', 'S')];
    let other = [bit(0o004, 'r'), bit(0o002, 'w'), exec(0o001, 0o1000, 't', 'T')];
    std::iter::once(kind).chain(user).chain(group).chain(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        assert_eq!(mode_text(FileType::File, 0o644), "-rw-r--r--");
        assert_eq!(mode_text(FileType::Dir, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_text(FileType::Symlink, 0o777), "lrwxrwxrwx");
        assert_eq!(mode_text(FileType::File, 0o6750), "-rwsr-s---");
        assert_eq!(mode_text(FileType::File, 0o7000), "---S--S--T");
    }
}
