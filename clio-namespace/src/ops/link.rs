//! Hard links, and what symbolic links point at.

use super::create::exists;
use super::rights::may_change_entries;
use crate::namespace::{Namespace, OpCtx};
use crate::record::{Entry, Inode, Kind, Reply};
use crate::records::check_name;
use crate::txn::Txn;
use clio_core::units::Fid;
use clio_core::{Errno, Result};

impl Namespace {
    /// Gives `fid` the further name `name` in directory `dir`. A symbolic link is linked itself.
    ///
    /// # Errors
    /// `EEXIST`; `EACCES`; `EPERM` if `fid` is a directory; `ENOENT` if it has lost its last name; `EMLINK` at 65000 links;
    /// `ENOENT`, `ENOTDIR` for `dir`; `ENAMETOOLONG`, `EINVAL` for the name; `EIO`.
    pub fn link(&self, ctx: &OpCtx<'_>, fid: Fid, dir: Fid, name: &[u8]) -> Result<Inode> {
        let plan = |txn: &mut Txn<'_>| {
            txn.inode(fid)?;
            txn.dir(dir)?;
            check_name("link", name)?;
            if txn.records.entry(dir, name)?.is_some() {
                return Err(exists(txn));
            }
            may_change_entries(txn, dir)?;
            let inode = txn.inode(fid)?;
            let (kind, orphan) = (inode.kind, inode.orphan);
            if kind == Kind::Dir {
                return Err(txn.err(Errno::EPERM, "a directory has one name only").on(fid));
            } else if orphan {
                return Err(txn.err(Errno::ENOENT, "the file has been removed").on(fid));
            }
            txn.add_link(fid)?;
            txn.put_entry(dir, name, Entry { fid, kind });
            txn.update_dir(dir, 1, 0)?;
            Ok(Reply::Node { inode: txn.inode(fid)?.clone(), created: false })
        };
        Ok(self.change("link", ctx, plan)?.node()?.0)
    }

    /// What the symbolic link `fid` points at.
    ///
    /// # Errors
    /// `EINVAL` if it is no symbolic link; `ENOENT`; `EIO`.
    pub fn readlink(&self, fid: Fid) -> Result<Vec<u8>> {
        self.read("readlink", |records| {
            let inode = records.inode(fid)?;
            match inode.kind {
                Kind::Symlink => Ok(inode.target),
                _ => Err(records.err(Errno::EINVAL, "not a symbolic link").on(fid)),
            }
        })
    }
}
