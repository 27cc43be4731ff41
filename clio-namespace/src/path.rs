//! Walking paths: components, "..", symbolic links, limits.

use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_SYMLINKS_FOLLOWED};
use crate::namespace::Namespace;
use crate::record::{Inode, Kind};
use crate::records::Records;
use clio_core::units::Fid;
use clio_core::{Errno, Result};

/// The last component of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Last {
    /// A name, of an entry that exists or could be made.
    Name(Vec<u8>),
    /// ".".
    Dot,
    /// "..".
    DotDot,
    /// There is none: the path is all slashes.
    Root,
}

/// Where a path ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parent {
    /// The directory that holds, or would hold, the last component; for [`Last::Dot`] and the like the one meant.
    pub dir: Fid,
    /// The last component.
    pub last: Last,
    /// What it stands for, if it exists.
    pub found: Option<Inode>,
    /// Whether a slash follows it: then only a directory will do.
    pub slash: bool,
}

/// What happens to a symbolic link that is the last component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Final {
    /// Followed.
    Follow,
    /// Followed only if a slash comes after it.
    FollowBeforeSlash,
    /// Never followed: the name itself is meant.
    Entry,
}

/// The part of the path that is still to be walked. Following a link puts its target in front.
struct Rest {
    path: Vec<u8>,
    at: usize,
}

impl Rest {
    /// The next component, without slashes around it; `None` at the end.
    fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.path[self.at..];
        let start = rest.iter().position(|b| *b != b'/')?;
        let len = rest[start..].iter().position(|b| *b == b'/').unwrap_or(rest.len() - start);
        self.at += start + len;
        Some(rest[start..start + len].to_vec())
    }

    fn slash_follows(&self) -> bool {
        self.at < self.path.len()
    }

    fn has_more(&self) -> bool {
        self.path[self.at..].iter().any(|b| *b != b'/')
    }

    fn put_in_front(&mut self, target: &[u8]) {
        self.path = [target, &self.path[self.at..]].concat();
        self.at = 0;
    }
}

/// Walks `path`, from directory `base` unless it starts with a slash.
///
/// # Errors
/// `EACCES`: the caller may not search a directory on the way. `ENOENT`: empty, or a component but the last is missing. `ENOTDIR`: such a one is no directory.
/// `ENAMETOOLONG`: more than 4095 bytes, or a component of more than 255. `ELOOP`: more than 40 symbolic links.
/// `EINVAL`: a NUL byte.
pub(crate) fn walk(records: Records<'_>, base: Fid, path: &[u8], last: Final) -> Result<Parent> {
    if path.is_empty() {
        return Err(records.err(Errno::ENOENT, "the path is empty"));
    } else if path.len() > MAX_PATH_BYTES {
        return Err(records.err(Errno::ENAMETOOLONG, "the path is longer than 4095 bytes; use a shorter one"));
    } else if path.contains(&0) {
        return Err(records.err(Errno::EINVAL, "the path holds a NUL byte"));
    }
    // The superuser's way needs no inodes of directories: an entry tells the kind, and only a live directory has any.
    let mut dir = if path[0] == b'/' { Namespace::ROOT } else { base };
    let mut rest = Rest { path: path.to_vec(), at: 0 };
    let mut followed = 0;
    loop {
        let Some(name) = rest.next() else {
            return Ok(Parent { dir, last: Last::Root, found: Some(records.dir(dir)?), slash: true });
        };
        let (more, slash) = (rest.has_more(), rest.slash_follows());
        records.may_search(dir)?;
        if name == b"." || name == b".." {
            let mut inode = records.dir(dir)?;
            let mut which = Last::Dot;
            if name == b".." {
                inode = records.dir(inode.parent)?;
                which = Last::DotDot;
            }
            dir = inode.fid;
            match more {
                true => continue,
                false => return Ok(Parent { dir, last: which, found: Some(inode), slash }),
            }
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(
                records.err(Errno::ENAMETOOLONG, "a name in the path is longer than 255 bytes; use a shorter one")
            );
        }
        let Some(entry) = records.entry(dir, &name)? else {
            records.dir(dir)?;
            return match more {
                true => Err(records.err(Errno::ENOENT, "a directory of the path doesn't exist")),
                false => Ok(Parent { dir, last: Last::Name(name), found: None, slash }),
            };
        };
        let follow = more || last == Final::Follow || (last == Final::FollowBeforeSlash && slash);
        if entry.kind == Kind::Symlink && follow {
            followed += 1;
            if followed > MAX_SYMLINKS_FOLLOWED {
                return Err(records.err(Errno::ELOOP, "more than 40 symbolic links; there may be a loop of them"));
            }
            let target = records.entry_inode(entry)?.target;
            rest.put_in_front(&target);
            if target.first() == Some(&b'/') {
                dir = Namespace::ROOT;
            }
        } else if !more {
            let found = Some(records.entry_inode(entry)?);
            return Ok(Parent { dir, last: Last::Name(name), found, slash });
        } else if entry.kind == Kind::Dir {
            dir = entry.fid;
        } else {
            return Err(records.err(Errno::ENOTDIR, "a component of the path is no directory"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components() {
        let split = |path: &str| {
            let mut rest = Rest { path: path.into(), at: 0 };
            let mut all = Vec::new();
            while let Some(name) = rest.next() {
                all.push((String::from_utf8(name).unwrap(), rest.has_more(), rest.slash_follows()));
            }
            all
        };
        let c = |name: &str, more, slash| (name.to_string(), more, slash);
        assert_eq!(split("//a///b/"), [c("a", true, true), c("b", false, true)]);
        assert_eq!(split("a"), [c("a", false, false)]);
        assert_eq!(split("//"), []);
    }
}
