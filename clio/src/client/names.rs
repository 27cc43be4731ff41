//! Directories, names and links.

use super::{Client, new_node};
use crate::metadata::DirEntry;
use clio_core::{Errno, Error, Result};
use clio_namespace::{Kind, RenameMode};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Directory entries read at a time.
const READDIR_BATCH: usize = 1024;

impl Client {
    /// Makes a directory.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `ENOSPC`.
    pub fn mkdir(&self, path: impl AsRef<Path>) -> Result<()> {
        let ctx = crate::store::now();
        self.names()?.mkdir(&ctx, path.as_ref().into(), &new_node(0o777)).map(drop)
    }

    /// Makes a directory and those above it that are missing.
    ///
    /// # Errors
    /// As [`Client::mkdir`], but it is no error if the directory exists.
    pub fn mkdir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        for part in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            match self.mkdir(part) {
                Err(e) if e.errno() == Errno::EEXIST => {}
                Err(e) if part.parent().is_none() || part.as_os_str().is_empty() => drop(e),
                other => other?,
            }
        }
        match self.names()?.resolve(path.into(), true)?.kind {
            Kind::Dir => Ok(()),
            _ => {
                Err(Error::new(Errno::EEXIST, "mkdir", "it exists and is no directory").at(path.display().to_string()))
            }
        }
    }

    /// The entries of a directory, in byte order of their names.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirEntry>> {
        let dir = self.names()?.resolve(path.as_ref().into(), true)?.fid;
        let mut all: Vec<DirEntry> = Vec::new();
        loop {
            let after = all.last().map(|e| e.name().as_bytes().to_vec());
            let batch = self.names()?.readdir(dir, after.as_deref(), READDIR_BATCH);
            let batch = batch.map_err(|e| e.at(path.as_ref().display().to_string()))?;
            let last = batch.len() < READDIR_BATCH;
            all.extend(batch.into_iter().map(DirEntry::new));
            if last {
                return Ok(all);
            }
        }
    }

    /// Removes a name of a file or symbolic link. The data goes with the last name and the last open file.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `ENOTDIR`.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let removed = self.names()?.unlink(&crate::store::now(), path.as_ref().into())?;
        self.inner.removed(Some(removed));
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EBUSY` for the root.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.names()?.rmdir(&crate::store::now(), path.as_ref().into()).map(drop)
    }

    /// Removes a directory and all that is below it.
    ///
    /// # Errors
    /// As [`Client::remove_file`] and [`Client::remove_dir`]; what was removed before the error stays removed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        for entry in self.read_dir(path)? {
            let below = path.join(entry.name());
            match entry.file_type() {
                crate::FileType::Dir => self.remove_dir_all(&below)?,
                _ => self.remove_file(&below)?,
            }
        }
        self.remove_dir(path)
    }

    /// Renames, replacing a file (or an empty directory, by a directory) at the new name.
    ///
    /// # Errors
    /// As rename(2): `ENOENT`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`, `EINVAL` into itself, `EBUSY`.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// Renames, with a choice of what happens to what is at the new name.
    ///
    /// # Errors
    /// As [`Client::rename`]; `EEXIST` for [`RenameMode::NoReplace`].
    pub fn rename_with(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, mode: RenameMode) -> Result<()> {
        let ctx = crate::store::now();
        let removed = self.names()?.rename(&ctx, from.as_ref().into(), to.as_ref().into(), mode)?;
        self.inner.removed(removed);
        Ok(())
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `EPERM` for a directory, `EMLINK`.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let ctx = crate::store::now();
        self.names()?.link(&ctx, original.as_ref().into(), false, link.as_ref().into()).map(drop)
    }

    /// Makes a symbolic link at `link` to `target`, which need not exist.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENAMETOOLONG`.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let ctx = crate::store::now();
        let target = target.as_ref().as_os_str().as_bytes();
        self.names()?.symlink(&ctx, target, link.as_ref().into(), &new_node(0o777)).map(drop)
    }

    /// What a symbolic link points at.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` if it is none.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let inode = self.names()?.resolve(path.as_ref().into(), false)?;
        let target = self.names()?.readlink(inode.fid).map_err(|e| e.at(path.as_ref().display().to_string()))?;
        Ok(OsString::from_vec(target).into())
    }
}
