//! Keeping cached writes away from blocks for a while.

use super::Page;
use crate::env::Env;
use crate::units::BlockSet;
use std::sync::Arc;

/// While it lives, no write window is open for its blocks, though the rest of the folio may have one, and the page stays.
///
/// For who changes a range that ends within a folio and has kept other writers off the range: a writer elsewhere in the
/// folio may have a window opened that reaches into it.
#[derive(Debug)]
#[must_use = "windows may be opened again when this is dropped"]
pub struct WindowBar {
    page: Arc<Page>,
    blocks: BlockSet,
}

impl WindowBar {
    /// Shuts the window for `blocks` and keeps it shut. Bars of one page at the same time are for different blocks.
    /// `None` if the page is dying.
    pub fn new(env: &Env, page: &Arc<Page>, blocks: BlockSet) -> Option<Self> {
        {
            let mut state = page.folio().cell().lock();
            if state.is_freeing() {
                return None;
            }
            debug_assert!(state.barred.and(blocks).is_empty(), "blocks are barred twice");
            state.barred = state.barred.or(blocks);
        }
        page.shut_window(env, blocks);
        Some(Self { page: page.clone(), blocks })
    }

    /// The page.
    pub fn page(&self) -> &Arc<Page> {
        &self.page
    }
}

impl Drop for WindowBar {
    fn drop(&mut self) {
        let mut state = self.page.folio().cell().lock();
        state.barred = state.barred.minus(self.blocks);
    }
}
