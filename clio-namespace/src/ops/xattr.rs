//! Extended attributes. They are kept in the inode's record, so they are bounded together.

use super::rights::{XattrUse, is_trusted, may_use_xattr};
use crate::caller::{Caller, SUPERUSER};
use crate::limits::{MAX_XATTR_NAME_BYTES, MAX_XATTRS_BYTES};
use crate::namespace::{Namespace, OpCtx};
use crate::record::{Inode, Reply};
use crate::records::Records;
use crate::txn::Txn;
use clio_core::units::Fid;
use clio_core::{Errno, Result};

/// What setting an attribute does if it exists, or doesn't.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Sets it in any case.
    Set,
    /// Fails with `EEXIST` if it exists (XATTR_CREATE).
    Create,
    /// Fails with `ENODATA` if it doesn't (XATTR_REPLACE).
    Replace,
}

/// Where attribute `name` is, or would be.
fn position(inode: &Inode, name: &[u8]) -> std::result::Result<usize, usize> {
    inode.xattrs.binary_search_by(|(n, _)| n.as_slice().cmp(name))
}

/// `ERANGE` for a name that is empty or too long, `EINVAL` for one with a NUL byte.
fn check_xattr_name(records: &Records<'_>, name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > MAX_XATTR_NAME_BYTES {
        Err(records.err(Errno::ERANGE, "the attribute's name must have 1 to 255 bytes"))
    } else if name.contains(&0) {
        Err(records.err(Errno::EINVAL, "the attribute's name holds a NUL byte"))
    } else {
        Ok(())
    }
}

const MISSING: &str = "there is no such attribute";

impl Namespace {
    /// Sets the extended attribute `name` of `fid`: one of users (`user.`) with write access, one of the superuser
    /// (`trusted.`, `security.`) as that.
    ///
    /// # Errors
    /// `EACCES`, `EPERM`: not for this caller; `EOPNOTSUPP`: a name of another class;
    /// `EEXIST`, `ENODATA` as `mode` says; `ERANGE`, `EINVAL` for the name; `E2BIG` for a value beyond 64 KiB;
    /// `ENOSPC` if all attributes of the inode would take more than that; `ENOENT`; `EIO`.
    pub fn set_xattr(&self, ctx: &OpCtx<'_>, fid: Fid, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let plan = |txn: &mut Txn<'_>| {
            check_xattr_name(&txn.records, name)?;
            if value.len() > MAX_XATTRS_BYTES {
                return Err(txn.err(Errno::E2BIG, "the attribute's value is longer than 64 KiB"));
            }
            let (op, caller) = (txn.records.op, txn.records.caller);
            let inode = txn.inode(fid)?;
            may_use_xattr(op, caller, inode, name, XattrUse::Write)?;
            let at = position(inode, name);
            let freed = at.map_or(0, |i| name.len() + inode.xattrs[i].1.len());
            let total = inode.xattr_bytes() - freed + name.len() + value.len();
            match (at, mode) {
                (Ok(_), XattrMode::Create) => return Err(txn.err(Errno::EEXIST, "the attribute exists").on(fid)),
                (Err(_), XattrMode::Replace) => return Err(txn.err(Errno::ENODATA, MISSING).on(fid)),
                _ if total > MAX_XATTRS_BYTES => {
                    let why = "the attributes of one file take at most 64 KiB together; remove some";
                    return Err(txn.err(Errno::ENOSPC, why).on(fid));
                }
                _ => {}
            }
            let now = txn.now;
            let inode = txn.edit(fid)?;
            match at {
                Ok(i) => inode.xattrs[i].1 = value.to_vec(),
                Err(i) => inode.xattrs.insert(i, (name.to_vec(), value.to_vec())),
            }
            inode.ctime = now;
            Ok(Reply::Done)
        };
        self.change("setxattr", ctx, plan)?.done()
    }

    /// The value of the extended attribute `name` of `fid`.
    ///
    /// # Errors
    /// `ENODATA`; `ERANGE`, `EINVAL` for the name; `ENOENT`; `EIO`.
    pub fn get_xattr(&self, fid: Fid, name: &[u8]) -> Result<Vec<u8>> {
        self.get_xattr_as(&SUPERUSER, fid, name)
    }

    /// [`Namespace::get_xattr`] for `caller`.
    ///
    /// # Errors
    /// As there; `EACCES`: it may not read what it has of users; `ENODATA`: it isn't to see the attribute; `EOPNOTSUPP` for
    /// a name of no known class.
    pub fn get_xattr_as(&self, caller: &Caller, fid: Fid, name: &[u8]) -> Result<Vec<u8>> {
        self.read_as(caller, "getxattr", |records| {
            check_xattr_name(&records, name)?;
            let mut inode = records.inode(fid)?;
            may_use_xattr(records.op, caller, &inode, name, XattrUse::Read)?;
            match position(&inode, name) {
                Ok(i) => Ok(std::mem::take(&mut inode.xattrs[i].1)),
                Err(_) => Err(records.err(Errno::ENODATA, MISSING).on(fid)),
            }
        })
    }

    /// The names of all extended attributes of `fid`, in byte order.
    ///
    /// # Errors
    /// `ENOENT`; `EIO`.
    pub fn list_xattrs(&self, fid: Fid) -> Result<Vec<Vec<u8>>> {
        self.list_xattrs_as(&SUPERUSER, fid)
    }

    /// Those of [`Namespace::list_xattrs`] that `caller` is to see.
    ///
    /// # Errors
    /// As there.
    pub fn list_xattrs_as(&self, caller: &Caller, fid: Fid) -> Result<Vec<Vec<u8>>> {
        let names = self.read("listxattr", |records| {
            Ok(records.inode(fid)?.xattrs.into_iter().map(|(n, _)| n).collect::<Vec<_>>())
        })?;
        Ok(names.into_iter().filter(|name| caller.is_superuser() || !is_trusted(name)).collect())
    }

    /// Removes the extended attribute `name` of `fid`.
    ///
    /// # Errors
    /// `EACCES`, `EPERM`, `EOPNOTSUPP` as for setting; `ENODATA`; `ERANGE`, `EINVAL` for the name; `ENOENT`; `EIO`.
    pub fn remove_xattr(&self, ctx: &OpCtx<'_>, fid: Fid, name: &[u8]) -> Result<()> {
        let plan = |txn: &mut Txn<'_>| {
            check_xattr_name(&txn.records, name)?;
            let (op, caller) = (txn.records.op, txn.records.caller);
            let inode = txn.inode(fid)?;
            may_use_xattr(op, caller, inode, name, XattrUse::Write)?;
            let Ok(at) = position(inode, name) else {
                return Err(txn.err(Errno::ENODATA, MISSING).on(fid));
            };
            let now = txn.now;
            let inode = txn.edit(fid)?;
            inode.xattrs.remove(at);
            inode.ctime = now;
            Ok(Reply::Done)
        };
        self.change("removexattr", ctx, plan)?.done()
    }
}
