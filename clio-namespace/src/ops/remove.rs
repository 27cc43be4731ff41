//! Taking names away.

use super::rights::may_remove;
use crate::namespace::{Namespace, OpCtx};
use crate::record::{Entry, Inode, Kind, Removed, Reply};
use crate::records::check_name;
use crate::txn::Txn;
use clio_core::units::Fid;
use clio_core::{Errno, Result};

impl Namespace {
    /// Removes the name `name`, of anything but a directory, from directory `dir`. If it was the last one and the
    /// file isn't open, the reply has the objects to destroy, of which [`Namespace::destroyed`] must be told.
    ///
    /// # Errors
    /// `EACCES`; `EPERM` in a sticky directory; `EISDIR`; `ENOENT`, `ENOTDIR`; `ENAMETOOLONG`, `EINVAL` for the name; `EIO`.
    pub fn unlink(&self, ctx: &OpCtx<'_>, dir: Fid, name: &[u8]) -> Result<Removed> {
        let plan = |txn: &mut Txn<'_>| {
            let entry = named(txn, dir, name)?;
            may_remove(txn, dir, entry)?;
            if entry.kind == Kind::Dir {
                return Err(txn.err(Errno::EISDIR, "it is a directory; use rmdir"));
            }
            txn.entry_inode(entry)?;
            txn.remove_entry(dir, name);
            txn.update_dir(dir, -1, 0)?;
            Ok(Reply::Removed(Some(txn.drop_link(entry.fid)?)))
        };
        self.change("unlink", ctx, plan)?.removed()
    }

    /// Takes the name `name` of a new file away again, because its maker can't open it: if it still is that file, as
    /// `known` (the maker's last look at it), without another name, and nobody has it open. `None` if not.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR` for `dir`; `ENAMETOOLONG`, `EINVAL` for the name; `EIO`.
    pub fn unmake(&self, ctx: &OpCtx<'_>, dir: Fid, name: &[u8], known: &Inode) -> Result<Option<Removed>> {
        let plan = |txn: &mut Txn<'_>| {
            txn.dir(dir)?;
            check_name(txn.records.op, name)?;
            let unused = match txn.records.entry(dir, name)? {
                Some(entry) if entry.fid == known.fid && entry.kind == Kind::File => {
                    !txn.is_open(known.fid) && known.nlink == 1 && txn.entry_inode(entry)? == known
                }
                _ => false,
            };
            if !unused {
                return Ok(Reply::Removed(None));
            }
            may_remove(txn, dir, Entry { fid: known.fid, kind: Kind::File })?;
            txn.remove_entry(dir, name);
            txn.update_dir(dir, -1, 0)?;
            Ok(Reply::Removed(Some(txn.drop_link(known.fid)?)))
        };
        self.change("unmake", ctx, plan)?.maybe_removed()
    }

    /// Removes the empty directory `name` from directory `dir`. If it is open, it stays, without a name and always
    /// empty, until its last [`Namespace::close_ref`].
    ///
    /// # Errors
    /// `EACCES`; `EPERM` in a sticky directory; `ENOTEMPTY`; `ENOTDIR` if it is something else; `ENOENT`, `ENOTDIR` for `dir`; `ENAMETOOLONG`, `EINVAL` for
    /// the name; `EIO`.
    pub fn rmdir(&self, ctx: &OpCtx<'_>, dir: Fid, name: &[u8]) -> Result<Removed> {
        let plan = |txn: &mut Txn<'_>| {
            let entry = named(txn, dir, name)?;
            may_remove(txn, dir, entry)?;
            if entry.kind != Kind::Dir {
                return Err(txn.err(Errno::ENOTDIR, "it is no directory; use unlink"));
            }
            if txn.entry_inode(entry)?.entries != 0 {
                return Err(txn.err(Errno::ENOTEMPTY, "the directory isn't empty").on(entry.fid));
            }
            txn.remove_entry(dir, name);
            txn.update_dir(dir, -1, -1)?;
            Ok(Reply::Removed(Some(txn.drop_link(entry.fid)?)))
        };
        self.change("rmdir", ctx, plan)?.removed()
    }
}

/// The entry `name` of `dir`, which must be there.
pub(super) fn named(txn: &mut Txn<'_>, dir: Fid, name: &[u8]) -> Result<Entry> {
    txn.dir(dir)?;
    check_name(txn.records.op, name)?;
    txn.records.entry(dir, name)?.ok_or_else(|| txn.err(Errno::ENOENT, "no such file or directory"))
}
