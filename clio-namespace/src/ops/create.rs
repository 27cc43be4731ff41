//! Making files, directories and symbolic links.

use super::rights::may_change_entries;
use crate::caller::{GROUP_EXECUTE, SETGID, SETUID};
use crate::limits::{MAX_LAYOUT_BYTES, MAX_SYMLINK_BYTES};
use crate::namespace::{Namespace, OpCtx};
use crate::record::{Entry, Inode, Kind, Reply};
use crate::records::check_name;
use crate::txn::Txn;
use clio_core::units::Fid;
use clio_core::{Errno, Result};

/// What a new inode is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewNode<'a> {
    /// Permission bits, with the umask applied; others are ignored.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory imposes its own.
    pub gid: u32,
    /// A file's layout or a directory's default layout, encoded; `None` for the parent's default.
    pub layout: Option<&'a [u8]>,
}

impl NewNode<'_> {
    /// Mode and owner; the layout is the parent's default.
    pub fn new(mode: u32, uid: u32, gid: u32) -> Self {
        Self { mode, uid, gid, layout: None }
    }

    /// The inode of kind `kind`, without a parent's influence.
    pub(crate) fn inode(&self, fid: Fid, kind: Kind, now: u64) -> Inode {
        let layout = self.layout.unwrap_or_default().to_vec();
        let (layout, default_layout) = match kind {
            Kind::File => (layout, Vec::new()),
            Kind::Dir => (Vec::new(), layout),
            Kind::Symlink => (Vec::new(), Vec::new()),
        };
        Inode {
            fid,
            kind,
            mode: self.mode & 0o7777,
            uid: self.uid,
            gid: self.gid,
            nlink: if kind == Kind::Dir { 2 } else { 1 },
            orphan: false,
            size_hint: None,
            atime: now,
            mtime: now,
            ctime: now,
            parent: Fid::default(),
            entries: 0,
            layout,
            default_layout,
            target: Vec::new(),
            xattrs: Vec::new(),
        }
    }
}

/// What a create does when the name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfExists {
    /// Fails with `EEXIST` (O_EXCL).
    Fail,
    /// Gives the file that is there.
    Open,
}

impl Namespace {
    /// Makes the file `name` in directory `dir`. The flag says whether it was made or was there before.
    /// To hold it open, call [`Namespace::open_ref`] next; if that says `ENOENT`, another client was faster in
    /// removing it.
    ///
    /// # Errors
    /// `EEXIST`; `EACCES`; `EISDIR` or `ELOOP` if the name to open is a directory or a symbolic link; `ENOENT`, `ENOTDIR` for
    /// `dir`; `ENAMETOOLONG`, `EINVAL` for the name; `E2BIG` for a layout beyond 64 KiB; `EIO`.
    pub fn create(
        &self,
        ctx: &OpCtx<'_>,
        dir: Fid,
        name: &[u8],
        new: &NewNode<'_>,
        if_exists: IfExists,
    ) -> Result<(Inode, bool)> {
        let plan = |txn: &mut Txn<'_>| {
            txn.dir(dir)?;
            check_name("create", name)?;
            match txn.records.entry(dir, name)? {
                None => add(txn, dir, name, Kind::File, new, &[]),
                Some(_) if if_exists == IfExists::Fail => Err(exists(txn)),
                Some(entry) => match entry.kind {
                    Kind::File => Ok(Reply::Node { inode: txn.entry_inode(entry)?.clone(), created: false }),
                    Kind::Dir => Err(txn.err(Errno::EISDIR, "it is a directory")),
                    Kind::Symlink => Err(txn.err(Errno::ELOOP, "it is a symbolic link")),
                },
            }
        };
        self.change("create", ctx, plan)?.node()
    }

    /// Makes the directory `name` in directory `dir`.
    ///
    /// # Errors
    /// `EEXIST`; `EACCES`; `ENOENT`, `ENOTDIR` for `dir`; `ENAMETOOLONG`, `EINVAL` for the name; `E2BIG` for a layout beyond
    /// 64 KiB; `EMLINK`; `EIO`.
    pub fn mkdir(&self, ctx: &OpCtx<'_>, dir: Fid, name: &[u8], new: &NewNode<'_>) -> Result<Inode> {
        let plan = |txn: &mut Txn<'_>| add_new(txn, dir, name, Kind::Dir, new, &[]);
        Ok(self.change("mkdir", ctx, plan)?.node()?.0)
    }

    /// Makes the symbolic link `name` in directory `dir`, pointing at the path `target`.
    ///
    /// # Errors
    /// As [`Namespace::mkdir`]; for the target `ENOENT` if it is empty, `ENAMETOOLONG` beyond 4095 bytes, `EINVAL`
    /// if it holds a NUL byte.
    pub fn symlink(&self, ctx: &OpCtx<'_>, dir: Fid, name: &[u8], target: &[u8], new: &NewNode<'_>) -> Result<Inode> {
        let plan = |txn: &mut Txn<'_>| {
            if target.is_empty() {
                return Err(txn.err(Errno::ENOENT, "the target is empty"));
            } else if target.len() > MAX_SYMLINK_BYTES {
                return Err(txn.err(Errno::ENAMETOOLONG, "the target is longer than 4095 bytes"));
            } else if target.contains(&0) {
                return Err(txn.err(Errno::EINVAL, "the target holds a NUL byte"));
            }
            add_new(txn, dir, name, Kind::Symlink, new, target)
        };
        Ok(self.change("symlink", ctx, plan)?.node()?.0)
    }
}

/// The reply to a new name that is there already.
pub(super) fn exists(txn: &Txn<'_>) -> clio_core::Error {
    txn.err(Errno::EEXIST, "the name exists already")
}

/// Makes an inode under a name that must be new.
fn add_new(txn: &mut Txn<'_>, dir: Fid, name: &[u8], kind: Kind, new: &NewNode<'_>, target: &[u8]) -> Result<Reply> {
    txn.dir(dir)?;
    check_name(txn.records.op, name)?;
    if txn.records.entry(dir, name)?.is_some() {
        return Err(exists(txn));
    }
    add(txn, dir, name, kind, new, target)
}

/// Makes an inode under a name that is known to be new, in a directory that is known to be one.
pub(crate) fn add(
    txn: &mut Txn<'_>,
    dir: Fid,
    name: &[u8],
    kind: Kind,
    new: &NewNode<'_>,
    target: &[u8],
) -> Result<Reply> {
    if new.layout.is_some_and(|l| l.len() > MAX_LAYOUT_BYTES) {
        return Err(txn.err(Errno::E2BIG, "the layout takes more than 64 KiB; use fewer components or stripes"));
    }
    may_change_entries(txn, dir)?;
    let (now, caller) = (txn.now, txn.records.caller);
    let parent = txn.dir(dir)?;
    if kind == Kind::Dir && parent.nlink == u32::MAX {
        return Err(txn.err(Errno::EMLINK, "the directory has as many subdirectories as it can").on(dir));
    }
    let parent_gid = (parent.mode & SETGID != 0).then_some(parent.gid);
    let inherited = match (kind, new.layout) {
        (Kind::File | Kind::Dir, None) => Some(parent.default_layout.clone()),
        _ => None,
    };
    let inode = txn.add_inode(|fid| {
        let mut inode = new.inode(fid, kind, now);
        inode.target = target.to_vec();
        if let Some(gid) = parent_gid {
            inode.gid = gid;
        }
        if kind == Kind::Dir {
            inode.parent = dir;
            inode.mode &= !(SETUID | SETGID);
            inode.mode |= parent_gid.map_or(0, |_| SETGID);
            inode.default_layout = inherited.unwrap_or(inode.default_layout);
        } else if let Some(layout) = inherited {
            inode.layout = layout;
        }
        let lends_group = kind == Kind::File && inode.mode & GROUP_EXECUTE != 0;
        if lends_group && parent_gid.is_some_and(|gid| !caller.acts_for_group(gid)) {
            inode.mode &= !SETGID;
        }
        inode
    })?;
    txn.put_entry(dir, name, Entry { fid: inode.fid, kind });
    txn.update_dir(dir, 1, i32::from(kind == Kind::Dir))?;
    Ok(Reply::Node { inode, created: true })
}
