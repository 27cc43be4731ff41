//! The objects that are open, at most so many at a time.

use super::object::OpenObject;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::RwLock;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::units::Fid;
use std::collections::HashMap;
use std::sync::Arc;

/// What is known of an object.
#[derive(Debug, Default)]
pub(super) enum Slot {
    /// Nothing: look on disk.
    #[default]
    Unknown,
    /// There is none.
    Missing,
    /// It is open.
    Open(Box<OpenObject>),
}

/// An object's place in the table. Its lock is the object's lock: shared by reads, exclusive for changes.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) slot: RwLock<Slot>,
    used: AtomicU64,
}

/// Open objects by FID. An object has one place at a time, so that all who use it share one lock; a place that
/// somebody uses stays.
#[derive(Debug)]
pub(super) struct Table {
    limit: usize,
    places: RankedMutex<HashMap<Fid, Arc<Place>>>,
    clock: AtomicU64,
}

impl Table {
    pub(super) fn new(limit: usize) -> Self {
        let places = RankedMutex::new(LockRank::Target, HashMap::new());
        Self { limit: limit.max(8), places, clock: AtomicU64::new(0) }
    }

    /// The place of an object, made if need be.
    pub(super) fn place(&self, fid: Fid) -> Arc<Place> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut places = self.places.lock();
        if let Some(place) = places.get(&fid) {
            place.used.store(now, Ordering::Relaxed);
            return place.clone();
        }
        if places.len() >= self.limit {
            Self::evict(&mut places, self.limit / 4);
        }
        let place = Arc::new(Place { used: AtomicU64::new(now), ..Place::default() });
        places.insert(fid, place.clone());
        place
    }

    /// The place of an object if it has one.
    pub(super) fn known(&self, fid: Fid) -> Option<Arc<Place>> {
        self.places.lock().get(&fid).cloned()
    }

    /// Closes about a quarter of the objects, because the process has too many files open.
    pub(super) fn shrink(&self) {
        let mut places = self.places.lock();
        let count = places.len().div_ceil(4);
        Self::evict(&mut places, count);
    }

    /// All places.
    pub(super) fn all(&self) -> Vec<Arc<Place>> {
        self.places.lock().values().cloned().collect()
    }

    /// Closes all objects.
    pub(super) fn close(&self) {
        let mut places = self.places.lock();
        let count = places.len();
        Self::evict(&mut places, count);
    }

    /// Closes up to `count` objects that nobody uses, the longest unused first. They are closed before their places
    /// go, so that whoever opens them next finds them in order.
    fn evict(places: &mut HashMap<Fid, Arc<Place>>, count: usize) {
        let idle = places.iter().filter(|(_, p)| Arc::strong_count(p) == 1);
        let mut idle: Vec<(u64, Fid)> = idle.map(|(fid, p)| (p.used.load(Ordering::Relaxed), *fid)).collect();
        idle.sort_unstable();
        for (_, fid) in idle.into_iter().take(count) {
            if let Some(place) = places.get(&fid) {
                close(&place.slot);
            }
            places.remove(&fid);
        }
    }
}

/// Leaves an object on disk as one that needs no recovery. If that fails, it is recovered when opened next.
fn close(slot: &RwLock<Slot>) {
    if let Slot::Open(object) = &mut *slot.write()
        && object.dirty
        && let Err(e) = object.set_clean()
    {
        tracing::warn!(fid = %object.fid, error = %e, "object could not be closed cleanly");
    }
}
