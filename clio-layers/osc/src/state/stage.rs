//! Putting written blocks into the staging area, in two steps.

use super::{ObjectKey, State};
use crate::staging::{LockTag, StagedFolio, Taken};
use clio_core::page::Page;
use clio_core::units::BlockSet;
use std::sync::Arc;
use std::time::Instant;

impl State {
    /// Takes credit and blocks for staging `blocks` of `page`: see [`crate::commit`]. Returns the token, the blocks that
    /// hold credit now and those that found none.
    pub(crate) fn begin_stage(
        &mut self,
        key: ObjectKey,
        page: &Arc<Page>,
        lock: LockTag,
        blocks: BlockSet,
        window: BlockSet,
    ) -> Option<Begun> {
        let stage = self.objects.get_mut(&key)?;
        let (had, since) = stage.take_blocks(page, lock, blocks.or(window), &mut self.trash);
        let elsewhere = stage.folios.get(&page.offset()).map_or(BlockSet::EMPTY, StagedFolio::credit);
        let wanted = blocks.minus(had).minus(elsewhere);
        let new = crate::staging::first_blocks(wanted, self.credits.take(wanted.count()));
        let missing = wanted.minus(new);
        // Windows are for when there is plenty.
        let extra = window.minus(blocks).minus(had).minus(elsewhere);
        let plenty = missing.is_empty()
            && self.quota_waiters == 0
            && self.credits.dirty() < self.credits.max_dirty / 2
            && self.credits.room() / 4 > extra.count();
        let extra = if plenty {
            crate::staging::first_blocks(extra, self.credits.take(extra.count()))
        } else {
            BlockSet::EMPTY
        };
        let held = had.or(new).or(extra);
        let token = self.add_token(key, page.extent(), held.count());
        Some(Begun { token, held, missing, since: since.unwrap_or_else(Instant::now) })
    }

    /// Puts what [`State::begin_stage`] took into the staging area; false if an eviction came between: then it is lost.
    pub(crate) fn finish_stage(&mut self, key: ObjectKey, page: &Arc<Page>, lock: LockTag, begun: &Begun) -> bool {
        let epoch = self.epoch;
        let valid = self.token(key, begun.token).is_some_and(|t| t.epoch == epoch);
        if valid {
            if let Some(token) = self.token(key, begun.token) {
                token.staged = 0;
            }
            let taken = Taken { page: page.clone(), blocks: begun.held, since: begun.since };
            let (objects, trash) = (&mut self.objects, &mut self.trash);
            let twice = objects.get_mut(&key).map_or(0, |s| s.put(taken, lock, 0, trash));
            self.credits.free(twice, true);
        }
        self.end_token(key, begun.token, true);
        valid
    }
}

/// See [`State::begin_stage`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) token: u64,
    pub(crate) held: BlockSet,
    pub(crate) missing: BlockSet,
    since: Instant,
}
