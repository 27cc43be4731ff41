//! Who may do what: the rules of POSIX, with the errors and in the order of Linux.

use crate::caller::{Access, Caller, SETGID};
use crate::ops::attr::SetAttr;
use crate::record::{Entry, Inode, Kind};
use crate::txn::Txn;
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};

/// That the caller may add entries to directory `dir`, or take some away. `EACCES`.
pub(super) fn may_change_entries(txn: &mut Txn<'_>, dir: Fid) -> Result<()> {
    let (op, caller) = (txn.records.op, txn.records.caller);
    caller.check(op, txn.dir(dir)?, Access::WRITE | Access::EXECUTE)
}

/// That the caller may take `entry` away from directory `dir`. `EACCES`; `EPERM`: the directory is sticky.
pub(super) fn may_remove(txn: &mut Txn<'_>, dir: Fid, entry: Entry) -> Result<()> {
    may_change_entries(txn, dir)?;
    let caller = txn.records.caller;
    if caller.is_superuser() {
        return Ok(());
    }
    let inode = txn.entry_inode(entry)?.clone();
    if caller.is_kept_by_sticky(txn.dir(dir)?, &inode) {
        return Err(txn.err(Errno::EPERM, "the directory is sticky, and this another user's").on(inode.fid));
    }
    Ok(())
}

/// That the caller may have the directory `entry` be in another one, which changes its "..". `EACCES`.
pub(super) fn may_move(txn: &mut Txn<'_>, entry: Entry) -> Result<()> {
    let (op, caller) = (txn.records.op, txn.records.caller);
    match entry.kind {
        Kind::Dir => caller.check(op, txn.entry_inode(entry)?, Access::WRITE),
        Kind::File | Kind::Symlink => Ok(()),
    }
}

/// That the caller is the owner of `inode`, or the superuser. `EPERM`.
pub(super) fn is_owner(op: &'static str, caller: &Caller, inode: &Inode) -> Result<()> {
    match caller.acts_for_owner(inode) {
        true => Ok(()),
        false => Err(Error::new(Errno::EPERM, op, "only its owner may do that").on(inode.fid)),
    }
}

/// That the caller is the owner of `inode`, or may write to it. `EACCES`.
pub(super) fn may_write(op: &'static str, caller: &Caller, inode: &Inode) -> Result<()> {
    if caller.acts_for_owner(inode) { Ok(()) } else { caller.check(op, inode, Access::WRITE) }
}

/// What becomes of `set` where `caller` asks for it: set-ID bits go with a change of owner, and the set-group-ID bit of a
/// group that the caller isn't in. `EPERM`, `EACCES`.
pub(super) fn permitted(op: &'static str, caller: &Caller, inode: &Inode, set: &SetAttr) -> Result<SetAttr> {
    let mut set = *set;
    let denied = |errno, why: &'static str| Err(Error::new(errno, op, why).on(inode.fid));
    let (root, owner) = (caller.is_superuser(), caller.uid() == inode.uid);
    let may_give = |uid| root || owner && uid == inode.uid;
    let may_share = |gid| root || owner && (gid == inode.gid || caller.acts_for_group(gid));
    if set.uid.is_some_and(|uid| !may_give(uid)) {
        return denied(Errno::EPERM, "only the superuser may give a file away");
    }
    if set.gid.is_some_and(|gid| !may_share(gid)) {
        return denied(Errno::EPERM, "only its owner may change the group, to one of the owner's groups");
    }
    if (set.uid.is_some() || set.gid.is_some()) && inode.kind != Kind::Dir && set.mode.is_none() {
        let mode = caller.mode_without_ids(inode);
        set.mode = (mode != inode.mode).then_some(mode);
    }
    if let Some(mode) = &mut set.mode {
        is_owner(op, caller, inode)?;
        if !caller.acts_for_group(set.gid.unwrap_or(inode.gid)) {
            *mode &= !SETGID;
        }
    }
    let is_report = set.only_raise_times || set.size_hint.is_some();
    if (set.atime.is_some() || set.mtime.is_some()) && !is_report {
        is_owner(op, caller, inode)?;
    }
    if is_report {
        may_write(op, caller, inode)?;
    }
    Ok(set)
}

/// What is done to an extended attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum XattrUse {
    Read,
    Write,
}

/// That `caller` may use the attribute `name` of `inode`. `EACCES`, `EPERM`; `ENODATA` for one that the caller isn't to see;
/// `EOPNOTSUPP` for names of no known class.
pub(super) fn may_use_xattr(
    op: &'static str,
    caller: &Caller,
    inode: &Inode,
    name: &[u8],
    how: XattrUse,
) -> Result<()> {
    let denied = |errno, why: &'static str| Err(Error::new(errno, op, why).on(inode.fid));
    let hidden = |why| denied(if how == XattrUse::Read { Errno::ENODATA } else { Errno::EPERM }, why);
    if name.starts_with(b"user.") {
        let is_sticky_dir = inode.kind == Kind::Dir && inode.mode & crate::caller::STICKY != 0;
        if inode.kind == Kind::Symlink {
            return hidden("a symbolic link has no attributes of users");
        } else if is_sticky_dir && how == XattrUse::Write && !caller.acts_for_owner(inode) {
            return denied(Errno::EPERM, "only the owner of a sticky directory may set its attributes");
        }
        return caller.check(op, inode, if how == XattrUse::Read { Access::READ } else { Access::WRITE });
    }
    if is_trusted(name) {
        return if caller.is_superuser() { Ok(()) } else { hidden("such attributes are the superuser's") };
    }
    match name.starts_with(b"security.") {
        true if how == XattrUse::Read || caller.is_superuser() => Ok(()),
        true => denied(Errno::EPERM, "such attributes are the superuser's"),
        false => denied(Errno::EOPNOTSUPP, "an attribute's name begins with user., trusted. or security."),
    }
}

/// Whether an attribute is for the superuser's eyes only.
pub(super) fn is_trusted(name: &[u8]) -> bool {
    name.starts_with(b"trusted.")
}
