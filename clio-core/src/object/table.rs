//! The table of a site's objects, by FID.
//!
//! Sharded where it ships. Under the model checker it is a map behind one mutex that loom knows: what the checker is to
//! explore is how counts and marks go with entries coming and going, not the map.

use super::Object;
use crate::units::Fid;
use std::sync::Arc;

#[cfg(not(clio_loom))]
use dashmap::{DashMap, mapref::entry::Entry};
#[cfg(clio_loom)]
use std::collections::btree_map::{BTreeMap, Entry};

#[cfg(not(clio_loom))]
#[derive(Debug, Default)]
pub(super) struct Table(DashMap<Fid, Arc<Object>>);

#[cfg(clio_loom)]
#[derive(Debug, Default)]
pub(super) struct Table(crate::sync::Mutex<BTreeMap<Fid, Arc<Object>>>);

impl Table {
    pub(super) fn len(&self) -> usize {
        #[cfg(not(clio_loom))]
        return self.0.len();
        #[cfg(clio_loom)]
        return self.0.lock().len();
    }

    pub(super) fn get(&self, fid: Fid) -> Option<Arc<Object>> {
        #[cfg(not(clio_loom))]
        return self.0.get(&fid).map(|o| o.clone());
        #[cfg(clio_loom)]
        return self.0.lock().get(&fid).cloned();
    }

    pub(super) fn all(&self) -> Vec<Arc<Object>> {
        #[cfg(not(clio_loom))]
        return self.0.iter().map(|e| e.value().clone()).collect();
        #[cfg(clio_loom)]
        return self.0.lock().values().cloned().collect();
    }

    /// Enters `made`, unless its FID has an object that isn't dying: then that one is returned.
    pub(super) fn enter(&self, made: &Arc<Object>) -> Option<Arc<Object>> {
        #[cfg(clio_loom)]
        let mut table = self.0.lock();
        #[cfg(clio_loom)]
        let entry = table.entry(made.fid());
        #[cfg(not(clio_loom))]
        let entry = self.0.entry(made.fid());
        match entry {
            Entry::Occupied(slot) if !slot.get().is_dying() => return Some(slot.get().clone()),
            Entry::Occupied(mut slot) => drop(slot.insert(made.clone())),
            Entry::Vacant(slot) => drop(slot.insert(made.clone())),
        }
        None
    }

    /// Takes `object` out, if it is the one entered under its FID.
    pub(super) fn remove(&self, object: &Arc<Object>) {
        #[cfg(not(clio_loom))]
        self.0.remove_if(&object.fid(), |_, o| Arc::ptr_eq(o, object));
        #[cfg(clio_loom)]
        if let Entry::Occupied(slot) = self.0.lock().entry(object.fid())
            && Arc::ptr_eq(slot.get(), object)
        {
            slot.remove();
        }
    }
}
