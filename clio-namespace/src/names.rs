//! What a client asks of a namespace, wherever that lives: in this process, or at a daemon.

use crate::{
    Access, DirEntry, Doomed, IfExists, Inode, NewNode, OpCtx, PathAt, Removed, RenameMode, SetAttr, XattrMode,
};
use clio_core::Result;
use clio_core::units::Fid;
use std::fmt::Debug;

/// The operations of a [`Namespace`](crate::Namespace) that clients use. Where it is another process's, that one stamps them, by its own
/// clock, and gives them ids of its own, so that each is run once even where messages get lost. All block.
///
/// # Errors
/// Those of the methods of [`Namespace`](crate::Namespace) with the same names; besides, where the namespace is another process's, what
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
    fn create(
        &self,
        ctx: &OpCtx<'_>,
        path: PathAt<'_>,
        new: &NewNode<'_>,
        if_exists: IfExists,
    ) -> Result<(Inode, bool)>;
    /// Makes a directory.
    fn mkdir(&self, ctx: &OpCtx<'_>, path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode>;
    /// Makes a symbolic link.
    fn symlink(&self, ctx: &OpCtx<'_>, target: &[u8], path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode>;
    /// Gives a file another name.
    fn link(&self, ctx: &OpCtx<'_>, old: PathAt<'_>, follow: bool, new: PathAt<'_>) -> Result<Inode>;
    /// Removes a name. What is to be destroyed then is the caller's to destroy, if the answer names it.
    fn unlink(&self, ctx: &OpCtx<'_>, path: PathAt<'_>) -> Result<Removed>;
    /// Takes the name of a new file away again that its maker can't open, if it is as `known` and nobody else has come to
    /// use it; `None` if somebody has.
    fn unmake(&self, ctx: &OpCtx<'_>, path: PathAt<'_>, known: &Inode) -> Result<Option<Removed>>;
    /// Removes an empty directory.
    fn rmdir(&self, ctx: &OpCtx<'_>, path: PathAt<'_>) -> Result<Removed>;
    /// Renames; what was replaced.
    fn rename(&self, ctx: &OpCtx<'_>, old: PathAt<'_>, new: PathAt<'_>, mode: RenameMode) -> Result<Option<Removed>>;
    /// Sets attributes.
    fn setattr(&self, ctx: &OpCtx<'_>, fid: Fid, set: &SetAttr) -> Result<Inode>;
    /// The encoded layout of a file.
    fn get_layout(&self, fid: Fid) -> Result<Vec<u8>>;
    /// Sets the encoded layout of a file, or of a directory's future files.
    fn set_layout(&self, ctx: &OpCtx<'_>, fid: Fid, layout: &[u8]) -> Result<()>;
    /// Puts `new` in the place of a file's layout if that is still `old`. Returns the layout after that: another one than
    /// `new` if somebody was faster.
    fn replace_layout(&self, ctx: &OpCtx<'_>, fid: Fid, old: &[u8], new: &[u8]) -> Result<Vec<u8>>;
    /// Sets an extended attribute.
    fn set_xattr(&self, ctx: &OpCtx<'_>, fid: Fid, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
    /// The value of an extended attribute.
    fn get_xattr(&self, fid: Fid, name: &[u8]) -> Result<Vec<u8>>;
    /// The names of all extended attributes.
    fn list_xattrs(&self, fid: Fid) -> Result<Vec<Vec<u8>>>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, ctx: &OpCtx<'_>, fid: Fid, name: &[u8]) -> Result<()>;
    /// Sets the times to now, as whoever may write may.
    fn touch(&self, ctx: &OpCtx<'_>, fid: Fid) -> Result<()>;
    /// That what a path names may be accessed so.
    fn access(&self, path: PathAt<'_>, access: Access) -> Result<()>;
    /// Notes that a file is open once more, for access of that kind. A file that this one has made it may open for any, once.
    fn open_ref(&self, fid: Fid, access: Access) -> Result<()>;
    /// Takes one such note back. What is to be destroyed then is the caller's to destroy, if the answer names it.
    fn close_ref(&self, fid: Fid) -> Result<Option<Doomed>>;
    /// Dates the last read of a file whose data was last changed at `changed` (nanoseconds since 1970), if that is worth
    /// it: see [`clio_core::clock::is_read_worth_noting`].
    fn note_read(&self, ctx: &OpCtx<'_>, fid: Fid, changed: u64) -> Result<()>;
    /// Makes all that was done durable.
    fn sync(&self) -> Result<()>;
}
