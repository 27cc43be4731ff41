//! What a device knows of its data, behind one mutex: staging areas, credit, and RPCs on their way.
//!
//! The mutex is never held across a call to a page, a lock or a target.

mod books;
mod guard;
#[cfg(all(test, clio_loom))]
mod loom_tests;
mod pick;
mod stage;

pub(crate) use books::{Books, Over};
pub(crate) use guard::StateGuard;

use crate::credit::Credits;
use crate::rpc::Rpc;
use crate::staging::{ANY_ROUND, LockTag, ObjectStage, Taken, Token, Trash};
use clio_core::object::Object;
use clio_core::page::Page;
use clio_core::units::{BLOCK_SIZE, BlockSet, Extent};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Names an object at its device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ObjectKey(pub(crate) u64);

/// Staged data taken for write-out.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) key: ObjectKey,
    pub(crate) object: Arc<Object>,
    pub(crate) lock: LockTag,
    pub(crate) spans: Vec<Taken>,
    pub(crate) token: u64,
    pub(crate) epoch: u64,
    /// The round of write-out that took it, or [`ANY_ROUND`].
    round: u64,
    /// Whether a slot was taken for the RPC to come.
    pub(crate) slot: bool,
}

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum Job {
    /// An RPC to send, and how many are on their way with it.
    Send(Box<Rpc>, usize),
    /// Staged data to make an RPC of.
    Form(Batch),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) credits: Credits,
    pub(crate) objects: BTreeMap<ObjectKey, ObjectStage>,
    next_key: u64,
    next_token: u64,
    /// Evictions so far.
    pub(crate) epoch: u64,
    /// RPCs that hold a slot.
    pub(crate) slots: usize,
    /// All RPCs with data at the target, or waiting to be sent there again.
    pub(crate) on_their_way: usize,
    /// RPCs that go at once.
    pub(crate) hot: VecDeque<Box<Rpc>>,
    /// RPCs that wait for a slot.
    pub(crate) pending: VecDeque<Box<Rpc>>,
    /// Objects with urgent data.
    urgent: VecDeque<ObjectKey>,
    /// RPCs' worth of dirty data.
    full: VecDeque<(ObjectKey, Extent)>,
    /// Where the search for data to write out under pressure goes on.
    cursor: ObjectKey,
    /// Threads that wait for quota or grant.
    pub(crate) quota_waiters: usize,
    /// Threads that wait for anything here.
    pub(crate) waiters: usize,
    /// Rounds of write-out.
    round: u64,
    pub(crate) tick_armed: bool,
    /// The timer will start write-out at the end of a burst.
    pub(crate) lag_armed: bool,
    pub(crate) closed: bool,
    /// Emptied by [`StateGuard`] when the mutex is released.
    trash: Trash,
}

impl State {
    pub(crate) fn new(max_dirty: u64) -> Self {
        Self {
            credits: Credits::new(max_dirty),
            objects: BTreeMap::new(),
            next_key: 1,
            next_token: 1,
            epoch: 0,
            slots: 0,
            on_their_way: 0,
            hot: VecDeque::new(),
            pending: VecDeque::new(),
            urgent: VecDeque::new(),
            full: VecDeque::new(),
            cursor: ObjectKey(0),
            quota_waiters: 0,
            waiters: 0,
            round: 1,
            tick_armed: false,
            lag_armed: false,
            closed: false,
            trash: Trash::new(),
        }
    }

    pub(crate) fn add_object(&mut self, stage: ObjectStage) -> ObjectKey {
        let key = ObjectKey(self.next_key);
        self.next_key += 1;
        self.objects.insert(key, stage);
        key
    }

    /// The object goes: what is still staged of it is dropped.
    pub(crate) fn remove_object(&mut self, key: ObjectKey) {
        self.throw_away(key);
        if let Some(stage) = self.objects.get_mut(&key) {
            stage.gone = true;
        }
        self.forget_if_gone(key);
    }

    fn throw_away(&mut self, key: ObjectKey) {
        let dropped = self.drop_staged(key, Extent::WHOLE);
        self.trash.extend(dropped.into_iter().map(|t| t.page));
    }

    fn forget_if_gone(&mut self, key: ObjectKey) {
        if self.objects.get(&key).is_some_and(|s| s.gone && s.tokens.is_empty()) {
            self.objects.remove(&key);
        }
    }

    /// Drops what is staged of `range`, and gives its credit back. Returns the pages with the blocks.
    pub(crate) fn drop_staged(&mut self, key: ObjectKey, range: Extent) -> Vec<Taken> {
        let Some(stage) = self.objects.get_mut(&key) else { return Vec::new() };
        let taken = stage.take_all(range);
        let blocks = taken.iter().map(|t| t.blocks.count()).sum();
        self.credits.free(blocks, true);
        taken
    }

    /// As [`State::drop_staged`], for all that is staged under one lock.
    pub(crate) fn drop_under(&mut self, key: ObjectKey, lock: LockTag) -> Vec<Taken> {
        let Some(stage) = self.objects.get_mut(&key) else { return Vec::new() };
        let taken = stage.take_under(lock);
        let blocks = taken.iter().map(|t| t.blocks.count()).sum();
        self.credits.free(blocks, true);
        taken
    }

    /// Notes data between the staging area and the target.
    pub(crate) fn add_token(&mut self, key: ObjectKey, extent: Extent, staged: usize) -> u64 {
        let id = self.next_token;
        self.next_token += 1;
        let epoch = self.epoch;
        if let Some(stage) = self.objects.get_mut(&key) {
            stage.tokens.push(Token { id, extent, staged, flying: 0, epoch });
        }
        id
    }

    fn token(&mut self, key: ObjectKey, id: u64) -> Option<&mut Token> {
        self.objects.get_mut(&key)?.tokens.iter_mut().find(|t| t.id == id)
    }

    /// The data of a token has arrived, or is put back, or lost. Credit that it still has is freed; what was on its way
    /// has `arrived` or failed.
    pub(crate) fn end_token(&mut self, key: ObjectKey, id: u64, arrived: bool) {
        let epoch = self.epoch;
        let Some(stage) = self.objects.get_mut(&key) else { return };
        let Some(at) = stage.tokens.iter().position(|t| t.id == id) else { return };
        let token = stage.tokens.swap_remove(at);
        let valid = token.epoch == epoch;
        self.credits.free(token.staged, valid);
        self.credits.land(token.flying, arrived, valid);
        self.forget_if_gone(key);
    }

    /// `moved` blocks of a token go on their way; the rest of its credit is put back with `rest`, or freed. Data that
    /// was taken before an eviction isn't put back: false then.
    ///
    /// What is put back is deferred for the round that took it, not for the present one: whoever began a round since then
    /// has looked while the data was in the token, and relies on us to look again.
    pub(crate) fn launch_token(&mut self, batch: &Batch, moved: usize, rest: Vec<Taken>) -> bool {
        let epoch = self.epoch;
        let deferred = if batch.round == ANY_ROUND { 0 } else { batch.round };
        let Some(stage) = self.objects.get_mut(&batch.key) else { return false };
        let Some(token) = stage.tokens.iter_mut().find(|t| t.id == batch.token) else { return false };
        let valid = token.epoch == epoch;
        let (mut back, mut twice) = (0, 0);
        let staged = std::mem::take(&mut token.staged);
        token.flying = moved;
        if valid {
            back = rest.iter().map(|t| t.blocks.count()).sum();
            let trash = &mut self.trash;
            twice = rest.into_iter().map(|t| stage.put(t, batch.lock, deferred, trash)).sum();
        }
        self.credits.launch(moved, valid);
        self.credits.free(staged - moved - back + twice, valid);
        valid
    }

    /// Takes data of `range` for one RPC of at most `max_bytes`.
    pub(crate) fn take(&mut self, key: ObjectKey, range: Extent, max_bytes: u64, round: u64) -> Option<Batch> {
        let stage = self.objects.get_mut(&key)?;
        if stage.object.strong_count() == 0 {
            self.throw_away(key);
            return None;
        }
        let (lock, spans) = stage.take(range, (max_bytes / BLOCK_SIZE) as usize, round)?;
        let Some(object) = stage.object.upgrade() else {
            // Gone just now.
            self.credits.free(spans.iter().map(|t| t.blocks.count()).sum(), true);
            self.trash.extend(spans.into_iter().map(|t| t.page));
            return None;
        };
        let extent = spans.iter().fold(Extent::new(0, 0), |e, t| e.hull(blocks_extent(&t.page, t.blocks)));
        let blocks = spans.iter().map(|t| t.blocks.count()).sum();
        let token = self.add_token(key, extent, blocks);
        Some(Batch { key, object, lock, spans, token, epoch: self.epoch, round, slot: false })
    }

    /// Whether nothing is staged, moving or waiting.
    pub(crate) fn is_quiet(&self) -> bool {
        self.on_their_way == 0
            && self.hot.is_empty()
            && self.pending.is_empty()
            && self.objects.values().all(|s| s.folios.is_empty() && s.tokens.is_empty())
    }

    /// Checks that credit is conserved and that staged extents don't overlap.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.credits.check()?;
        let (mut staged, mut flying) = (0, 0);
        for stage in self.objects.values() {
            let (s, f) = stage.count()?;
            staged += s as u64 * BLOCK_SIZE;
            flying += f as u64 * BLOCK_SIZE;
        }
        if (staged, flying) != (self.credits.staged, self.credits.in_flight) {
            return Err(format!("{staged} bytes are staged, {flying} on their way, but {:?}", self.credits));
        }
        Ok(())
    }

    /// The target took all locks and grants away. Everything staged is dropped, and returned by object.
    pub(crate) fn evict(&mut self) -> Vec<(ObjectKey, Vec<Taken>)> {
        let keys: Vec<_> = self.objects.keys().copied().collect();
        let dropped = keys.into_iter().map(|k| (k, self.drop_staged(k, Extent::WHOLE))).collect();
        self.credits.evict();
        self.epoch += 1;
        self.urgent.clear();
        self.full.clear();
        self.objects.values_mut().for_each(|s| s.urgent = Extent::new(0, 0));
        dropped
    }
}

/// The bytes of the object from the first to the last of `blocks` of `page`.
pub(crate) fn blocks_extent(page: &Page, blocks: BlockSet) -> Extent {
    let runs = blocks.runs().map(|r| Extent::new(r.start as u64 * BLOCK_SIZE, r.end as u64 * BLOCK_SIZE));
    let e = runs.fold(Extent::new(0, 0), Extent::hull);
    if e.is_empty() {
        Extent::new(page.offset(), page.offset())
    } else {
        Extent::new(page.offset() + e.start, page.offset() + e.end)
    }
}
