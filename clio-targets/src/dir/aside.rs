//! Objects that belong to no file, kept for people to look at.

use super::table::Slot;
use super::{DirStore, layout};
use crate::store::ObjectStore;
use clio_core::sync::atomic::Ordering;
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

impl DirStore {
    /// Takes an object out of the store: moves its data and checksums into the folder `aside`, which nothing else uses,
    /// and returns the data's new place: its name, with a number if there is one of that name already. An object that is
    /// empty is destroyed. To take it back, move both files to where they were.
    ///
    /// # Errors
    /// `ENOENT` if there is no such object; errors of the disk.
    pub fn set_aside(&self, fid: Fid) -> Result<Option<PathBuf>> {
        if self.getattr(fid).is_ok_and(|attr| attr.size == 0) {
            return self.destroy(fid).map(|()| None);
        }
        let fail = |e| Error::from_io("set aside", e).on(fid);
        let place = self.table.place(fid);
        let mut slot = place.slot.write();
        // Damaged ones can be moved too.
        if let (Ok(()), Slot::Missing) = (self.fill(fid, &mut slot), &*slot) {
            return Err(Error::new(Errno::ENOENT, "set aside", "no such object").on(fid));
        }
        if let Slot::Open(object) = &mut *slot {
            object.set_clean()?;
        }
        *slot = Slot::Unknown;
        let aside = self.root.join("aside");
        fs::create_dir_all(&aside).map_err(fail)?;
        let (data, side) = (layout::data(&self.root, fid), layout::side(&self.root, fid));
        let to = free_name(&aside, &data).map_err(fail)?;
        // The data last: as long as it is there, the object isn't taken for missing.
        self.remove(layout::trace(&self.root, fid), fid)?;
        match fs::rename(&side, extended(&to, "sum")) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        fs::rename(&data, &to).map_err(fail)?;
        *slot = Slot::Missing;
        self.made.fetch_sub(1, Ordering::Relaxed);
        Ok(Some(to))
    }
}

/// A path in the folder `aside` that neither a file with the name of `data`, nor its checksums, have taken.
fn free_name(aside: &Path, data: &Path) -> std::io::Result<PathBuf> {
    let plain = aside.join(data.file_name().unwrap_or_default());
    let numbered = (1..).map(|n: u64| extended(&plain, &n.to_string()));
    for path in std::iter::once(plain.clone()).chain(numbered) {
        if !path.try_exists()? && !extended(&path, "sum").try_exists()? {
            return Ok(path);
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// The path with one more extension.
fn extended(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}
