//! Looking things up.

use crate::caller::{Access, Caller, SUPERUSER};
use crate::kv::{Space, prefix_end};
use crate::namespace::Namespace;
use crate::record::{Entry, Inode, Kind, entry_key, split_entry_key};
use crate::records::check_name;
use clio_core::units::Fid;
use clio_core::{Errno, Result};
use std::ops::ControlFlow;

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The name: any bytes but '/' and NUL.
    pub name: Vec<u8>,
    /// The inode it stands for.
    pub fid: Fid,
    /// The inode's kind.
    pub kind: Kind,
}

impl Namespace {
    /// The inode that `name` in directory `dir` stands for; a symbolic link is not followed.
    ///
    /// # Errors
    /// `ENOENT`; `ENOTDIR` if `dir` is none; `ENAMETOOLONG`, `EINVAL` for the name; `EIO`.
    pub fn lookup(&self, dir: Fid, name: &[u8]) -> Result<Inode> {
        self.read("lookup", |records| {
            let name_checked = check_name("lookup", name);
            if name_checked.is_ok()
                && let Some(entry) = records.entry(dir, name)?
            {
                return records.entry_inode(entry); // only a live directory has entries
            }
            records.dir(dir)?;
            name_checked?;
            Err(records.err(Errno::ENOENT, "no such file or directory"))
        })
    }

    /// The inode `fid`.
    ///
    /// # Errors
    /// `ENOENT`: gone; `EBADMSG`: its record is damaged; `EIO`.
    pub fn getattr(&self, fid: Fid) -> Result<Inode> {
        self.read("getattr", |records| records.inode(fid))
    }

    /// At most `limit` entries of directory `dir` in byte order of names, from the first one after `after`. Fewer
    /// mean that there are no more.
    ///
    /// A name that exists all the time while a directory is listed by giving each call the last name of the one
    /// before is seen exactly once, whatever else comes and goes.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR` for `dir`; `EBADMSG`: an entry is damaged; `EIO`.
    pub fn readdir(&self, dir: Fid, after: Option<&[u8]>, limit: usize) -> Result<Vec<DirEntry>> {
        self.readdir_as(&SUPERUSER, dir, after, limit)
    }

    /// [`Namespace::readdir`] for `caller`.
    ///
    /// # Errors
    /// As there; `EACCES`: it may not read the directory.
    pub fn readdir_as(&self, caller: &Caller, dir: Fid, after: Option<&[u8]>, limit: usize) -> Result<Vec<DirEntry>> {
        self.read_as(caller, "readdir", |records| {
            let inode = records.inode(dir)?;
            if inode.kind != Kind::Dir {
                return Err(records.err(Errno::ENOTDIR, "not a directory").on(dir));
            }
            caller.check(records.op, &inode, Access::READ)?;
            let mut found = Vec::new();
            if limit == 0 {
                return Ok(found);
            }
            // The least name after `after` is `after` with a NUL byte, which no name holds.
            let from = after.map_or(dir.to_bytes().to_vec(), |name| entry_key(dir, &[name, b"\0"].concat()));
            let to = prefix_end(&dir.to_bytes());
            records.view.scan(Space::Entries, &from, to.as_deref(), &mut |key, value| {
                let Some((_, name)) = split_entry_key(key) else { return Ok(ControlFlow::Continue(())) };
                let Entry { fid, kind } = Entry::decode(value).map_err(|e| e.on(dir))?;
                found.push(DirEntry { name: name.to_vec(), fid, kind });
                Ok(if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            Ok(found)
        })
    }
}
