//! Attributes of what names name.

use super::Client;
use crate::metadata::{FileType, Metadata};
use clio_core::Result;
use clio_core::env::{Env, EnvTags};
use clio_core::units::Fid;
use clio_namespace::{Access, Inode, Kind, SetAttr, XattrMode};
use std::path::Path;

impl Client {
    /// Attributes of what `path` names, following symbolic links.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`; what targets say.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        let inode = self.names()?.resolve(path.into(), true)?;
        self.inode_metadata(inode).map_err(|e| e.at(path.display().to_string()))
    }

    /// Attributes of what `path` names; a symbolic link at its end is not followed.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        let inode = self.names()?.resolve(path.into(), false)?;
        self.inode_metadata(inode).map_err(|e| e.at(path.display().to_string()))
    }

    /// What `path` names; a symbolic link at its end is not followed. Asks no target, so that it is known of a damaged file
    /// too.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`.
    pub fn identity(&self, path: impl AsRef<Path>) -> Result<(Fid, FileType)> {
        let inode = self.names()?.resolve(path.as_ref().into(), false)?;
        Ok((inode.fid, inode.kind.into()))
    }

    pub(crate) fn inode_metadata(&self, inode: Inode) -> Result<Metadata> {
        if inode.kind != Kind::File || inode.layout.is_empty() {
            return Ok(Metadata::new(inode, None));
        }
        let object = self.object(&inode)?;
        let attr = object.glimpse(&Env::get(EnvTags::IO)).map_err(|e| e.on(inode.fid))?;
        Ok(Metadata::new(inode, Some(attr)))
    }

    pub(crate) fn metadata_of(&self, fid: Fid) -> Result<Metadata> {
        self.inode_metadata(self.names()?.getattr(fid)?)
    }

    /// That this client may access what `path` names so, as access(2) says it of the effective user. [`Access::NONE`] asks
    /// only whether it is there.
    ///
    /// # Errors
    /// `EACCES` if not, or if a directory on the way may not be searched; `ENOENT` and the like.
    pub fn access(&self, path: impl AsRef<Path>, access: Access) -> Result<()> {
        self.names()?.access(path.as_ref().into(), access)
    }

    /// Sets the times of the last read and the last change to now, as utimensat(2) without times: whoever may write may.
    ///
    /// # Errors
    /// `EACCES`; `ENOENT` and the like.
    pub fn touch(&self, path: impl AsRef<Path>) -> Result<()> {
        let inode = self.names()?.resolve(path.as_ref().into(), true)?;
        self.names()?.touch(&crate::store::now(), inode.fid)
    }

    /// Whether `path` names something.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.names().and_then(|names| names.resolve(path.as_ref().into(), true)).is_ok()
    }

    /// Sets permission bits.
    ///
    /// # Errors
    /// `EPERM` for others than the owner; `ENOENT` and the like.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        self.set_attributes(path, &SetAttr { mode: Some(mode), ..SetAttr::default() })
    }

    /// Sets owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// `EPERM` if the caller isn't who may; `ENOENT` and the like.
    pub fn set_owner(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.set_attributes(path, &SetAttr { uid, gid, ..SetAttr::default() })
    }

    /// Sets times, nanoseconds since 1970; `None` leaves one as it is.
    ///
    /// # Errors
    /// `EPERM` if the caller isn't who may; `ENOENT` and the like.
    pub fn set_times(&self, path: impl AsRef<Path>, atime: Option<u64>, mtime: Option<u64>) -> Result<()> {
        let inode = self.names()?.resolve(path.as_ref().into(), true)?;
        if inode.kind == Kind::File && !inode.layout.is_empty() {
            // Data written before must not be stamped later than this.
            if let Some(object) = self.inner.stack.lookup(inode.fid) {
                self.inner.stack.flush(&object)?;
            }
        }
        self.set_attributes(path, &SetAttr { atime, mtime, ..SetAttr::default() })
    }

    fn set_attributes(&self, path: impl AsRef<Path>, set: &SetAttr) -> Result<()> {
        let inode = self.names()?.resolve(path.as_ref().into(), true)?;
        self.names()?.setattr(&crate::store::now(), inode.fid, set).map(drop)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA` by mode; `ENOSPC` for too much.
    pub fn set_xattr(&self, path: impl AsRef<Path>, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let inode = self.names()?.resolve(path.as_ref().into(), true)?;
        self.names()?.set_xattr(&crate::store::now(), inode.fid, name, value, mode)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub fn get_xattr(&self, path: impl AsRef<Path>, name: &[u8]) -> Result<Vec<u8>> {
        self.names()?.get_xattr(self.names()?.resolve(path.as_ref().into(), true)?.fid, name)
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `ENOENT` and the like.
    pub fn list_xattrs(&self, path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>> {
        self.names()?.list_xattrs(self.names()?.resolve(path.as_ref().into(), true)?.fid)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: &[u8]) -> Result<()> {
        let fid = self.names()?.resolve(path.as_ref().into(), true)?.fid;
        self.names()?.remove_xattr(&crate::store::now(), fid, name)
    }
}
