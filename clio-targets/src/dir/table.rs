//! The objects that are open, at most so many at a time, of all targets of this process together.

use super::object::OpenObject;
use crate::sys;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::sync::{Mutex, OnceLock, RwLock};
use clio_core::units::Fid;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

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

/// Descriptors of an open object: its data and its checksums.
const DESCRIPTORS: u64 = 2;
/// Of the process's descriptors, objects take one in so many: the others are for the rest of the store, and the program.
const PART: u64 = 2;

/// The tables of this process. They share its descriptors.
static TABLES: OnceLock<Mutex<Vec<Weak<Table>>>> = OnceLock::new();

fn tables() -> Vec<Arc<Table>> {
    let tables = TABLES.get_or_init(Mutex::default).lock();
    tables.iter().filter_map(Weak::upgrade).collect()
}

/// How many objects one of `tables` tables may keep open in a process that may have `descriptors`, of `wanted`.
fn share(wanted: usize, descriptors: u64, tables: u64) -> usize {
    let share = (descriptors / PART / DESCRIPTORS / tables.max(1)).max(1);
    wanted.min(usize::try_from(share).unwrap_or(usize::MAX))
}

/// Open objects by FID. An object has one place at a time, so that all who use it share one lock; a place that
/// somebody uses stays.
#[derive(Debug)]
pub(super) struct Table {
    /// The most that it keeps open, however many descriptors there are.
    wanted: usize,
    places: RankedMutex<HashMap<Fid, Arc<Place>>>,
    clock: AtomicU64,
}

impl Table {
    pub(super) fn new(wanted: usize) -> Arc<Self> {
        let places = RankedMutex::new(LockRank::Target, HashMap::new());
        let table = Arc::new(Self { wanted: wanted.max(8), places, clock: AtomicU64::new(0) });
        let mut tables = TABLES.get_or_init(Mutex::default).lock();
        tables.retain(|t| t.strong_count() > 0);
        tables.push(Arc::downgrade(&table));
        table
    }

    /// How many objects may be open now. Both the process's limit and its number of targets can change.
    fn limit(&self) -> usize {
        let tables = TABLES.get_or_init(Mutex::default).lock().iter().filter(|t| t.strong_count() > 0).count();
        share(self.wanted, sys::descriptor_limit(), tables as u64)
    }

    /// The place of an object, made if need be.
    pub(super) fn place(&self, fid: Fid) -> Arc<Place> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = self.places.lock().get(&fid) {
            place.used.store(now, Ordering::Relaxed);
            return place.clone();
        }
        let limit = self.limit();
        let mut places = self.places.lock();
        // Somebody else may have made it meanwhile.
        if let Some(place) = places.get(&fid) {
            place.used.store(now, Ordering::Relaxed);
            return place.clone();
        }
        if places.len() >= limit {
            let most = limit - limit.div_ceil(4);
            let count = places.len() - most;
            Self::evict(&mut places, count);
        }
        let place = Arc::new(Place { used: AtomicU64::new(now), ..Place::default() });
        places.insert(fid, place.clone());
        place
    }

    /// The place of an object if it has one.
    pub(super) fn known(&self, fid: Fid) -> Option<Arc<Place>> {
        self.places.lock().get(&fid).cloned()
    }

    /// Closes all objects that nobody uses, of all targets, because the process has too many files open.
    pub(super) fn shrink_all() {
        tables().iter().for_each(|table| table.close());
    }

    /// All places.
    pub(super) fn all(&self) -> Vec<Arc<Place>> {
        self.places.lock().values().cloned().collect()
    }

    /// Closes all objects that nobody uses.
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

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn objects_leave_room_for_the_program() {
        assert_eq!(share(96, 1024, 1), 96);
        assert_eq!(share(96, 1024, 4), 64);
        assert_eq!(share(96, 40, 4), 2);
        assert_eq!(share(8, 1 << 20, 4), 8);
        assert_eq!(share(96, u64::MAX, 1), 96);
        // One must be, whatever the limit; the tables needn't be counted yet.
        assert_eq!((share(96, 3, 4), share(96, 0, 0)), (1, 1));
        for tables in [1, 4, 100] {
            assert!(share(usize::MAX, 1024, tables) as u64 * 2 * tables <= 512);
        }
    }
}
