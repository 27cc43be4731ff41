//! What is sent next, and which staged data goes out when.

use super::{Batch, Job, ObjectKey, State};
use crate::staging::ObjectStage;
use clio_core::units::Extent;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

impl State {
    /// Starts a round of write-out.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
    }

    /// What is to be done next, within the limits.
    pub(crate) fn next_job(&mut self, max_in_flight: usize, max_bytes: u64) -> Option<Job> {
        if let Some(rpc) = self.hot.pop_front() {
            self.on_their_way += 1;
            return Some(Job::Send(rpc, self.on_their_way));
        }
        if self.slots >= max_in_flight {
            return None;
        }
        if let Some(mut rpc) = self.pending.pop_front() {
            rpc.slot = true;
            self.slots += 1;
            self.on_their_way += 1;
            return Some(Job::Send(rpc, self.on_their_way));
        }
        let mut batch = self.pick(max_bytes)?;
        batch.slot = true;
        self.slots += 1;
        Some(Job::Form(batch))
    }

    /// Chooses data to write out: urgent data first, then what fills RPCs, then, when quota is short, any.
    fn pick(&mut self, max_bytes: u64) -> Option<Batch> {
        let round = self.round;
        for _ in 0..self.urgent.len() {
            let key = self.urgent.pop_front()?;
            let Some(range) = self.objects.get(&key).map(|s| s.urgent) else { continue };
            if let Some(batch) = self.take(key, range, max_bytes, round) {
                self.urgent.push_back(key);
                return Some(batch);
            }
            let Some(stage) = self.objects.get_mut(&key) else { continue };
            if stage.has(range) {
                // Deferred in this round.
                self.urgent.push_back(key);
            } else {
                stage.urgent = Extent::new(0, 0);
            }
        }
        while let Some((key, group)) = self.full.pop_front() {
            if let Some(batch) = self.take(key, group, max_bytes, round) {
                self.full.push_front((key, group));
                return Some(batch);
            }
        }
        if self.is_pressed() { self.pick_any(max_bytes) } else { None }
    }

    /// Whether data should go out to make room.
    pub(crate) fn is_pressed(&self) -> bool {
        self.quota_waiters > 0 || self.credits.dirty() > self.credits.max_dirty / 4 * 3
    }

    /// Takes from the next object in turn that has something. One at a time is looked at: there may be many objects with
    /// little each, and this is asked for every RPC.
    fn pick_any(&mut self, max_bytes: u64) -> Option<Batch> {
        let (round, cursor) = (self.round, self.cursor);
        for (mut from, to) in [(cursor, ObjectKey(u64::MAX)), (ObjectKey(0), cursor)] {
            let staged = |stages: &BTreeMap<ObjectKey, ObjectStage>, from| {
                stages.range(from..to).find(|(_, s)| !s.folios.is_empty()).map(|(key, _)| *key)
            };
            while let Some(key) = staged(&self.objects, from) {
                from = ObjectKey(key.0 + 1);
                if let Some(batch) = self.take(key, Extent::WHOLE, max_bytes, round) {
                    self.cursor = from;
                    return Some(batch);
                }
            }
        }
        None
    }

    /// Has `range` of the object written out soon.
    pub(crate) fn make_urgent(&mut self, key: ObjectKey, range: Extent) {
        let Some(stage) = self.objects.get_mut(&key) else { return };
        let was_urgent = !stage.urgent.is_empty();
        stage.urgent = stage.urgent.hull(range);
        if !was_urgent {
            self.urgent.push_back(key);
        }
    }

    /// Makes everything urgent that was staged before `limit`. Returns whether anything is staged at all.
    pub(crate) fn make_old_urgent(&mut self, limit: Instant) -> bool {
        let old = |s: &ObjectStage| s.oldest().is_some_and(|t| t <= limit);
        let keys: Vec<_> = self.objects.iter().filter(|(_, s)| old(s)).map(|(k, _)| *k).collect();
        for key in keys {
            self.make_urgent(key, Extent::WHOLE);
        }
        self.objects.values().any(|s| !s.folios.is_empty())
    }

    /// A span of an object was staged: if it completes an RPC's worth, has that written out. Whether it did.
    pub(crate) fn note_full(&mut self, key: ObjectKey, span: Extent, previous: u64, max_bytes: u64) -> bool {
        let group_of = |at: u64| Extent::with_len(at / max_bytes * max_bytes, max_bytes);
        let Some(stage) = self.objects.get(&key) else { return false };
        let mut groups = Vec::new();
        // Of one that a window filled without telling, this is the first news.
        let left = group_of(previous.saturating_sub(1));
        if previous != u64::MAX && left != group_of(span.start) && stage.is_full(left) {
            groups.push(left);
        }
        let last = group_of(span.end.saturating_sub(1));
        let mut group = group_of(span.start);
        loop {
            if span.end >= group.end && stage.is_full(group) {
                groups.push(group);
            }
            if group == last {
                break;
            }
            group = group_of(group.end);
        }
        let any = !groups.is_empty();
        self.full.extend(groups.into_iter().map(|g| (key, g)));
        any
    }

    /// RPCs of `range` that wait for a slot go at once instead.
    pub(crate) fn heat(&mut self, key: ObjectKey, range: Extent) -> bool {
        let before = self.hot.len();
        let (hot, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<VecDeque<_>, _>(|r| r.key == key && r.extent.overlaps(range));
        self.pending = pending;
        self.hot.extend(hot);
        self.hot.len() > before
    }
}
