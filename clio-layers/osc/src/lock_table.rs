//! The locks that this client has at its target, by handle and by object.

use crate::state::ObjectKey;
use clio_core::lock::ExtentLock;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::AttrCell;
use clio_core::target::{DlmHandle, LockMode};
use clio_core::units::Extent;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Set in handles of lockless locks, which no target knows. They are greater than all others.
const LOCKLESS: u64 = 1 << 63;

/// A lock that the target has granted.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) key: ObjectKey,
    pub(crate) extent: Extent,
    pub(crate) mode: LockMode,
    pub(crate) lock: Weak<ExtentLock>,
    pub(crate) attrs: Arc<AttrCell>,
    /// Its pages are being dropped: it keeps no other lock from dropping them too.
    pub(crate) ending: bool,
}

/// What a blocking AST comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AstOutcome {
    /// The lock is to be cancelled.
    Cancel,
    /// It is not known yet, or not any more.
    Noted,
    /// It is not known, and the answer that named it may have been lost: it goes back to the target.
    Disown,
}

/// What a lock that was just granted comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    /// It is in the table.
    Ours,
    /// So it is, and somebody wants it already.
    AskedBack,
    /// It was given back before it was known.
    Disowned,
}

#[derive(Debug, Default)]
struct Table {
    by_handle: HashMap<DlmHandle, ObjectKey>,
    by_object: BTreeMap<(ObjectKey, DlmHandle), Granted>,
    /// Locks asked for whose answer hasn't come.
    asked: usize,
    /// Blocking ASTs that came before the answer that names their lock.
    early: HashSet<DlmHandle>,
    /// An answer that may have named a lock was lost: from now on, what isn't known is given back at once.
    suspicious: bool,
    /// Given back unknown while locks were asked for: an answer that names one of them comes too late.
    disowned: HashSet<DlmHandle>,
    /// Lockless locks that wait for other locks of their object to go.
    waiting: Vec<(ObjectKey, Weak<ExtentLock>)>,
    lockless_made: u64,
    /// When which age of locks began.
    ages: VecDeque<(Instant, u64)>,
}

/// A mutex with the table: innermost, held for look-ups only.
#[derive(Debug)]
pub(crate) struct LockTable {
    table: RankedMutex<Table>,
}

impl LockTable {
    pub(crate) fn new() -> Self {
        Self { table: RankedMutex::new(LockRank::Leaf, Table::default()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().by_handle.len()
    }

    /// A lock is being asked for: its answer comes to [`LockTable::answered`].
    pub(crate) fn asking(&self) {
        self.table.lock().asked += 1;
    }

    /// The answer has come, with a lock or without. Returns what the lock comes to.
    pub(crate) fn answered(&self, granted: Option<(DlmHandle, Granted)>) -> Answered {
        let mut table = self.table.lock();
        table.asked -= 1;
        let mut answered = Answered::Ours;
        if let Some((handle, g)) = granted {
            if table.disowned.remove(&handle) {
                answered = Answered::Disowned;
            } else {
                if table.early.remove(&handle) {
                    answered = Answered::AskedBack;
                }
                table.by_handle.insert(handle, g.key);
                table.by_object.insert((g.key, handle), g);
            }
        }
        if table.asked == 0 {
            // What is left is about locks that we gave back ourselves.
            table.early.clear();
            table.disowned.clear();
        }
        answered
    }

    /// A request for a lock failed: it may have been granted all the same, and the answer lost. Returns locks that were
    /// asked back, and may be that one: they are to be given back.
    pub(crate) fn suspect(&self) -> Vec<DlmHandle> {
        let mut table = self.table.lock();
        table.suspicious = true;
        let early = std::mem::take(&mut table.early);
        if table.asked > 0 {
            table.disowned.extend(&early);
        }
        early.into_iter().collect()
    }

    pub(crate) fn note_blocking(&self, handle: DlmHandle) -> AstOutcome {
        let mut table = self.table.lock();
        if table.by_handle.contains_key(&handle) {
            return AstOutcome::Cancel;
        }
        match (table.suspicious, table.asked > 0) {
            (false, false) => AstOutcome::Noted,
            (false, true) => {
                table.early.insert(handle);
                AstOutcome::Noted
            }
            (true, asking) => {
                if asking {
                    table.disowned.insert(handle);
                }
                AstOutcome::Disown
            }
        }
    }

    fn with<R>(&self, handle: DlmHandle, read: impl FnOnce(&Granted) -> R) -> Option<R> {
        let table = self.table.lock();
        let key = *table.by_handle.get(&handle)?;
        table.by_object.get(&(key, handle)).map(read)
    }

    /// The lock `handle`, if it is there still.
    pub(crate) fn find(&self, handle: DlmHandle) -> Option<Arc<ExtentLock>> {
        self.with(handle, |g| g.lock.clone())?.upgrade()
    }

    /// Attributes of the object that `handle` is a lock of.
    pub(crate) fn attrs(&self, handle: DlmHandle) -> Option<Arc<AttrCell>> {
        self.with(handle, |g| g.attrs.clone())
    }

    /// The lock goes: cuts the pointer from its handle. KMS of the object is cut to what other locks still tell, under
    /// the same mutex under which new locks come, so that none is missed.
    pub(crate) fn remove(&self, handle: DlmHandle) -> Option<Granted> {
        let (granted, waiting) = {
            let mut table = self.table.lock();
            let key = table.by_handle.remove(&handle)?;
            let granted = table.by_object.remove(&(key, handle))?;
            let end = table.of(key).map(|(_, g)| g.extent.end).max().unwrap_or(0);
            granted.attrs.cut_kms(end);
            let waiting: Vec<_> = table.waiting.extract_if(.., |(k, _)| *k == key).collect();
            (granted, waiting)
        };
        waiting.iter().filter_map(|(_, l)| l.upgrade()).for_each(|l| l.signal());
        Some(granted)
    }

    /// Splits `extent` by the locks of the object under which it may be written.
    pub(crate) fn pieces(&self, key: ObjectKey, extent: Extent) -> SmallVec<[(Option<DlmHandle>, Extent); 1]> {
        let table = self.table.lock();
        let mut pieces = SmallVec::new();
        let mut at = extent.start;
        while at < extent.end {
            let writable = table.of(key).filter(|(_, g)| g.mode.can_write());
            let best = writable.filter(|(_, g)| g.extent.contains(at)).max_by_key(|(_, g)| g.extent.end);
            let (handle, end) = match best {
                Some((h, g)) => (Some(h), g.extent.end),
                None => {
                    let later = table.of(key).filter(|(_, g)| g.mode.can_write() && g.extent.start > at);
                    (None, later.map(|(_, g)| g.extent.start).min().unwrap_or(Extent::EOF))
                }
            };
            pieces.push((handle, Extent::new(at, end.min(extent.end))));
            at = end;
        }
        pieces
    }

    /// What the lock `handle` covers.
    pub(crate) fn extent(&self, handle: DlmHandle) -> Option<Extent> {
        self.with(handle, |g| g.extent)
    }

    /// The protection of the lock `ending` is about to end. Extents of other locks of the object that meet `extent` and
    /// go on protecting it: of two locks that end at once, at least one finds the other ending, and drops what both
    /// covered.
    pub(crate) fn begin_end(&self, key: ObjectKey, ending: DlmHandle, extent: Extent) -> Vec<Extent> {
        let mut table = self.table.lock();
        if let Some(g) = table.by_object.get_mut(&(key, ending)) {
            g.ending = true;
        }
        let staying = table.of(key).filter(|(h, g)| *h != ending && !g.ending && g.extent.overlaps(extent));
        staying.map(|(_, g)| g.extent).collect()
    }

    /// Adds a lockless lock: from now on new locks that meet it wait. Returns its handle.
    pub(crate) fn add_lockless(
        &self,
        key: ObjectKey,
        extent: Extent,
        lock: &Arc<ExtentLock>,
        attrs: &Arc<AttrCell>,
    ) -> DlmHandle {
        let mut table = self.table.lock();
        let handle = DlmHandle(LOCKLESS | table.lockless_made);
        table.lockless_made += 1;
        // Nothing is written under it at the target: to writes it is no lock.
        let granted = Granted {
            key,
            extent,
            mode: LockMode::Pr,
            lock: Arc::downgrade(lock),
            attrs: attrs.clone(),
            ending: false,
        };
        table.by_handle.insert(handle, key);
        table.by_object.insert((key, handle), granted);
        handle
    }

    /// Locks of the object that the lockless lock `handle` has to wait for: all that meet it, of lockless ones only the
    /// older. If there are any, `waiter` is signalled when one goes.
    pub(crate) fn rivals(
        &self,
        key: ObjectKey,
        extent: Extent,
        handle: DlmHandle,
        waiter: &Arc<ExtentLock>,
    ) -> Vec<Arc<ExtentLock>> {
        let mut table = self.table.lock();
        let first = table.of(key).filter(|(h, g)| *h < handle && g.extent.overlaps(extent));
        let rivals: Vec<_> = first.map(|(_, g)| g.lock.clone()).collect();
        if !rivals.is_empty() {
            table.waiting.push((key, Arc::downgrade(waiter)));
        }
        drop(table);
        rivals.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether a lockless lock meets `extent`; `waiter` is signalled when it goes.
    pub(crate) fn meets_lockless(&self, key: ObjectKey, extent: Extent, waiter: &Arc<ExtentLock>) -> bool {
        let mut table = self.table.lock();
        let meets = table.of(key).any(|(h, g)| h.0 & LOCKLESS != 0 && g.extent.overlaps(extent));
        if meets {
            table.waiting.push((key, Arc::downgrade(waiter)));
        }
        meets
    }

    /// How many locks there are beyond `limit`.
    pub(crate) fn surplus(&self, limit: usize) -> usize {
        let table = self.table.lock();
        (table.by_handle.len() + table.asked).saturating_sub(limit)
    }

    /// All locks.
    pub(crate) fn all(&self) -> Vec<Arc<ExtentLock>> {
        let locks: Vec<_> = self.table.lock().by_object.values().map(|g| g.lock.clone()).collect();
        locks.iter().filter_map(Weak::upgrade).collect()
    }

    /// Notes that a new age of locks begins now; the age before which nothing was used for `idle`.
    pub(crate) fn begin_age(&self, now: Instant, age: u64, idle: Duration) -> Option<u64> {
        let mut table = self.table.lock();
        table.ages.push_back((now, age));
        let mut old = None;
        while let Some((at, a)) = table.ages.front().copied().filter(|(at, _)| now.duration_since(*at) >= idle) {
            let _ = at;
            old = Some(a);
            table.ages.pop_front();
        }
        // Kept for the next scan: it is the youngest that is old.
        if let Some(a) = old {
            table.ages.push_front((now.checked_sub(idle).unwrap_or(now), a));
        }
        old
    }
}

impl Table {
    fn of(&self, key: ObjectKey) -> impl Iterator<Item = (DlmHandle, &Granted)> {
        let range = (key, DlmHandle(0))..=(key, DlmHandle(u64::MAX));
        self.by_object.range(range).map(|((_, h), g)| (*h, g))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(start: u64, end: u64, mode: LockMode) -> Granted {
        let attrs = Arc::new(AttrCell::default());
        Granted { key: ObjectKey(1), extent: Extent::new(start, end), mode, lock: Weak::new(), attrs, ending: false }
    }

    #[test]
    fn an_extent_is_split_by_the_locks_it_is_written_under() {
        let table = LockTable::new();
        for (h, s, e, mode) in [(1, 0, 100, LockMode::Pw), (2, 100, 200, LockMode::Pr), (3, 300, 400, LockMode::Pw)] {
            table.asking();
            table.answered(Some((DlmHandle(h), granted(s, e, mode))));
        }
        let pieces = table.pieces(ObjectKey(1), Extent::new(50, 500));
        let handles: Vec<_> = pieces.iter().map(|(h, e)| (h.map(|h| h.0), e.start, e.end)).collect();
        assert_eq!(handles, [(Some(1), 50, 100), (None, 100, 300), (Some(3), 300, 400), (None, 400, 500)]);
    }

    #[test]
    fn an_ast_that_comes_before_the_grant_is_remembered() {
        let table = LockTable::new();
        assert_eq!(table.note_blocking(DlmHandle(1)), AstOutcome::Noted);
        table.asking();
        assert_eq!(table.note_blocking(DlmHandle(7)), AstOutcome::Noted);
        assert_eq!(table.answered(Some((DlmHandle(7), granted(0, 10, LockMode::Pw)))), Answered::AskedBack);
        assert_eq!(table.note_blocking(DlmHandle(7)), AstOutcome::Cancel);
        table.asking();
        let answered = table.answered(Some((DlmHandle(1), granted(0, 10, LockMode::Pw))));
        assert_eq!(answered, Answered::Ours, "nothing was asked for then");
    }

    #[test]
    fn what_is_unknown_after_a_lost_answer_goes_back() {
        let table = LockTable::new();
        table.asking();
        assert_eq!(table.note_blocking(DlmHandle(3)), AstOutcome::Noted);
        assert_eq!(table.suspect(), [DlmHandle(3)]);
        assert_eq!(table.note_blocking(DlmHandle(4)), AstOutcome::Disown);
        let answered = table.answered(Some((DlmHandle(3), granted(0, 10, LockMode::Pw))));
        assert_eq!((answered, table.len()), (Answered::Disowned, 0), "its answer was only late");
        table.asking();
        let answered = table.answered(Some((DlmHandle(5), granted(0, 10, LockMode::Pw))));
        assert_eq!((answered, table.note_blocking(DlmHandle(5))), (Answered::Ours, AstOutcome::Cancel));
        assert_eq!(table.note_blocking(DlmHandle(6)), AstOutcome::Disown, "nothing is asked for");
    }

    #[test]
    fn kms_is_cut_to_what_other_locks_tell() {
        let table = LockTable::new();
        let (low, mut high) = (granted(0, 100, LockMode::Pr), granted(100, 200, LockMode::Pr));
        high.attrs = low.attrs.clone();
        let attrs = low.attrs.clone();
        for (h, g) in [(1, low), (2, high)] {
            table.asking();
            table.answered(Some((DlmHandle(h), g)));
        }
        attrs.raise(150, 0);
        table.remove(DlmHandle(1));
        assert_eq!(attrs.kms(), 150, "another lock reaches it");
        table.remove(DlmHandle(2));
        assert_eq!((attrs.kms(), attrs.size()), (0, 150));
    }

    #[test]
    fn of_two_locks_that_end_at_once_one_drops_what_both_covered() {
        let table = LockTable::new();
        for (h, s, e) in [(1, 0, 100), (2, 50, 150), (3, 90, 95)] {
            table.asking();
            table.answered(Some((DlmHandle(h), granted(s, e, LockMode::Pr))));
        }
        let all = Extent::new(0, 200);
        let (second, third) = (Extent::new(50, 150), Extent::new(90, 95));
        assert_eq!(table.begin_end(ObjectKey(1), DlmHandle(1), all), [second, third]);
        assert_eq!(table.begin_end(ObjectKey(1), DlmHandle(2), all), [third], "the first one no longer protects");
    }

    #[test]
    fn ages_say_what_was_idle_for_long() {
        let table = LockTable::new();
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let idle = Duration::from_secs(10);
        assert_eq!(table.begin_age(at(0), 5, idle), None);
        assert_eq!(table.begin_age(at(6), 6, idle), None);
        assert_eq!(table.begin_age(at(12), 7, idle), Some(5));
        assert_eq!(table.begin_age(at(13), 8, idle), Some(5));
        assert_eq!(table.begin_age(at(16), 9, idle), Some(6));
    }
}
