//! Objects that belong to no file, kept for people to look at.

use super::table::Slot;
use super::{DirStore, layout};
use crate::store::ObjectStore;
use clio_core::sync::atomic::Ordering;
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

impl DirStore {
    /// Takes an object out of the store: moves its data and checksums into the folder `aside`, which nothing else uses,
    /// and returns the data's new place. An object that is empty is destroyed. To take it back, move both files to where
    /// they were.
    ///
    /// # Errors
    /// `ENOENT` if there is no such object, `EEXIST` if there is one aside already; errors of the disk.
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
        let to = |from: &PathBuf| aside.join(from.file_name().unwrap_or_default());
        if to(&data).try_exists().map_err(fail)? {
            return Err(Error::new(Errno::EEXIST, "set aside", "the folder 'aside' has one of its name").on(fid));
        }
        // The data last: as long as it is there, the object isn't taken for missing.
        self.remove(layout::trace(&self.root, fid), fid)?;
        match fs::rename(&side, to(&side)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        fs::rename(&data, to(&data)).map_err(fail)?;
        *slot = Slot::Missing;
        self.made.fetch_sub(1, Ordering::Relaxed);
        Ok(Some(to(&data)))
    }
}
