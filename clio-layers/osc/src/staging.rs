//! The staging area of one object: which blocks hold quota and grant, under which lock.
//!
//! A staged extent is the set of blocks of one folio that are staged under one lock ([`Part`]). Extents never overlap.
//! Each of their blocks holds quota and grant: it is dirty, or may become so through the folio's write window, or was
//! written out by somebody else meanwhile (then it gives its credit back when it is taken for write-out).

use clio_core::object::Object;
use clio_core::page::Page;
use clio_core::target::DlmHandle;
use clio_core::units::{BLOCK_SIZE, BlockSet, Extent, Fid};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The lock that staged data lies under; `None` for a lockless one.
pub(crate) type LockTag = Option<DlmHandle>;

/// Blocks of one folio that are staged under one lock.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) lock: LockTag,
    pub(crate) credit: BlockSet,
    /// When the oldest of them was staged.
    pub(crate) since: Instant,
    /// The round of write-out that met the folio in use: it isn't looked at again in the same round.
    pub(crate) deferred: u64,
}

/// What is staged of one folio.
#[derive(Debug)]
pub(crate) struct StagedFolio {
    pub(crate) page: Arc<Page>,
    pub(crate) parts: SmallVec<[Part; 1]>,
}

impl StagedFolio {
    /// All blocks that hold credit.
    pub(crate) fn credit(&self) -> BlockSet {
        self.parts.iter().fold(BlockSet::EMPTY, |set, p| set.or(p.credit))
    }
}

/// Pages to be dropped once no mutex is held: the last reference to a page takes mutexes that come first.
pub(crate) type Trash = Vec<Arc<Page>>;

/// Blocks taken out of the staging area, to be written out or put back.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) page: Arc<Page>,
    pub(crate) blocks: BlockSet,
    pub(crate) since: Instant,
}

/// Data that is between the staging area and the target. Whoever flushes an extent waits for the tokens that meet it.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) id: u64,
    pub(crate) extent: Extent,
    /// Blocks with credit that aren't on their way yet.
    pub(crate) staged: usize,
    /// Blocks with credit that are.
    pub(crate) flying: usize,
    /// Evictions before the credit was taken.
    pub(crate) epoch: u64,
}

/// The staging area of an object.
#[derive(Debug)]
pub(crate) struct ObjectStage {
    pub(crate) object: Weak<Object>,
    pub(crate) fid: Fid,
    /// By byte offset of the folio.
    pub(crate) folios: BTreeMap<u64, StagedFolio>,
    pub(crate) tokens: Vec<Token>,
    /// What is to be written out soon.
    pub(crate) urgent: Extent,
    /// An asynchronous write failed, and none succeeded since: writes go out synchronously.
    pub(crate) sick: bool,
    /// Where the next write of a sequential writer would start, in bytes.
    pub(crate) next_write: u64,
    /// How many blocks the next window of a sequential writer has.
    pub(crate) window: usize,
    /// The object goes: forget it with its last token.
    pub(crate) gone: bool,
    /// The last eviction that lost data of this object, and was reported.
    pub(crate) told_epoch: u64,
    /// The object's time at the target, in nanoseconds, when it last told how many blocks there are.
    pub(crate) blocks_as_of: u64,
}

/// The round of those who take also what was deferred.
pub(crate) const ANY_ROUND: u64 = u64::MAX;

/// Smallest and largest window of a sequential writer, in blocks.
pub(crate) const WINDOW_MIN: usize = (64 << 10) / BLOCK_SIZE as usize;
pub(crate) const WINDOW_MAX: usize = 256;

impl ObjectStage {
    pub(crate) fn new(object: Weak<Object>, fid: Fid) -> Self {
        Self {
            object,
            fid,
            folios: BTreeMap::new(),
            tokens: Vec::new(),
            urgent: Extent::new(0, 0),
            sick: false,
            next_write: u64::MAX,
            window: WINDOW_MIN,
            gone: false,
            told_epoch: 0,
            blocks_as_of: 0,
        }
    }

    /// Offsets of the folios with staged blocks in `range`, ascending.
    fn offsets(&self, range: Extent) -> impl Iterator<Item = u64> + '_ {
        let before = self.folios.range(..=range.start).next_back().map_or(range.start, |(at, _)| *at);
        let end = range.end.max(before);
        let candidates = self.folios.range(before..end);
        candidates.filter(move |(_, f)| f.page.extent().overlaps(range)).map(|(at, _)| *at)
    }

    /// Takes out up to `max_blocks` staged blocks of `range` that lie under one lock, in ascending order. Parts that
    /// were deferred in `round` stay.
    pub(crate) fn take(&mut self, range: Extent, max_blocks: usize, round: u64) -> Option<(LockTag, Vec<Taken>)> {
        let mut room = max_blocks;
        let mut lock = None;
        let mut taken = Vec::new();
        for at in self.offsets(range).collect::<Vec<_>>() {
            let Some(folio) = self.folios.get_mut(&at) else { continue };
            let within = folio.page.blocks_of(range);
            let part = folio
                .parts
                .iter_mut()
                .find(|p| lock.is_none_or(|l| l == p.lock) && p.deferred != round && !p.credit.and(within).is_empty());
            let Some(part) = part else { continue };
            let blocks = first_blocks(part.credit.and(within), room);
            lock = Some(part.lock);
            part.credit = part.credit.minus(blocks);
            room -= blocks.count();
            taken.push(Taken { page: folio.page.clone(), blocks, since: part.since });
            // Not the last reference: one was just taken.
            drop(self.drop_empty(at));
            if room == 0 {
                break;
            }
        }
        Some((lock?, taken))
    }

    /// Whether something of `range` is staged.
    pub(crate) fn has(&self, range: Extent) -> bool {
        let mut staged = self.offsets(range).filter_map(|at| self.folios.get(&at));
        staged.any(|f| !f.credit().and(f.page.blocks_of(range)).is_empty())
    }

    /// Takes `blocks` of a folio out of the part under `lock`, whatever of them is there.
    pub(crate) fn take_blocks(
        &mut self,
        page: &Page,
        lock: LockTag,
        blocks: BlockSet,
        trash: &mut Trash,
    ) -> (BlockSet, Option<Instant>) {
        let at = page.offset();
        let Some(folio) = self.folios.get_mut(&at) else { return (BlockSet::EMPTY, None) };
        let Some(part) = folio.parts.iter_mut().find(|p| p.lock == lock) else { return (BlockSet::EMPTY, None) };
        let got = part.credit.and(blocks);
        let since = part.since;
        part.credit = part.credit.minus(got);
        trash.extend(self.drop_empty(at));
        (got, Some(since))
    }

    /// Puts blocks with credit in. Returns how many held credit already: so much is to be freed.
    pub(crate) fn put(&mut self, taken: Taken, lock: LockTag, deferred: u64, trash: &mut Trash) -> usize {
        let Taken { page, blocks, since } = taken;
        if blocks.is_empty() {
            trash.push(page);
            return 0;
        }
        let folio = match self.folios.entry(page.offset()) {
            Entry::Vacant(place) => place.insert(StagedFolio { page, parts: SmallVec::new() }),
            Entry::Occupied(there) => {
                let folio = there.into_mut();
                if folio.page.is_dying() && !Arc::ptr_eq(&folio.page, &page) {
                    // The page that was there is gone; credit belongs to the place.
                    trash.push(std::mem::replace(&mut folio.page, page));
                } else if !Arc::ptr_eq(&folio.page, &page) {
                    trash.push(page);
                }
                folio
            }
        };
        let twice = blocks.and(folio.credit());
        let new = blocks.minus(twice);
        match folio.parts.iter_mut().find(|p| p.lock == lock) {
            Some(part) => {
                part.credit = part.credit.or(new);
                part.since = part.since.min(since);
                part.deferred = part.deferred.max(deferred);
            }
            None if new.is_empty() => {}
            None => folio.parts.push(Part { lock, credit: new, since, deferred }),
        }
        twice.count()
    }

    /// Forgets the folio at `at` if nothing of it is staged; its page is the caller's to drop.
    fn drop_empty(&mut self, at: u64) -> Option<Arc<Page>> {
        let folio = self.folios.get_mut(&at)?;
        folio.parts.retain(|p| !p.credit.is_empty());
        if !folio.parts.is_empty() {
            return None;
        }
        self.folios.remove(&at).map(|f| f.page)
    }

    /// Takes out everything of `range`, under whatever lock.
    pub(crate) fn take_all(&mut self, range: Extent) -> Vec<Taken> {
        let mut all = Vec::new();
        while let Some((_, taken)) = self.take(range, usize::MAX, ANY_ROUND) {
            all.extend(taken);
        }
        all
    }

    /// Takes out everything that is staged under one lock.
    pub(crate) fn take_under(&mut self, lock: LockTag) -> Vec<Taken> {
        let mut all = Vec::new();
        for folio in self.folios.values_mut() {
            let page = folio.page.clone();
            let gone = folio.parts.iter().filter(|p| p.lock == lock);
            all.extend(gone.map(|p| Taken { page: page.clone(), blocks: p.credit, since: p.since }));
            folio.parts.retain(|p| p.lock != lock);
        }
        self.folios.retain(|_, f| !f.parts.is_empty());
        all
    }

    /// Whether something of `range` is between the staging area and the target.
    pub(crate) fn is_moving(&self, range: Extent) -> bool {
        self.tokens.iter().any(|t| t.extent.overlaps(range))
    }

    /// Blocks of `range` that are staged or on their way.
    pub(crate) fn weigh(&self, range: Extent) -> u64 {
        let staged = self.offsets(range).filter_map(|at| self.folios.get(&at));
        let staged: usize = staged.map(|f| f.credit().and(f.page.blocks_of(range)).and(f.page.dirty()).count()).sum();
        let moving: usize = self.tokens.iter().filter(|t| t.extent.overlaps(range)).map(|t| t.staged + t.flying).sum();
        (staged + moving) as u64
    }

    /// Whether all of `group` is staged under one lock and dirty.
    pub(crate) fn is_full(&self, group: Extent) -> bool {
        let mut at = group.start;
        let mut lock = None;
        while at < group.end {
            let Some(folio) = self.folios.get(&at) else { return false };
            let all = folio.page.blocks_of(group);
            let [part] = folio.parts.as_slice() else { return false };
            if lock.is_some_and(|l| l != part.lock) || !part.credit.covers(all) || !folio.page.dirty().covers(all) {
                return false;
            }
            lock = Some(part.lock);
            at = folio.page.extent().end;
        }
        true
    }

    /// The oldest staged data.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.folios.values().flat_map(|f| &f.parts).map(|p| p.since).min()
    }

    /// Staged blocks, tokens' included, and blocks on their way; with a check that parts don't overlap.
    ///
    /// # Errors
    /// What doesn't fit.
    pub(crate) fn count(&self) -> Result<(usize, usize), String> {
        let mut staged = 0;
        for (at, folio) in &self.folios {
            let sum: usize = folio.parts.iter().map(|p| p.credit.count()).sum();
            if sum != folio.credit().count() {
                return Err(format!("staged extents of {} at {at} overlap", self.fid));
            }
            staged += sum;
        }
        let in_tokens: usize = self.tokens.iter().map(|t| t.staged).sum();
        Ok((staged + in_tokens, self.tokens.iter().map(|t| t.flying).sum()))
    }
}

/// The first `n` blocks of `set`.
pub(crate) fn first_blocks(set: BlockSet, n: usize) -> BlockSet {
    if set.count() <= n {
        return set;
    }
    let mut left = n;
    let mut first = BlockSet::EMPTY;
    for run in set.runs() {
        let take = run.len().min(left);
        first = first.or(BlockSet::range(run.start..run.start + take));
        left -= take;
        if left == 0 {
            break;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_blocks(set in prop::collection::btree_set(0usize..256, 0..60), n in 0usize..70) {
            let mut blocks = BlockSet::EMPTY;
            set.iter().for_each(|b| blocks.insert(*b));
            let first: Vec<_> = first_blocks(blocks, n).iter().collect();
            prop_assert_eq!(first, set.iter().copied().take(n).collect::<Vec<_>>());
        }
    }
}
