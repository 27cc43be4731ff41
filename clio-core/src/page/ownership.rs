//! Exclusive use of a page, and waiting for it.

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
            if state.freeing {
                return None;
            }
            let busy = state.in_flight();
            if state.owner.is_none()
                && (busy.is_empty() || busy.and(blocks.or(cell.segments().growth(blocks))).is_empty())
            {
                state.owner = Some(io);
                return Some(OwnedPage::new(self.clone(), io));
            }
            state = state.wait(&cell.changed);
        }
    }

    /// Takes exclusive use for `io` if that is possible at once.
    #[doc(alias = "cl_page_own_try")]
    pub fn try_own(self: &Arc<Self>, io: IoId) -> Option<OwnedPage> {
        let mut state = self.folio.cell().lock();
        if state.freeing || state.owner.is_some() {
            return None;
        }
        state.owner = Some(io);
        Some(OwnedPage::new(self.clone(), io))
    }

    /// As [`Page::own_idle`], but only if it is possible at once.
    pub fn try_own_idle(self: &Arc<Self>, io: IoId, blocks: BlockSet) -> Option<OwnedPage> {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        let busy = state.in_flight();
        if state.freeing
            || state.owner.is_some()
            || (!busy.is_empty() && !busy.and(blocks.or(cell.segments().growth(blocks))).is_empty())
        {
            return None;
        }
        state.owner = Some(io);
        Some(OwnedPage::new(self.clone(), io))
    }

    /// Gives up exclusive use.
    #[doc(alias = "cl_page_disown")]
    pub(super) fn disown(&self, io: IoId) {
        let cell = self.folio.cell();
        let mut state = cell.lock();
        debug_assert!(state.owner == Some(io), "disowned by {io:?}, owned by {:?}", state.owner);
        state.owner = None;
        state.watch = None;
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
