//! A namespace as one user sees it.

use crate::caller::{Access, Caller};
use crate::names::Names;
use crate::namespace::{Namespace, OpCtx};
use crate::opened::Opened;
use crate::{DirEntry, Doomed, IfExists, Inode, NewNode, PathAt, Removed, RenameMode, SetAttr, XattrMode};
use clio_core::Result;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::units::Fid;
use std::sync::Arc;

/// The names of a [`Namespace`] in this process, with the rights of one caller, whatever caller an operation names.
#[derive(Debug)]
pub struct UserNames {
    namespace: Arc<Namespace>,
    caller: Caller,
    opened: RankedMutex<Opened>,
}

impl UserNames {
    /// `namespace` for `caller`.
    pub fn new(namespace: Arc<Namespace>, caller: Caller) -> Self {
        Self { namespace, caller, opened: RankedMutex::new(LockRank::Leaf, Opened::default()) }
    }
}

impl Names for UserNames {
    fn resolve(&self, path: PathAt<'_>, follow: bool) -> Result<Inode> {
        self.namespace.resolve_as(&self.caller, path, follow)
    }
    fn getattr(&self, fid: Fid) -> Result<Inode> {
        self.namespace.getattr(fid)
    }
    fn readdir(&self, dir: Fid, after: Option<&[u8]>, limit: usize) -> Result<Vec<DirEntry>> {
        self.namespace.readdir_as(&self.caller, dir, after, limit)
    }
    fn readlink(&self, fid: Fid) -> Result<Vec<u8>> {
        self.namespace.readlink(fid)
    }
    fn create(
        &self,
        ctx: &OpCtx<'_>,
        path: PathAt<'_>,
        new: &NewNode<'_>,
        if_exists: IfExists,
    ) -> Result<(Inode, bool)> {
        let created = self.namespace.create_path(&ctx.by(&self.caller), path, new, if_exists)?;
        self.opened.lock().created(&created);
        Ok(created)
    }
    fn mkdir(&self, ctx: &OpCtx<'_>, path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode> {
        self.namespace.mkdir_path(&ctx.by(&self.caller), path, new)
    }
    fn symlink(&self, ctx: &OpCtx<'_>, target: &[u8], path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode> {
        self.namespace.symlink_path(&ctx.by(&self.caller), target, path, new)
    }
    fn link(&self, ctx: &OpCtx<'_>, old: PathAt<'_>, follow: bool, new: PathAt<'_>) -> Result<Inode> {
        self.namespace.link_path(&ctx.by(&self.caller), old, follow, new)
    }
    fn unlink(&self, ctx: &OpCtx<'_>, path: PathAt<'_>) -> Result<Removed> {
        self.namespace.unlink_path(&ctx.by(&self.caller), path)
    }
    fn unmake(&self, ctx: &OpCtx<'_>, path: PathAt<'_>, known: &Inode) -> Result<Option<Removed>> {
        self.namespace.unmake_path(&ctx.by(&self.caller), path, known)
    }
    fn rmdir(&self, ctx: &OpCtx<'_>, path: PathAt<'_>) -> Result<Removed> {
        self.namespace.rmdir_path(&ctx.by(&self.caller), path)
    }
    fn rename(&self, ctx: &OpCtx<'_>, old: PathAt<'_>, new: PathAt<'_>, mode: RenameMode) -> Result<Option<Removed>> {
        self.namespace.rename_path(&ctx.by(&self.caller), old, new, mode)
    }
    fn setattr(&self, ctx: &OpCtx<'_>, fid: Fid, set: &SetAttr) -> Result<Inode> {
        self.namespace.setattr(&ctx.by(&self.caller), fid, set)
    }
    fn get_layout(&self, fid: Fid) -> Result<Vec<u8>> {
        self.namespace.get_layout(fid)
    }
    fn set_layout(&self, ctx: &OpCtx<'_>, fid: Fid, layout: &[u8]) -> Result<()> {
        self.namespace.set_layout(&ctx.by(&self.caller), fid, layout)
    }
    fn replace_layout(&self, ctx: &OpCtx<'_>, fid: Fid, old: &[u8], new: &[u8]) -> Result<Vec<u8>> {
        let caller = self.opened.lock().layout_caller(fid, &self.caller);
        self.namespace.replace_layout(&ctx.by(caller), fid, old, new)
    }
    fn set_xattr(&self, ctx: &OpCtx<'_>, fid: Fid, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.namespace.set_xattr(&ctx.by(&self.caller), fid, name, value, mode)
    }
    fn get_xattr(&self, fid: Fid, name: &[u8]) -> Result<Vec<u8>> {
        self.namespace.get_xattr_as(&self.caller, fid, name)
    }
    fn list_xattrs(&self, fid: Fid) -> Result<Vec<Vec<u8>>> {
        self.namespace.list_xattrs_as(&self.caller, fid)
    }
    fn remove_xattr(&self, ctx: &OpCtx<'_>, fid: Fid, name: &[u8]) -> Result<()> {
        self.namespace.remove_xattr(&ctx.by(&self.caller), fid, name)
    }
    fn touch(&self, ctx: &OpCtx<'_>, fid: Fid) -> Result<()> {
        self.namespace.touch(&ctx.by(&self.caller), fid)
    }
    fn access(&self, path: PathAt<'_>, access: Access) -> Result<()> {
        self.namespace.access(&self.caller, path, access)
    }
    fn open_ref(&self, fid: Fid, access: Access) -> Result<()> {
        let made = self.opened.lock().take_made(fid);
        let ctx = OpCtx::at(clio_core::clock::now_ns());
        match made {
            true => self.namespace.open_ref(fid)?,
            false => self.namespace.open_for(&ctx.by(&self.caller), fid, access)?,
        }
        self.opened.lock().open(fid, access);
        Ok(())
    }
    fn close_ref(&self, fid: Fid) -> Result<Option<Doomed>> {
        self.opened.lock().close(fid)?;
        self.namespace.close_ref(fid)
    }
    fn note_read(&self, ctx: &OpCtx<'_>, fid: Fid, changed: u64) -> Result<()> {
        self.namespace.note_read(ctx, fid, changed)
    }
    fn sync(&self) -> Result<()> {
        self.namespace.sync()
    }
}
