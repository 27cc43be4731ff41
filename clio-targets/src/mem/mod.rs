//! Objects in memory: for tests, for scratch stores, and as the fast tier.

mod object;

use crate::bulk;
use crate::service::{Service, ServiceConfig};
use crate::store::{Filled, ObjectStore, Space};
use crate::sums::BulkSums;
use clio_core::attr::{Attr, AttrMask};
use clio_core::sync::RwLock;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::target::BulkSegment;
use clio_core::units::{Extent, Fid, MAX_FILE_SIZE, TargetIndex};
use clio_core::{Errno, Error, Result};
use object::MemObject;
use std::collections::HashMap;
use std::sync::Arc;

/// A target in memory. Requests complete on the caller's thread, before `submit` returns, unless they wait for a
/// lock.
pub type MemTarget = Service<MemStore>;

/// How a [`MemTarget`] is made.
#[derive(Clone, Debug)]
pub struct MemOptions {
    /// Its index in the store.
    pub index: TargetIndex,
    /// Most bytes of data it holds; more is `ENOSPC`.
    pub capacity: u64,
    /// Locks and grants.
    pub service: ServiceConfig,
}

impl Default for MemOptions {
    fn default() -> Self {
        Self { index: TargetIndex(0), capacity: 1 << 40, service: ServiceConfig::default() }
    }
}

impl MemTarget {
    /// An empty target in memory.
    pub fn in_memory(options: MemOptions) -> Self {
        Service::inline(options.index, MemStore::new(options.capacity), options.service)
    }
}

/// Objects in memory, up to a capacity. Space is counted by 4 KiB blocks written.
#[derive(Debug)]
pub struct MemStore {
    capacity: u64,
    used: AtomicU64,
    objects: RwLock<HashMap<Fid, Arc<RwLock<MemObject>>>>,
}

impl MemStore {
    /// An empty store for `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, used: AtomicU64::new(0), objects: RwLock::new(HashMap::new()) }
    }

    fn find(&self, fid: Fid) -> Option<Arc<RwLock<MemObject>>> {
        self.objects.read().get(&fid).cloned()
    }

    /// Runs `f` on the object, which is made if need be.
    fn with<R>(&self, fid: Fid, mut f: impl FnMut(&mut MemObject) -> R) -> R {
        loop {
            let found = self.find(fid);
            let object = found.unwrap_or_else(|| self.objects.write().entry(fid).or_default().clone());
            let mut object = object.write();
            // Destroyed between look-up and lock: look again.
            if !object.dead {
                return f(&mut object);
            }
        }
    }

    /// Takes `bytes` of the capacity.
    fn reserve(&self, bytes: u64) -> Result<()> {
        let fits = |used: u64| used.checked_add(bytes).filter(|u| *u <= self.capacity);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(used) => {
                let text = format!("memory target is full: {used} of {} bytes in use", self.capacity);
                Err(Error::new(Errno::ENOSPC, "write", text))
            }
        }
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl ObjectStore for MemStore {
    fn create(&self, fid: Fid) -> Result<()> {
        match self.objects.write().entry(fid) {
            std::collections::hash_map::Entry::Occupied(_) => {
                Err(Error::new(Errno::EEXIST, "create", "the object exists").on(fid))
            }
            std::collections::hash_map::Entry::Vacant(v) => {
                v.insert(Arc::default());
                Ok(())
            }
        }
    }

    fn destroy(&self, fid: Fid) -> Result<()> {
        let object = self.objects.write().remove(&fid);
        let object = object.ok_or_else(|| Error::new(Errno::ENOENT, "destroy", "no such object").on(fid))?;
        let mut object = object.write();
        self.release(object.space());
        *object = MemObject::dead();
        Ok(())
    }

    fn read(&self, fid: Fid, bulk: &[BulkSegment]) -> Result<Filled> {
        let Some(object) = self.find(fid) else {
            bulk.iter().for_each(|seg| seg.mem.zero());
            return Ok(Filled { size: 0, sum: None });
        };
        let object = object.read();
        object.read(bulk);
        Ok(Filled { size: object.attr().size, sum: None })
    }

    fn write(&self, fid: Fid, bulk: &[BulkSegment], _sums: Option<&BulkSums>, mtime: u64, _sync: bool) -> Result<Attr> {
        self.with(fid, |object| {
            self.reserve(object.growth(bulk)).map_err(|e| e.on(fid))?;
            object.write(bulk, mtime);
            Ok(object.attr())
        })
    }

    fn punch(&self, fid: Fid, extent: Extent, mtime: u64) -> Result<Attr> {
        if self.find(fid).is_none() && extent.end != Extent::EOF {
            return Ok(Attr::default());
        }
        debug_assert!(extent.start <= MAX_FILE_SIZE);
        Ok(self.with(fid, |object| {
            let before = object.space();
            object.punch(extent, mtime);
            self.release(before - object.space());
            object.attr()
        }))
    }

    fn getattr(&self, fid: Fid) -> Result<Attr> {
        Ok(self.find(fid).map_or_else(Attr::default, |o| o.read().attr()))
    }

    fn setattr(&self, fid: Fid, attr: &Attr, mask: AttrMask) -> Result<Attr> {
        bulk::check_mask(mask)?;
        Ok(self.with(fid, |object| {
            object.setattr(attr, mask);
            object.attr()
        }))
    }

    fn sync(&self, _fid: Fid) -> Result<()> {
        Ok(())
    }

    fn seek(&self, fid: Fid, offset: u64, hole: bool) -> Result<u64> {
        let end = || Error::new(Errno::ENXIO, "seek", "nothing at or after this offset").on(fid);
        let object = self.find(fid).ok_or_else(end)?;
        let object = object.read();
        if offset >= object.attr().size {
            return Err(end());
        }
        object.seek(offset, hole).ok_or_else(end)
    }

    fn space(&self) -> Result<Space> {
        let used = self.used.load(Ordering::Relaxed);
        Ok(Space { total: self.capacity, free: self.capacity - used.min(self.capacity) })
    }

    fn count(&self) -> Result<u64> {
        Ok(self.objects.read().len() as u64)
    }
}
