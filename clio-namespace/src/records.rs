//! Decoded reads of one view of the store.

use crate::caller::{Access, Caller};
use crate::kv::{Space, View};
use crate::limits::MAX_NAME_BYTES;
use crate::record::{Entry, Inode, Kind, entry_key};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};

/// Reads for the operation `op`, which its errors name.
#[derive(Clone, Copy)]
pub(crate) struct Records<'v> {
    pub(crate) view: &'v dyn View,
    pub(crate) op: &'static str,
    /// Whom that is done for.
    pub(crate) caller: &'v Caller,
}

impl Records<'_> {
    /// An error of this operation.
    pub(crate) fn err(&self, errno: Errno, why: &'static str) -> Error {
        Error::new(errno, self.op, why)
    }

    /// The inode `fid`, as a caller names it. `ENOENT`: there is none.
    pub(crate) fn inode(&self, fid: Fid) -> Result<Inode> {
        let Some(record) = self.view.get(Space::Inodes, &fid.to_bytes())? else {
            return Err(self.err(Errno::ENOENT, "no such file or directory: it has been removed").on(fid));
        };
        let inode = Inode::decode(&record).map_err(|e| e.on(fid))?;
        if inode.fid != fid {
            return Err(self
                .err(Errno::EBADMSG, "the inode's record belongs to another one; run `clio check --repair`")
                .on(fid));
        }
        Ok(inode)
    }

    /// The inode that `entry` stands for. `EIO`: there is none, which is damage.
    pub(crate) fn entry_inode(&self, entry: Entry) -> Result<Inode> {
        self.inode(entry.fid).map_err(|e| match e.errno() {
            Errno::ENOENT => dangling(self.op, entry.fid),
            _ => e,
        })
    }

    /// The directory `fid`. `ENOENT`: removed; `ENOTDIR`: something else.
    pub(crate) fn dir(&self, fid: Fid) -> Result<Inode> {
        let inode = self.inode(fid)?;
        check_dir(self.op, &inode)?;
        Ok(inode)
    }

    /// That the caller may search `dir`. `EACCES`, or as [`Records::dir`]; asks nothing for the superuser.
    pub(crate) fn may_search(&self, dir: Fid) -> Result<()> {
        match self.caller.is_superuser() {
            true => Ok(()),
            false => self.caller.check(self.op, &self.dir(dir)?, Access::EXECUTE),
        }
    }

    /// The entry `name` of `dir`. Neither is checked.
    pub(crate) fn entry(&self, dir: Fid, name: &[u8]) -> Result<Option<Entry>> {
        let record = self.view.get(Space::Entries, &entry_key(dir, name))?;
        record.map(|r| Entry::decode(&r)).transpose().map_err(|e| e.on(dir))
    }
}

/// That `inode` is a directory which still has its name.
pub(crate) fn check_dir(op: &'static str, inode: &Inode) -> Result<()> {
    if inode.kind != Kind::Dir {
        Err(Error::new(Errno::ENOTDIR, op, "not a directory").on(inode.fid))
    } else if inode.orphan {
        Err(Error::new(Errno::ENOENT, op, "the directory has been removed").on(inode.fid))
    } else {
        Ok(())
    }
}

/// An entry whose inode is missing.
pub(crate) fn dangling(op: &'static str, fid: Fid) -> Error {
    Error::new(Errno::EIO, op, "a directory entry points at an inode that is missing; run `clio check --repair`")
        .on(fid)
}

/// That `name` can be that of an entry.
///
/// # Errors
/// `ENOENT` for an empty one, `ENAMETOOLONG`, `EINVAL` for ".", "..", and those with a slash or NUL.
pub(crate) fn check_name(op: &'static str, name: &[u8]) -> Result<()> {
    if name.is_empty() {
        Err(Error::new(Errno::ENOENT, op, "the name is empty"))
    } else if name.len() > MAX_NAME_BYTES {
        Err(Error::new(Errno::ENAMETOOLONG, op, "the name is longer than 255 bytes; use a shorter one"))
    } else if name == b"." || name == b".." {
        Err(Error::new(Errno::EINVAL, op, "'.' and '..' are no entries of a directory"))
    } else if name.iter().any(|b| *b == b'/' || *b == 0) {
        Err(Error::new(Errno::EINVAL, op, "a name holds no '/' and no NUL byte"))
    } else {
        Ok(())
    }
}
