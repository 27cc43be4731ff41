//! Layouts of files and directories.

use super::{Client, new_node};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::{FileLayout, Layout};
use clio_namespace::{IfExists, Inode, Kind, NewNode};
use std::path::Path;

impl Client {
    /// The layout of a file; of one that was never opened, the one that it will get.
    ///
    /// # Errors
    /// `EISDIR` for a directory (see [`Client::dir_layout`]), `ENOENT` and the like.
    pub fn layout(&self, path: impl AsRef<Path>) -> Result<(Fid, FileLayout)> {
        let shown = path.as_ref().display().to_string();
        let inode = self.names()?.resolve(path.as_ref().into(), true)?;
        if inode.kind != Kind::File {
            return Err(Error::new(Errno::EISDIR, "layout", "it is no file").at(shown));
        }
        let inode = self.ensure_layout(path.as_ref(), inode)?;
        Ok((inode.fid, FileLayout::decode(&inode.layout).map_err(|e| e.at(shown))?))
    }

    /// The layout that files made in a directory get; `None` if it has no wish.
    ///
    /// # Errors
    /// `ENOENT` and the like.
    pub fn dir_layout(&self, path: impl AsRef<Path>) -> Result<Option<FileLayout>> {
        let inode = self.names()?.resolve(path.as_ref().into(), true)?;
        match inode.default_layout.is_empty() {
            true => Ok(None),
            false => FileLayout::decode(&inode.default_layout).map(Some),
        }
    }

    /// Sets the layout of a directory's future files, or makes an empty file with this layout.
    ///
    /// # Errors
    /// `EEXIST` if a file exists already; `EINVAL` for a layout that the store can't have.
    pub fn set_layout(&self, path: impl AsRef<Path>, layout: &Layout) -> Result<()> {
        let path = path.as_ref();
        let encoded = self.check_layout(layout).map_err(|e| e.at(path.display().to_string()))?;
        let ctx = crate::store::now();
        match self.names()?.resolve(path.into(), true) {
            Ok(inode) if inode.kind == Kind::Dir => self.names()?.set_layout(&ctx, inode.fid, &encoded),
            _ => {
                let new = NewNode { layout: Some(&encoded), ..new_node(0o666) };
                self.names()?.create(&ctx, path.into(), &new, IfExists::Fail).map(drop)
            }
        }
    }

    /// A file made without a layout of its own or its directory's gets the one that this client's settings have for its
    /// path when it is first opened.
    pub(super) fn ensure_layout(&self, path: &Path, mut inode: Inode) -> Result<Inode> {
        if inode.layout.is_empty() {
            // Two clients may do this at once: the first one's counts.
            let layout = FileLayout::new(&self.inner.config.layout_for(path))?.encode();
            let ctx = crate::store::now();
            inode.layout = self.names()?.replace_layout(&ctx, inode.fid, &[], &layout)?;
        }
        Ok(inode)
    }

    /// Encodes a layout that was asked for, if the store can have it.
    pub(super) fn check_layout(&self, layout: &Layout) -> Result<Vec<u8>> {
        self.check_process()?;
        layout.check_on(&self.inner.store.target_space())?;
        Ok(FileLayout::new(layout)?.encode())
    }
}
