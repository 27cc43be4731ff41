//! What a client asks of a namespace, wherever that lives: in this process, or at a daemon.

use crate::{
    DirEntry, Doomed, IfExists, Inode, Namespace, NewNode, OpCtx, PathAt, Removed, RenameMode, SetAttr, XattrMode,
};
use clio_core::Result;
use clio_core::units::Fid;
use std::fmt::Debug;

/// The operations of a [`Namespace`] that clients use. Where it is another process's, that one stamps them, by its own
/// clock, and gives them ids of its own, so that each is run once even where messages get lost. All block.
///
/// # Errors
/// Those of the methods of [`Namespace`] with the same names; besides, where the namespace is another process's, what
/// the way there gives.
#[expect(clippy::missing_errors_doc, reason = "said once for all")]
pub trait Names: Send + Sync + Debug {
    /// The inode at a path.
    fn resolve(&self, path: PathAt<'_>, follow: bool) -> Result<Inode>;
    /// An inode by its FID.
    fn getattr(&self, fid: Fid) -> Result<Inode>;
    /// Some entries of a directory, after the name given.
    fn readdir(&self, dir: Fid, after: Option<&[u8]>, limit: usize) -> Result<Vec<DirEntry>>;
    /// Where a symbolic link leads.
    fn readlink(&self, fid: Fid) -> Result<Vec<u8>>;
    /// Makes a file, or finds the one that is there; whether it was made.
    fn create(&self, ctx: &OpCtx, path: PathAt<'_>, new: &NewNode<'_>, if_exists: IfExists) -> Result<(Inode, bool)>;
    /// Makes a directory.
    fn mkdir(&self, ctx: &OpCtx, path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode>;
    /// Makes a symbolic link.
    fn symlink(&self, ctx: &OpCtx, target: &[u8], path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode>;
    /// Gives a file another name.
    fn link(&self, ctx: &OpCtx, old: PathAt<'_>, follow: bool, new: PathAt<'_>) -> Result<Inode>;
    /// Removes a name. What is to be destroyed then is the caller's to destroy, if the answer names it.
    fn unlink(&self, ctx: &OpCtx, path: PathAt<'_>) -> Result<Removed>;
    /// Takes the name of a new file away again that its maker can't open, if it is as `known` and nobody else has come to
    /// use it; `None` if somebody has.
    fn unmake(&self, ctx: &OpCtx, path: PathAt<'_>, known: &Inode) -> Result<Option<Removed>>;
    /// Removes an empty directory.
    fn rmdir(&self, ctx: &OpCtx, path: PathAt<'_>) -> Result<Removed>;
    /// Renames; what was replaced.
    fn rename(&self, ctx: &OpCtx, old: PathAt<'_>, new: PathAt<'_>, mode: RenameMode) -> Result<Option<Removed>>;
    /// Sets attributes.
    fn setattr(&self, ctx: &OpCtx, fid: Fid, set: &SetAttr) -> Result<Inode>;
    /// The encoded layout of a file.
    fn get_layout(&self, fid: Fid) -> Result<Vec<u8>>;
    /// Sets the encoded layout of a file, or of a directory's future files.
    fn set_layout(&self, ctx: &OpCtx, fid: Fid, layout: &[u8]) -> Result<()>;
    /// Puts `new` in the place of a file's layout if that is still `old`. Returns the layout after that: another one than
    /// `new` if somebody was faster.
    fn replace_layout(&self, ctx: &OpCtx, fid: Fid, old: &[u8], new: &[u8]) -> Result<Vec<u8>>;
    /// Sets an extended attribute.
    fn set_xattr(&self, ctx: &OpCtx, fid: Fid, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
    /// The value of an extended attribute.
    fn get_xattr(&self, fid: Fid, name: &[u8]) -> Result<Vec<u8>>;
    /// The names of all extended attributes.
    fn list_xattrs(&self, fid: Fid) -> Result<Vec<Vec<u8>>>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, ctx: &OpCtx, fid: Fid, name: &[u8]) -> Result<()>;
    /// Notes that a file is open once more.
    fn open_ref(&self, fid: Fid) -> Result<()>;
    /// Takes one such note back. What is to be destroyed then is the caller's to destroy, if the answer names it.
    fn close_ref(&self, fid: Fid) -> Result<Option<Doomed>>;
    /// Dates the last read of a file whose data was last changed at `changed` (nanoseconds since 1970), if that is worth
    /// it: see [`clio_core::clock::is_read_worth_noting`].
    fn note_read(&self, ctx: &OpCtx, fid: Fid, changed: u64) -> Result<()>;
    /// Makes all that was done durable.
    fn sync(&self) -> Result<()>;
}

impl Names for Namespace {
    fn resolve(&self, path: PathAt<'_>, follow: bool) -> Result<Inode> {
        Namespace::resolve(self, path, follow)
    }
    fn getattr(&self, fid: Fid) -> Result<Inode> {
        Namespace::getattr(self, fid)
    }
    fn readdir(&self, dir: Fid, after: Option<&[u8]>, limit: usize) -> Result<Vec<DirEntry>> {
        Namespace::readdir(self, dir, after, limit)
    }
    fn readlink(&self, fid: Fid) -> Result<Vec<u8>> {
        Namespace::readlink(self, fid)
    }
    fn create(&self, ctx: &OpCtx, path: PathAt<'_>, new: &NewNode<'_>, if_exists: IfExists) -> Result<(Inode, bool)> {
        Namespace::create_path(self, ctx, path, new, if_exists)
    }
    fn mkdir(&self, ctx: &OpCtx, path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode> {
        Namespace::mkdir_path(self, ctx, path, new)
    }
    fn symlink(&self, ctx: &OpCtx, target: &[u8], path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode> {
        Namespace::symlink_path(self, ctx, target, path, new)
    }
    fn link(&self, ctx: &OpCtx, old: PathAt<'_>, follow: bool, new: PathAt<'_>) -> Result<Inode> {
        Namespace::link_path(self, ctx, old, follow, new)
    }
    fn unlink(&self, ctx: &OpCtx, path: PathAt<'_>) -> Result<Removed> {
        Namespace::unlink_path(self, ctx, path)
    }
    fn unmake(&self, ctx: &OpCtx, path: PathAt<'_>, known: &Inode) -> Result<Option<Removed>> {
        Namespace::unmake_path(self, ctx, path, known)
    }
    fn rmdir(&self, ctx: &OpCtx, path: PathAt<'_>) -> Result<Removed> {
        Namespace::rmdir_path(self, ctx, path)
    }
    fn rename(&self, ctx: &OpCtx, old: PathAt<'_>, new: PathAt<'_>, mode: RenameMode) -> Result<Option<Removed>> {
        Namespace::rename_path(self, ctx, old, new, mode)
    }
    fn setattr(&self, ctx: &OpCtx, fid: Fid, set: &SetAttr) -> Result<Inode> {
        Namespace::setattr(self, ctx, fid, set)
    }
    fn get_layout(&self, fid: Fid) -> Result<Vec<u8>> {
        Namespace::get_layout(self, fid)
    }
    fn set_layout(&self, ctx: &OpCtx, fid: Fid, layout: &[u8]) -> Result<()> {
        Namespace::set_layout(self, ctx, fid, layout)
    }
    fn replace_layout(&self, ctx: &OpCtx, fid: Fid, old: &[u8], new: &[u8]) -> Result<Vec<u8>> {
        Namespace::replace_layout(self, ctx, fid, old, new)
    }
    fn set_xattr(&self, ctx: &OpCtx, fid: Fid, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        Namespace::set_xattr(self, ctx, fid, name, value, mode)
    }
    fn get_xattr(&self, fid: Fid, name: &[u8]) -> Result<Vec<u8>> {
        Namespace::get_xattr(self, fid, name)
    }
    fn list_xattrs(&self, fid: Fid) -> Result<Vec<Vec<u8>>> {
        Namespace::list_xattrs(self, fid)
    }
    fn remove_xattr(&self, ctx: &OpCtx, fid: Fid, name: &[u8]) -> Result<()> {
        Namespace::remove_xattr(self, ctx, fid, name)
    }
    fn open_ref(&self, fid: Fid) -> Result<()> {
        Namespace::open_ref(self, fid)
    }
    fn close_ref(&self, fid: Fid) -> Result<Option<Doomed>> {
        Namespace::close_ref(self, fid)
    }
    fn note_read(&self, ctx: &OpCtx, fid: Fid, changed: u64) -> Result<()> {
        Namespace::note_read(self, ctx, fid, changed)
    }
    fn sync(&self) -> Result<()> {
        Namespace::sync(self)
    }
}
