//! The locks of an object, by extent, with the match of cached ones.

use super::extents::Extents;
use super::users::LockUser;
use super::{ExtentLock, LockDescr, Retired};
use crate::env::Env;
use crate::lockrank::{LockRank, RankedMutex};
use crate::target::LockMode;
use crate::units::Extent;
use smallvec::SmallVec;
use std::sync::Arc;

#[derive(Debug)]
struct Listed {
    descr: LockDescr,
    lock: Arc<ExtentLock>,
}

/// Locks that may serve a need.
pub(super) type Candidates = SmallVec<[Arc<ExtentLock>; 2]>;

/// All locks of an object, but those in Freeing. Owns them.
#[derive(Debug)]
pub struct LockList {
    is_sub: bool,
    locks: RankedMutex<Extents<Listed>>,
}

impl LockList {
    /// An empty list, of a stripe (`is_sub`) or a file.
    pub fn new(is_sub: bool) -> Self {
        Self { is_sub, locks: RankedMutex::new(LockRank::LockList, Extents::new()) }
    }

    /// Where the mutexes of this list's locks are in the lock order.
    pub(super) fn rank(&self) -> LockRank {
        if self.is_sub { LockRank::SubLock } else { LockRank::TopLock }
    }

    /// Number of locks.
    pub fn len(&self) -> usize {
        self.locks.lock().len()
    }

    /// Whether there is no lock.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fast match: a user of a granted lock that covers `need` and that nobody but its users is at work on. Two
    /// mutex operations and two atomic ones; `None` says only that the way through [`find`](super::find) must be taken.
    #[inline]
    pub fn match_granted(&self, need: &LockDescr) -> Option<LockUser> {
        let locks = self.locks.lock();
        let mut covering = locks.covering(need.extent);
        let found =
            covering.find(|l| l.descr.mode.serves(need.mode) && l.lock.fits(&l.descr, need) && l.lock.gate.enter())?;
        found.lock.touch();
        Some(LockUser::counted(found.lock.clone(), found.descr))
    }

    /// As [`LockList::match_granted`], for a need without further conditions.
    #[inline]
    pub fn covering(&self, extent: Extent, mode: LockMode) -> Option<LockUser> {
        let (flags, demand) = Default::default();
        self.match_granted(&LockDescr { extent, mode, flags, demand })
    }

    /// Whether one lock that is granted, and is not about to be cancelled, covers `extent` for `mode`. Counts no user:
    /// it may be over when this returns.
    #[inline]
    pub fn is_covered(&self, extent: Extent, mode: LockMode) -> bool {
        let locks = self.locks.lock();
        locks.covering(extent).any(|l| {
            let flags = l.lock.gate.flags();
            l.descr.mode.serves(mode) && flags.granted && !flags.doomed
        })
    }

    /// The granted extent around `offset` that the best single lock for `mode` covers; `None` without one. How far
    /// read-ahead may go.
    pub fn covered_around(&self, offset: u64, mode: LockMode) -> Option<Extent> {
        let locks = self.locks.lock();
        let usable = locks.covering(Extent::with_len(offset, 1)).filter(|l| {
            let flags = l.lock.gate.flags();
            l.descr.mode.serves(mode) && flags.granted && !flags.doomed
        });
        usable.map(|l| l.descr.extent).max_by_key(|e| e.end)
    }

    /// All locks, in any state, that have a byte in `extent`.
    pub fn overlapping(&self, extent: Extent) -> Vec<Arc<ExtentLock>> {
        self.locks.lock().overlapping(extent).map(|l| l.lock.clone()).collect()
    }

    /// All locks.
    pub fn all(&self) -> Vec<Arc<ExtentLock>> {
        self.locks.lock().iter().map(|l| l.lock.clone()).collect()
    }

    /// The largest end, in bytes, of a granted lock other than `except`; 0 without one. What KMS may stay at when
    /// `except` is lost.
    pub fn max_end_of_other_granted(&self, except: &ExtentLock) -> u64 {
        let locks = self.locks.lock();
        let others = locks.iter().filter(|l| l.lock.id() != except.id() && l.lock.is_granted());
        others.map(|l| l.descr.extent.end).max().unwrap_or(0)
    }

    /// Cancels all locks. Blocks. Returns those that are in use, and will be cancelled at their last release.
    pub fn cancel_all(&self, env: &Env) -> Vec<Arc<ExtentLock>> {
        self.end_all(|lock| lock.cancel(env))
    }

    /// Destroys all locks without cancellation. Returns those that are in use.
    pub fn discard_all(&self, env: &Env) -> Vec<Arc<ExtentLock>> {
        self.end_all(|lock| lock.discard(env))
    }

    fn end_all(&self, end: impl Fn(&Arc<ExtentLock>) -> Retired) -> Vec<Arc<ExtentLock>> {
        self.all().into_iter().filter(|lock| end(lock) == Retired::Later).collect()
    }

    /// Locks that cover `need` and take users, as far as the list can tell.
    pub(super) fn candidates(&self, need: &LockDescr) -> Candidates {
        Self::pick(&self.locks.lock(), need).cloned().collect()
    }

    /// Adds a new lock, unless there is a candidate that is not in `refused`: then somebody was faster.
    pub(super) fn insert(&self, lock: &Arc<ExtentLock>, need: &LockDescr, refused: &Candidates) -> bool {
        let mut locks = self.locks.lock();
        if Self::pick(&locks, need).any(|c| !refused.iter().any(|r| r.id() == c.id())) {
            return false;
        }
        locks.insert(need.extent, Listed { descr: *need, lock: lock.clone() });
        true
    }

    fn pick<'a>(locks: &'a Extents<Listed>, need: &LockDescr) -> impl Iterator<Item = &'a Arc<ExtentLock>> {
        let mode = need.mode;
        let covering = locks.covering(need.extent).filter(move |l| l.descr.mode.serves(mode) && !l.lock.is_doomed());
        covering.map(|l| &l.lock)
    }

    /// The lock covers something else from now on. Nothing happens if it isn't in the list.
    pub(super) fn update(&self, lock: &Arc<ExtentLock>, descr: &LockDescr) {
        let mut locks = self.locks.lock();
        if let Some(listed) = locks.remove(|l| l.lock.id() == lock.id()) {
            locks.insert(descr.extent, Listed { descr: *descr, ..listed });
        }
    }

    pub(super) fn remove(&self, lock: &Arc<ExtentLock>) {
        // Dropped after the mutex: it may be the last pointer.
        let _gone = {
            let mut locks = self.locks.lock();
            locks.remove(|l| l.lock.id() == lock.id())
        };
    }
}
