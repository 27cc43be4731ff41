//! The folder as an [`ObjectStore`].

use super::object::OpenObject;
use super::table::Slot;
use super::{DirStore, is_damage, layout};
use crate::bulk;
use crate::store::{Filled, ObjectStore, Space};
use crate::sums::BulkSums;
use crate::syncs;
use clio_core::attr::{Attr, AttrMask};
use clio_core::sync::atomic::Ordering;
use clio_core::target::BulkSegment;
use clio_core::units::{Extent, Fid};
use clio_core::{Errno, Error, Result};

impl ObjectStore for DirStore {
    fn create(&self, fid: Fid) -> Result<()> {
        let place = self.table.place(fid);
        let mut slot = place.slot.write();
        self.fill(fid, &mut slot)?;
        if matches!(*slot, Slot::Open(_)) {
            return Err(Error::new(Errno::EEXIST, "create", "the object exists").on(fid));
        }
        *slot = Slot::Open(Box::new(self.make(fid)?));
        Ok(())
    }

    fn destroy(&self, fid: Fid) -> Result<()> {
        let place = self.table.place(fid);
        let mut slot = place.slot.write();
        // A damaged object can't be opened, but it can go.
        let exists = match self.fill(fid, &mut slot) {
            Ok(()) => matches!(*slot, Slot::Open(_)),
            Err(e) if is_damage(&e) => true,
            Err(e) => return Err(e),
        };
        if !exists {
            return Err(Error::new(Errno::ENOENT, "destroy", "no such object").on(fid));
        }
        // The data first: a side file that says that its object is being changed means nothing alone.
        if let Slot::Open(object) = &mut *slot {
            object.set_dirty()?;
        }
        *slot = Slot::Unknown;
        self.remove(layout::trace(&self.root, fid), fid)?;
        self.remove(layout::data(&self.root, fid), fid)?;
        self.remove(layout::side(&self.root, fid), fid)?;
        *slot = Slot::Missing;
        self.made.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, fid: Fid, bulk: &[BulkSegment]) -> Result<Filled> {
        let read = self.with_read(fid, |object| object.read(bulk, false))?;
        read.unwrap_or_else(|| {
            bulk.iter().for_each(|seg| seg.mem.zero());
            Ok(Filled { size: 0, sum: None })
        })
    }

    fn try_read(&self, fid: Fid, bulk: &[BulkSegment]) -> Option<Result<Filled>> {
        let place = self.table.known(fid)?;
        let slot = place.slot.try_read()?;
        let Slot::Open(object) = &*slot else { return None };
        let nowait = !self.in_memory;
        if !object.sums_at_hand(bulk, nowait) {
            return None;
        }
        match object.read(bulk, nowait) {
            Ok(filled) => Some(Ok(filled)),
            Err(e) if matches!(e.errno(), Errno::EAGAIN | Errno::EOPNOTSUPP) => None,
            Err(e) => Some(Err(e)),
        }
    }

    fn write(&self, fid: Fid, bulk: &[BulkSegment], sums: Option<&BulkSums>, mtime: u64, sync: bool) -> Result<Attr> {
        let attr = self.with_made(fid, |object| {
            self.check_room(object, bulk).map_err(|e| e.on(fid))?;
            object.write(bulk, sums, mtime)?;
            object.attr()
        })?;
        if sync {
            self.sync(fid)?;
        }
        Ok(attr)
    }

    fn punch(&self, fid: Fid, extent: Extent, mtime: u64) -> Result<Attr> {
        let punch = |object: &mut OpenObject| {
            object.punch(extent, mtime)?;
            object.attr()
        };
        if extent.end == Extent::EOF {
            return self.with_made(fid, punch);
        }
        // With the object's lock held: a sync that ends before the change must not take this back.
        let announced = |object: &mut OpenObject| {
            self.intent.announce(fid).map_err(|e| Error::from_io("punch", e).on(fid))?;
            punch(object)
        };
        Ok(self.with_write(fid, announced)?.unwrap_or_default())
    }

    fn getattr(&self, fid: Fid) -> Result<Attr> {
        self.with_read(fid, OpenObject::attr)?.unwrap_or_else(|| Ok(Attr::default()))
    }

    fn try_getattr(&self, fid: Fid) -> Option<Result<Attr>> {
        let place = self.table.known(fid)?;
        let slot = place.slot.try_read()?;
        match &*slot {
            Slot::Open(object) => Some(object.attr()),
            Slot::Missing => Some(Ok(Attr::default())),
            Slot::Unknown => None,
        }
    }

    fn setattr(&self, fid: Fid, attr: &Attr, mask: AttrMask) -> Result<Attr> {
        bulk::check_mask(mask)?;
        self.with_made(fid, |object| {
            object.setattr(attr, mask)?;
            object.attr()
        })
    }

    /// The data is made durable without holding the object's lock: others read and write meanwhile, and what they
    /// change keeps its marks.
    fn sync(&self, fid: Fid) -> Result<()> {
        let files = |o: &OpenObject| (o.data.clone(), o.side.file(), o.changes, o.created);
        let Some((data, side, changes, created)) = self.with_read(fid, files)? else { return Ok(()) };
        let fail = |e| Error::from_io("sync", e).on(fid);
        syncs::data(&data).map_err(fail)?;
        self.with_write(fid, |object| {
            if object.changes == changes && object.dirty {
                object.set_clean()?;
            }
            Ok(())
        })?;
        syncs::data(&side).map_err(fail)?;
        if created {
            self.sync_folder(fid, "sync")?;
        }
        self.with_write(fid, |object| {
            object.created &= !created;
            if object.changes == changes && !object.created {
                self.intent.made_durable(fid);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn seek(&self, fid: Fid, offset: u64, hole: bool) -> Result<u64> {
        let end = || Error::new(Errno::ENXIO, "seek", "nothing at or after this offset").on(fid);
        self.with_read(fid, |object| object.seek(offset, hole))?.unwrap_or_else(|| Err(end()))
    }

    fn space(&self) -> Result<Space> {
        self.part_of_room()
    }

    /// Lists the folder the first time, and counts from there.
    fn count(&self) -> Result<u64> {
        if self.base.get().is_none() {
            let made = self.made.load(Ordering::Relaxed);
            let found = self.objects().filter(|o| o.is_ok()).count() as u64;
            let _ = self.base.set(found.wrapping_sub(made));
        }
        let base = self.base.get().copied().unwrap_or(0);
        Ok(base.wrapping_add(self.made.load(Ordering::Relaxed)))
    }
}
