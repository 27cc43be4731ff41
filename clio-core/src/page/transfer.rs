//! A page's transfers: immediate ones of its owner, write-out of what is staged, windows for more, and completion.

use super::folio_state::Move;
use super::{Page, Rw, SyncIo};
use crate::env::Env;
use crate::error::{Errno, Error, Result};
use crate::io::IoId;
use crate::target::{Bulk, BulkSegment};
use crate::units::{BLOCK_SIZE, BlockSet};
use smallvec::SmallVec;
use std::sync::Arc;

impl Page {
    /// Moves `blocks` of a page that `io` owns into an immediate transfer: asks the slices, then Owned → PageIn or
    /// PageOut for those that need it, which are returned. For a read those that are neither valid nor dirty; for a
    /// write the dirty ones. Completion will come for what is returned.
    ///
    /// # Errors
    /// What a slice says; `ENOMEM` if a read finds no memory.
    #[doc(alias = "cl_page_prep")]
    pub fn prep(&self, env: &Env, io: IoId, rw: Rw, blocks: BlockSet) -> Result<BlockSet> {
        let mut moving = blocks;
        let mut refused = Ok(());
        self.bottom_up(|s, page| {
            if refused.is_ok() {
                refused = s.prep(env, page, rw, &mut moving);
            }
        });
        refused?;
        let cell = self.folio.cell();
        let mut state = cell.lock();
        moving = moving.minus(state.in_flight());
        match rw {
            Rw::Read => {
                moving = moving.minus(cell.valid()).minus(cell.dirty());
                if !moving.is_empty() && !cell.attach(&state, self.folio.backing(), moving) {
                    return Err(Error::new(Errno::ENOMEM, "read", "no page memory").on(self.fid));
                }
                state.set(Move::Prep(io, rw, moving))?;
            }
            Rw::Write => {
                moving = moving.and(cell.dirty());
                state.set(Move::Prep(io, rw, moving))?;
                cell.set_clean(moving);
                state.window = state.window.minus(moving);
            }
        }
        if let Some((wanted, sync)) = &state.watch {
            let watched = moving.and(*wanted);
            if !watched.is_empty() {
                sync.expect(watched.count());
                let entry = (watched, sync.clone());
                state.sync.push(entry);
            }
        }
        Ok(moving)
    }

    /// Moves the dirty ones of `blocks` from the staging area into a transfer: Cached → PageOut, unless an IO owns
    /// the page, for which this waits if `wait` and else answers with nothing. Closes the write window: returns the
    /// blocks that moved, and those that the window had been open for.
    #[doc(alias = "cl_page_make_ready")]
    pub fn make_ready(&self, env: &Env, blocks: BlockSet, wait: bool) -> (BlockSet, BlockSet) {
        let mut eligible = blocks;
        self.bottom_up(|s, page| s.make_ready(env, page, &mut eligible));
        let cell = self.folio.cell();
        let mut state = cell.lock();
        while state.is_owned() || !state.in_flight().and(eligible).and(cell.dirty()).is_empty() {
            if !wait {
                return (BlockSet::EMPTY, BlockSet::EMPTY);
            }
            state = state.wait(&cell.changed);
        }
        let moving = eligible.and(cell.dirty());
        if state.set(Move::MakeReady(moving)).is_err() {
            return (BlockSet::EMPTY, BlockSet::EMPTY);
        }
        cell.set_clean(moving);
        let window = std::mem::take(&mut state.window);
        (moving, window)
    }

    /// Lets `blocks` be dirtied by [`fast_write`](super::fast_write) without a call to the transfer layer, which has set quota and
    /// grant aside for them, under a write lock that covers them. Not those that are barred ([`WindowBar`](super::WindowBar)).
    pub fn open_window(&self, blocks: BlockSet) {
        let mut state = self.folio.cell().lock();
        state.window = state.window.or(blocks.minus(state.barred));
    }

    /// Closes the window for `blocks` (their lock goes, or their quota does); returns those that had been open.
    pub fn close_window(&self, blocks: BlockSet) -> BlockSet {
        let mut state = self.folio.cell().lock();
        let open = state.window.and(blocks);
        state.window = state.window.minus(blocks);
        open
    }

    /// As [`Page::close_window`], on behalf of a layer that did not open it: those that did are told, and take back
    /// what they had set aside.
    pub fn shut_window(&self, env: &Env, blocks: BlockSet) {
        let open = self.close_window(blocks);
        self.tell_window_closed(env, open);
    }

    pub(super) fn tell_window_closed(&self, env: &Env, open: BlockSet) {
        if !open.is_empty() {
            self.bottom_up(|s, page| s.window_closed(env, page, open));
        }
    }

    /// Appends the memory of `blocks`, which are in transfer, to `bulk`: all of each block for a read, and exactly
    /// the dirty bytes for a write. Offsets are those of this page's object.
    pub fn bulk(&self, rw: Rw, blocks: BlockSet, bulk: &mut Bulk) {
        let cell = self.folio.cell();
        let state = cell.lock();
        let mut push = |range: std::ops::Range<usize>| {
            let mut at = range.start;
            while let Some(mem) = (at < range.end).then(|| cell.segments().at(at..range.end)).flatten() {
                bulk.push(BulkSegment { offset: self.offset() + at as u64, mem });
                at += mem.len();
            }
        };
        for run in blocks.runs() {
            if rw == Rw::Read || !run.clone().any(|b| state.partial.contains(b)) {
                push(run.start * BLOCK_SIZE as usize..run.end * BLOCK_SIZE as usize);
            } else {
                run.flat_map(|b| cell.dirty_ranges(&state, b)).for_each(&mut push);
            }
        }
    }

    /// Has `sync` told when the transfer of `blocks` (in transfer now) completes, counting blocks.
    pub fn notify(&self, blocks: BlockSet, sync: &Arc<SyncIo>) {
        let mut state = self.folio.cell().lock();
        let pending = blocks.and(state.in_flight());
        if !pending.is_empty() {
            sync.expect(pending.count());
            state.sync.push((pending, sync.clone()));
        }
    }

    /// The transfer of `blocks` is over. Calls the slices bottom to top, then releases the blocks: read ones become
    /// valid, written ones are clean; on failure they are forgotten.
    #[doc(alias = "cl_page_completion")]
    pub fn completion(&self, env: &Env, rw: Rw, blocks: BlockSet, result: &Result<()>) {
        self.bottom_up(|s, page| s.completion(env, page, rw, blocks, result));
        let cell = self.folio.cell();
        let mut state = cell.lock();
        // What isn't in transfer is none of this completion's business.
        let blocks = match state.set(Move::Complete(blocks)) {
            Ok(()) => blocks,
            Err(_) => {
                let moving = blocks.and(state.in_flight());
                let _ = state.set(Move::Complete(moving));
                moving
            }
        };
        match (rw, result) {
            (Rw::Read, Ok(())) => cell.set_valid(blocks),
            (Rw::Write, Ok(())) => state.partial.remove_all(blocks),
            (_, Err(_)) => cell.forget(&mut state, self.folio.backing(), blocks),
        }
        self.folio.backing().settle(&mut state, cell.dirty());
        let mut told = SmallVec::<[(usize, Arc<SyncIo>); 2]>::new();
        state.sync.retain_mut(|(waiting, sync)| {
            let n = waiting.and(blocks).count();
            *waiting = waiting.minus(blocks);
            if n > 0 {
                told.push((n, sync.clone()));
            }
            !waiting.is_empty()
        });
        drop(state);
        cell.changed.notify_all();
        told.iter().for_each(|(n, sync)| sync.note(*n, result));
    }
}
