//! Attributes and layouts.

use super::rights::{is_owner, may_write, permitted};
use crate::caller::SUPERUSER;
use crate::limits::MAX_LAYOUT_BYTES;
use crate::namespace::{Namespace, OpCtx};
use crate::record::{Inode, Kind, Reply};
use crate::txn::Txn;
use clio_core::clock::is_read_worth_noting;
use clio_core::units::Fid;
use clio_core::{Errno, Result};

/// Which attributes to set, and to what; the others stay. The change time becomes the operation's, if any is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission bits; others are ignored.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// A file's size hint in bytes; `Some(None)` makes it unknown.
    pub size_hint: Option<Option<u64>>,
    /// Last read, nanoseconds since 1970.
    pub atime: Option<u64>,
    /// Last change of data, nanoseconds since 1970.
    pub mtime: Option<u64>,
    /// Times are only raised, never lowered: for reports that may come late, not for utimensat.
    pub only_raise_times: bool,
}

impl SetAttr {
    fn apply(&self, inode: &mut Inode, now: u64) {
        let raise = self.only_raise_times;
        let time = |field: &mut u64, new: Option<u64>| {
            if let Some(t) = new.filter(|t| !raise || *t > *field) {
                *field = t;
            }
        };
        time(&mut inode.atime, self.atime);
        time(&mut inode.mtime, self.mtime);
        time(&mut inode.ctime, Some(now));
        if let Some(mode) = self.mode {
            inode.mode = mode & 0o7777;
        }
        inode.uid = self.uid.unwrap_or(inode.uid);
        inode.gid = self.gid.unwrap_or(inode.gid);
        inode.size_hint = self.size_hint.unwrap_or(inode.size_hint);
    }
}

impl Namespace {
    /// Sets attributes of `fid`; gives the inode as it is then.
    ///
    /// # Errors
    /// `ENOENT`; `EPERM` if the caller isn't who may; `EACCES` if it may not write, for a size hint and for times that are
    /// only raised; `EINVAL` for a size hint of what is no file; `EIO`.
    pub fn setattr(&self, ctx: &OpCtx<'_>, fid: Fid, set: &SetAttr) -> Result<Inode> {
        let plan = |txn: &mut Txn<'_>| {
            let (op, caller) = (txn.records.op, txn.records.caller);
            let inode = txn.inode(fid)?;
            if set.size_hint.is_some() && inode.kind != Kind::File {
                return Err(txn.err(Errno::EINVAL, "only a file has a size hint").on(fid));
            }
            let set = permitted(op, caller, inode, set)?;
            if (SetAttr { only_raise_times: set.only_raise_times, ..SetAttr::default() }) != set {
                let now = txn.now;
                set.apply(txn.edit(fid)?, now);
            }
            Ok(Reply::Node { inode: txn.inode(fid)?.clone(), created: false })
        };
        Ok(self.change("setattr", ctx, plan)?.node()?.0)
    }

    /// Sets the layout of a file, or the default layout of a directory: files made in it get that, and directories
    /// made in it inherit it. Empty bytes take it away. The bytes are the layout layer's; nobody else reads them.
    ///
    /// # Errors
    /// `ENOENT`; `EPERM` for others than the owner; `EINVAL` for a symbolic link; `E2BIG` beyond 64 KiB; `EIO`.
    pub fn set_layout(&self, ctx: &OpCtx<'_>, fid: Fid, layout: &[u8]) -> Result<()> {
        let plan = |txn: &mut Txn<'_>| {
            let (op, caller) = (txn.records.op, txn.records.caller);
            is_owner(op, caller, txn.inode(fid)?)?;
            put_layout(txn, fid, layout).map(|()| Reply::Done)
        };
        self.change("set_layout", ctx, plan)?.done()
    }

    /// As [`Namespace::set_layout`], if the layout is still `old`. Returns the one that it has then: another than `new` if
    /// somebody was faster.
    ///
    /// # Errors
    /// As [`Namespace::set_layout`] for a directory. Whoever sees a file may give it its first layout, since there is no data
    /// yet; `EACCES` for a later one without write access.
    pub fn replace_layout(&self, ctx: &OpCtx<'_>, fid: Fid, old: &[u8], new: &[u8]) -> Result<Vec<u8>> {
        let plan = |txn: &mut Txn<'_>| {
            let (op, caller) = (txn.records.op, txn.records.caller);
            let inode = txn.inode(fid)?;
            if inode.kind == Kind::Dir {
                is_owner(op, caller, inode)?;
            } else if !old.is_empty() {
                may_write(op, caller, inode)?;
            }
            if layout_of(inode) == old {
                put_layout(txn, fid, new)?;
            }
            Ok(Reply::Node { inode: txn.inode(fid)?.clone(), created: false })
        };
        let (inode, _) = self.change("replace_layout", ctx, plan)?.node()?;
        Ok(layout_of(&inode).to_vec())
    }

    /// Dates the last read and the last change at the operation's time, as utimensat(2) without times does.
    ///
    /// # Errors
    /// `ENOENT`; `EACCES` for whoever is not the owner and may not write; `EIO`.
    pub fn touch(&self, ctx: &OpCtx<'_>, fid: Fid) -> Result<()> {
        let plan = |txn: &mut Txn<'_>| {
            let (op, caller, now) = (txn.records.op, txn.records.caller, txn.now);
            may_write(op, caller, txn.inode(fid)?)?;
            let inode = txn.edit(fid)?;
            (inode.atime, inode.mtime, inode.ctime) = (now, now, now);
            Ok(Reply::Done)
        };
        self.change("touch", ctx, plan)?.done()
    }

    /// Dates the last read of a file whose data was last changed at `changed` (nanoseconds since 1970), if
    /// [`is_read_worth_noting`].
    ///
    /// # Errors
    /// `ENOENT`; `EIO`.
    pub fn note_read(&self, ctx: &OpCtx<'_>, fid: Fid, changed: u64) -> Result<()> {
        let inode = self.getattr(fid)?;
        if !is_read_worth_noting(inode.atime, changed.max(inode.mtime).max(inode.ctime), ctx.now) {
            return Ok(());
        }
        let set = SetAttr { atime: Some(ctx.now), only_raise_times: true, ..SetAttr::default() };
        // A read is no change: at time 0, the operation raises no change time.
        self.setattr(&OpCtx { now: 0, caller: &SUPERUSER, ..*ctx }, fid, &set).map(drop)
    }

    /// The layout of a file, or the default layout of a directory; empty if there is none.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` for a symbolic link; `EIO`.
    pub fn get_layout(&self, fid: Fid) -> Result<Vec<u8>> {
        self.read("get_layout", |records| {
            let inode = records.inode(fid)?;
            match inode.kind {
                Kind::File => Ok(inode.layout),
                Kind::Dir => Ok(inode.default_layout),
                Kind::Symlink => Err(records.err(Errno::EINVAL, "a symbolic link has no layout").on(fid)),
            }
        })
    }
}

/// A file's layout, or the one that a directory has for its future files.
fn layout_of(inode: &Inode) -> &[u8] {
    if inode.kind == Kind::Dir { &inode.default_layout } else { &inode.layout }
}

fn put_layout(txn: &mut Txn<'_>, fid: Fid, layout: &[u8]) -> Result<()> {
    if layout.len() > MAX_LAYOUT_BYTES {
        return Err(txn.err(Errno::E2BIG, "the layout takes more than 64 KiB; use fewer components or stripes"));
    }
    if txn.inode(fid)?.kind == Kind::Symlink {
        return Err(txn.err(Errno::EINVAL, "a symbolic link has no layout").on(fid));
    }
    let now = txn.now;
    let inode = txn.edit(fid)?;
    let field = if inode.kind == Kind::Dir { &mut inode.default_layout } else { &mut inode.layout };
    *field = layout.to_vec();
    inode.ctime = now;
    Ok(())
}
