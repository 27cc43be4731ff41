//! Exclusive use of a page, and waiting for it.

use super::folio_state::{FolioState, Move};
use super::{OwnedPage, Page};
use crate::io::IoId;
use crate::units::BlockSet;
use std::sync::Arc;

impl Page {
    /// Takes exclusive use for `io`, waiting for another owner to leave. `None` if the page is dying.
    #[doc(alias = "cl_page_own")]
    pub fn own(self: &Arc<Self>, io: IoId) -> Option<OwnedPage> {
        self.own_idle(io, BlockSet::EMPTY)
    }

    /// As [`Page::own`], and waits until none of `blocks` is in transfer, nor any block whose memory would have to
    /// move to make room for them.
    pub fn own_idle(self: &Arc<Self>, io: IoId, blocks: BlockSet) -> Option<OwnedPage> {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        loop {
            if state.is_freeing() {
                return None;
            }
            let busy = state.in_flight();
            if !state.is_owned() && (busy.is_empty() || busy.and(blocks.or(cell.segments().growth(blocks))).is_empty())
            {
                return self.owned(&mut state, io);
            }
            state = state.wait(&cell.changed);
        }
    }

    /// Takes exclusive use for `io` if that is possible at once.
    #[doc(alias = "cl_page_own_try")]
    pub fn try_own(self: &Arc<Self>, io: IoId) -> Option<OwnedPage> {
        let mut state = self.folio.cell().lock();
        if state.is_freeing() || state.is_owned() {
            return None;
        }
        self.owned(&mut state, io)
    }

    /// As [`Page::own_idle`], but only if it is possible at once.
    pub fn try_own_idle(self: &Arc<Self>, io: IoId, blocks: BlockSet) -> Option<OwnedPage> {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        let busy = state.in_flight();
        if state.is_freeing()
            || state.is_owned()
            || (!busy.is_empty() && !busy.and(blocks.or(cell.segments().growth(blocks))).is_empty())
        {
            return None;
        }
        self.owned(&mut state, io)
    }

    fn owned(self: &Arc<Self>, state: &mut FolioState, io: IoId) -> Option<OwnedPage> {
        state.set(Move::Own(io)).ok().map(|()| OwnedPage::new(self.clone(), io))
    }

    /// Gives up exclusive use.
    #[doc(alias = "cl_page_disown")]
    pub(super) fn disown(&self, io: IoId) {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        // One that another IO owns stays as it is.
        let _ = state.set(Move::Disown(io));
        drop(state);
        cell.changed.notify_all();
    }

    /// Waits until none of `blocks` is in transfer.
    pub fn wait_idle(&self, blocks: BlockSet) {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        while !state.in_flight().and(blocks).is_empty() {
            state = state.wait(&cell.changed);
        }
    }
}
