//! The operations by path. Each resolves its path, then does the operation by FID and name; in between, others may
//! change the tree, as on any system. A resent operation is answered before its path is looked at.

use crate::caller::{Access, Caller, SUPERUSER};
use crate::namespace::{Namespace, OpCtx};
use crate::ops::create::{IfExists, NewNode};
use crate::ops::rename::RenameMode;
use crate::path::{Final, Last, Parent, walk};
use crate::record::{Inode, Kind, Removed};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A path, and the directory that a relative one starts from. Any bytes will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathAt<'a> {
    /// Where a path that doesn't start with a slash starts.
    pub base: Fid,
    /// The path.
    pub path: &'a [u8],
}

impl<'a> PathAt<'a> {
    /// `path`, seen from directory `base`.
    pub fn new(base: Fid, path: &'a [u8]) -> Self {
        Self { base, path }
    }

    fn describe(&self) -> String {
        String::from_utf8_lossy(self.path).into_owned()
    }
}

/// Seen from the root.
impl<'a, P: AsRef<OsStr> + ?Sized> From<&'a P> for PathAt<'a> {
    fn from(path: &'a P) -> Self {
        Self { base: Namespace::ROOT, path: path.as_ref().as_bytes() }
    }
}

impl Namespace {
    /// The inode at `path`. A symbolic link at its end is followed if `follow` says so or a slash comes after it.
    ///
    /// # Errors
    /// `ENOENT`; `ENOTDIR`: a component, or what a slash follows, is no directory; `ENAMETOOLONG`: beyond 4095 bytes,
    /// or 255 for a component; `ELOOP`: more than 40 symbolic links; `EINVAL`: a NUL byte; `EIO`.
    pub fn resolve<'a>(&self, path: impl Into<PathAt<'a>>, follow: bool) -> Result<Inode> {
        self.resolve_as(&SUPERUSER, path, follow)
    }

    /// [`Namespace::resolve`] for `caller`.
    ///
    /// # Errors
    /// As there; `EACCES`: a directory on the way may not be searched.
    pub fn resolve_as<'a>(&self, caller: &Caller, path: impl Into<PathAt<'a>>, follow: bool) -> Result<Inode> {
        let path = path.into();
        let how = if follow { Final::Follow } else { Final::FollowBeforeSlash };
        let parent = self.walk(caller, "resolve", path, how)?;
        match parent.found {
            Some(inode) if parent.slash && inode.kind != Kind::Dir => {
                Err(Error::new(Errno::ENOTDIR, "resolve", "not a directory").at(path.describe()))
            }
            Some(inode) => Ok(inode),
            None => Err(Error::new(Errno::ENOENT, "resolve", "no such file or directory").at(path.describe())),
        }
    }

    /// That `caller` has `access` to what `path` names, following symbolic links, as access(2).
    ///
    /// # Errors
    /// `EACCES`; as [`Namespace::resolve_as`].
    pub fn access<'a>(&self, caller: &Caller, path: impl Into<PathAt<'a>>, access: Access) -> Result<()> {
        let path = path.into();
        let inode = self.resolve_as(caller, path, true)?;
        caller.check("access", &inode, access).map_err(|e| e.at(path.describe()))
    }

    /// Where `path` ends, whether or not its last component exists. If that is a symbolic link, it is followed if
    /// `follow` says so, and the answer is then where the link leads.
    ///
    /// # Errors
    /// As [`Namespace::resolve`], but for the last component.
    pub fn resolve_parent<'a>(&self, path: impl Into<PathAt<'a>>, follow: bool) -> Result<Parent> {
        self.walk(&SUPERUSER, "resolve", path.into(), if follow { Final::Follow } else { Final::Entry })
    }

    fn walk(&self, caller: &Caller, op: &'static str, path: PathAt<'_>, last: Final) -> Result<Parent> {
        self.read_as(caller, op, |records| walk(records, path.base, path.path, last)).map_err(|e| e.at(path.describe()))
    }

    /// [`Namespace::create`] by path. Opening follows symbolic links, also to a file that is yet to be made; with
    /// [`IfExists::Fail`] a link at the end is one name that exists.
    ///
    /// # Errors
    /// As [`Namespace::create`] and [`Namespace::resolve`]; `EISDIR` for a path that only a directory can have.
    pub fn create_path<'a>(
        &self,
        ctx: &OpCtx<'_>,
        path: impl Into<PathAt<'a>>,
        new: &NewNode<'_>,
        if_exists: IfExists,
    ) -> Result<(Inode, bool)> {
        if let Some(reply) = self.replayed(ctx)? {
            return reply.node();
        }
        let path = path.into();
        let how = if if_exists == IfExists::Fail { Final::Entry } else { Final::Follow };
        let parent = self.walk(ctx.caller, "create", path, how)?;
        let name = match (parent.last, if_exists) {
            (Last::Name(name), _) if !parent.slash => Ok(name),
            (Last::Dot | Last::DotDot | Last::Root, IfExists::Fail) => Err(Errno::EEXIST),
            _ => Err(Errno::EISDIR),
        };
        let name = name.map_err(|e| Error::new(e, "create", "the path is a directory's").at(path.describe()))?;
        self.create(ctx, parent.dir, &name, new, if_exists).map_err(|e| e.at(path.describe()))
    }

    /// [`Namespace::mkdir`] by path.
    ///
    /// # Errors
    /// As [`Namespace::mkdir`] and [`Namespace::resolve`].
    pub fn mkdir_path<'a>(&self, ctx: &OpCtx<'_>, path: impl Into<PathAt<'a>>, new: &NewNode<'_>) -> Result<Inode> {
        if let Some(reply) = self.replayed(ctx)? {
            return Ok(reply.node()?.0);
        }
        let path = path.into();
        let (dir, name, _) =
            place(self.walk(ctx.caller, "mkdir", path, Final::Entry)?, "mkdir", path, [Errno::EEXIST; 3])?;
        self.mkdir(ctx, dir, &name, new).map_err(|e| e.at(path.describe()))
    }

    /// [`Namespace::symlink`] by path.
    ///
    /// # Errors
    /// As [`Namespace::symlink`] and [`Namespace::resolve`].
    pub fn symlink_path<'a>(
        &self,
        ctx: &OpCtx<'_>,
        target: &[u8],
        path: impl Into<PathAt<'a>>,
        new: &NewNode<'_>,
    ) -> Result<Inode> {
        if let Some(reply) = self.replayed(ctx)? {
            return Ok(reply.node()?.0);
        }
        let path = path.into();
        let (dir, name) = place_of_no_dir(self, ctx.caller, "symlink", path)?;
        self.symlink(ctx, dir, &name, target, new).map_err(|e| e.at(path.describe()))
    }

    /// [`Namespace::link`] by path. A symbolic link at the end of `old` is followed if `follow` says so.
    ///
    /// # Errors
    /// As [`Namespace::link`] and [`Namespace::resolve`].
    pub fn link_path<'a>(
        &self,
        ctx: &OpCtx<'_>,
        old: impl Into<PathAt<'a>>,
        follow: bool,
        new: impl Into<PathAt<'a>>,
    ) -> Result<Inode> {
        if let Some(reply) = self.replayed(ctx)? {
            return Ok(reply.node()?.0);
        }
        let new = new.into();
        let inode = self.resolve_as(ctx.caller, old, follow)?;
        let (dir, name) = place_of_no_dir(self, ctx.caller, "link", new)?;
        self.link(ctx, inode.fid, dir, &name).map_err(|e| e.at(new.describe()))
    }

    /// [`Namespace::unlink`] by path. A symbolic link at its end is what goes.
    ///
    /// # Errors
    /// As [`Namespace::unlink`] and [`Namespace::resolve`].
    pub fn unlink_path<'a>(&self, ctx: &OpCtx<'_>, path: impl Into<PathAt<'a>>) -> Result<Removed> {
        if let Some(reply) = self.replayed(ctx)? {
            return reply.removed();
        }
        let path = path.into();
        let parent = self.walk(ctx.caller, "unlink", path, Final::Entry)?;
        let before_slash = parent.found.as_ref().filter(|_| parent.slash).map(|i| i.kind);
        let (dir, name, _) = place(parent, "unlink", path, [Errno::EISDIR; 3])?;
        match before_slash {
            Some(Kind::Dir) => return Err(Error::new(Errno::EISDIR, "unlink", "it is a directory").at(path.describe())),
            Some(_) => return Err(Error::new(Errno::ENOTDIR, "unlink", "not a directory").at(path.describe())),
            None => {}
        }
        self.unlink(ctx, dir, &name).map_err(|e| e.at(path.describe()))
    }

    /// [`Namespace::unmake`] by path. Symbolic links are followed, as they were when the file was made.
    ///
    /// # Errors
    /// As [`Namespace::unmake`] and [`Namespace::resolve`].
    pub fn unmake_path<'a>(
        &self,
        ctx: &OpCtx<'_>,
        path: impl Into<PathAt<'a>>,
        known: &Inode,
    ) -> Result<Option<Removed>> {
        if let Some(reply) = self.replayed(ctx)? {
            return reply.maybe_removed();
        }
        let path = path.into();
        let parent = self.walk(ctx.caller, "unmake", path, Final::Follow)?;
        match parent.last {
            Last::Name(name) => self.unmake(ctx, parent.dir, &name, known).map_err(|e| e.at(path.describe())),
            Last::Dot | Last::DotDot | Last::Root => Ok(None),
        }
    }

    /// [`Namespace::rmdir`] by path. `EINVAL` for ".", `ENOTEMPTY` for "..", `EBUSY` for the root.
    ///
    /// # Errors
    /// As [`Namespace::rmdir`] and [`Namespace::resolve`].
    pub fn rmdir_path<'a>(&self, ctx: &OpCtx<'_>, path: impl Into<PathAt<'a>>) -> Result<Removed> {
        if let Some(reply) = self.replayed(ctx)? {
            return reply.removed();
        }
        let path = path.into();
        let special = [Errno::EINVAL, Errno::ENOTEMPTY, Errno::EBUSY];
        let (dir, name, _) = place(self.walk(ctx.caller, "rmdir", path, Final::Entry)?, "rmdir", path, special)?;
        self.rmdir(ctx, dir, &name).map_err(|e| e.at(path.describe()))
    }

    /// [`Namespace::rename`] by paths. Symbolic links at their ends are what is renamed and replaced. `EBUSY` for
    /// ".", ".." and the root.
    ///
    /// # Errors
    /// As [`Namespace::rename`] and [`Namespace::resolve`]; `ENOTDIR` if a slash follows what is no directory.
    pub fn rename_path<'a>(
        &self,
        ctx: &OpCtx<'_>,
        old: impl Into<PathAt<'a>>,
        new: impl Into<PathAt<'a>>,
        mode: RenameMode,
    ) -> Result<Option<Removed>> {
        if let Some(reply) = self.replayed(ctx)? {
            return reply.maybe_removed();
        }
        let (old, new) = (old.into(), new.into());
        let walk = |path| self.walk(ctx.caller, "rename", path, Final::Entry);
        let (from, to) = (walk(old)?, walk(new)?);
        let kind = |p: &Parent| p.found.as_ref().map(|i| i.kind);
        let (moved, there) = (kind(&from), kind(&to));
        let (dir, name, slash) = place(from, "rename", old, [Errno::EBUSY; 3])?;
        let (new_dir, new_name, new_slash) = place(to, "rename", new, [Errno::EBUSY; 3])?;
        let error = |errno, why, path: PathAt<'_>| Err(Error::new(errno, "rename", why).at(path.describe()));
        match (moved, there, mode) {
            (None, ..) => return error(Errno::ENOENT, "no such file or directory", old),
            (_, Some(_), RenameMode::NoReplace) => return error(Errno::EEXIST, "the name exists already", new),
            (_, None, RenameMode::Exchange) => return error(Errno::ENOENT, "there is nothing to exchange with", new),
            _ => {}
        }
        // What ends up at a path that only a directory can have must be one.
        let becomes_new = moved != Some(Kind::Dir) && new_slash && mode != RenameMode::Exchange;
        let stays_new = there != Some(Kind::Dir) && new_slash && mode == RenameMode::Exchange;
        if moved != Some(Kind::Dir) && slash {
            return error(Errno::ENOTDIR, "not a directory", old);
        } else if becomes_new || stays_new {
            return error(Errno::ENOTDIR, "only a directory can have a name that a slash follows", new);
        }
        self.rename(ctx, (dir, &name), (new_dir, &new_name), mode).map_err(|e| e.at(old.describe()))
    }
}

/// Directory, name and slash of a path that ends in a name; else the errno given for ".", ".." or the root.
fn place(
    parent: Parent,
    op: &'static str,
    path: PathAt<'_>,
    [dot, dot_dot, root]: [Errno; 3],
) -> Result<(Fid, Vec<u8>, bool)> {
    let errno = match parent.last {
        Last::Name(name) => return Ok((parent.dir, name, parent.slash)),
        Last::Dot => dot,
        Last::DotDot => dot_dot,
        Last::Root => root,
    };
    Err(Error::new(errno, op, "the path must end in a name").at(path.describe()))
}

/// Directory and name for something new that is no directory.
fn place_of_no_dir(ns: &Namespace, caller: &Caller, op: &'static str, path: PathAt<'_>) -> Result<(Fid, Vec<u8>)> {
    let parent = ns.walk(caller, op, path, Final::Entry)?;
    let exists = parent.found.is_some();
    let (dir, name, slash) = place(parent, op, path, [Errno::EEXIST; 3])?;
    match (slash, exists) {
        (true, false) => Err(Error::new(
            Errno::ENOENT,
            op,
            "only a directory can have a name that a slash follows, and this doesn't make one",
        )
        .at(path.describe())),
        _ => Ok((dir, name)),
    }
}
