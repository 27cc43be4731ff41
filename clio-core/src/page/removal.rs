//! Invalidation, eviction and deletion of pages.

use super::Page;
use super::folio::FolioCell;
use super::folio_state::{FolioState, Move};
use crate::env::Env;
use crate::sync::atomic::Ordering;
use crate::units::BlockSet;

impl Page {
    /// Invalidates `blocks`: waits for owners and transfers, severs mappings, forgets content, dirty or not.
    #[doc(alias = "cl_page_discard")]
    pub fn discard(&self, env: &Env, blocks: BlockSet) {
        self.bottom_up(|s, page| s.unmap(env, page, blocks));
        let cell = self.folio.cell();
        let mut state = cell.lock();
        while state.is_owned() || !state.in_flight().and(blocks).is_empty() {
            state = state.wait(&cell.changed);
        }
        let open = state.window.and(blocks);
        cell.forget(&mut state, self.folio.backing(), blocks);
        drop(state);
        self.tell_window_closed(env, open);
    }

    /// Whether nothing is cached, dirty, in transfer or owned: the page can go.
    pub fn is_unused(&self) -> bool {
        let cell = self.folio.cell();
        let state = cell.lock();
        !state.is_owned() && state.in_flight().is_empty() && cell.valid().or(cell.dirty()).is_empty()
    }

    /// Evicts the page if nobody uses it and nothing is dirty or in transfer: false if it can't go now.
    pub fn evict(&self, env: &Env) -> bool {
        self.delete_if(env, |state, cell| {
            !state.is_owned()
                && state.in_flight().is_empty()
                && cell.dirty().is_empty()
                && state.window.or(state.barred).is_empty()
        })
    }

    /// Deletes the page: it is never found again, and goes when the last reference does. Its dirty data, if any, is
    /// dropped: the caller has written it out or means to lose it. Waits for an owner and for transfers.
    #[doc(alias = "cl_page_delete")]
    pub fn delete(&self, env: &Env) {
        let cell = self.folio.cell();
        let idle = |state: &FolioState| !state.is_owned() && state.in_flight().is_empty();
        loop {
            {
                let mut state = cell.lock();
                while !state.is_freeing() && !idle(&state) {
                    state = state.wait(&cell.changed);
                }
                if state.is_freeing() {
                    return;
                }
            }
            // Somebody may have come to own it in between.
            if self.delete_if(env, |state, _| idle(state)) {
                return;
            }
        }
    }

    /// Deletes the page if it is empty and idle: after an invalidation, when another lock may still cover a part.
    pub fn delete_if_unused(&self, env: &Env) -> bool {
        self.delete_if(env, |state, cell| {
            !state.is_owned()
                && state.in_flight().is_empty()
                && cell.valid().or(cell.dirty()).or(state.barred).is_empty()
        })
    }

    /// Marks this header dying, has its slices cut their pointers, and takes it out of its index; once.
    pub(super) fn forget_header(&self, env: &Env) {
        if self.dying.swap(true, Ordering::AcqRel) {
            return;
        }
        self.slices.iter().rev().for_each(|s| s.delete(env, self));
        if let Some(object) = self.object() {
            object.pages().remove(self);
        }
    }

    fn delete_if(&self, env: &Env, may: impl FnOnce(&FolioState, &FolioCell) -> bool) -> bool {
        let cell = self.folio.cell();
        let open = {
            let mut state = cell.lock();
            if state.is_freeing() || !may(&state, cell) || state.set(Move::Delete).is_err() {
                return false;
            }
            let open = state.window;
            let all = self.all_blocks();
            cell.forget(&mut state, self.folio.backing(), all);
            open
        };
        cell.changed.notify_all();
        self.tell_window_closed(env, open);
        let top = self.parent();
        // Bottom to top.
        let (sub, top) = match &self.child {
            Some(child) => (Some(child.as_ref()), Some(self)),
            None => (Some(self), top.as_deref()),
        };
        for page in [sub, top].into_iter().flatten() {
            page.forget_header(env);
        }
        true
    }
}
