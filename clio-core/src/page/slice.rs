//! What a layer implements for pages.

use super::{Page, Rw};
use crate::env::Env;
use crate::error::Result;
use crate::units::BlockSet;

/// A layer's part of a page. Called by generic code only; the folio's mutex is never held.
#[doc(alias = "cl_page_operations")]
pub trait PageSlice: Send + Sync {
    /// Name of the layer.
    fn layer(&self) -> &'static str;

    /// An owned page is about to go into an immediate transfer (bottom to top, sub-page first). A layer takes blocks
    /// out of `blocks` that need none: "already".
    ///
    /// # Errors
    /// The page can't be transferred.
    fn prep(&self, env: &Env, page: &Page, rw: Rw, blocks: &mut BlockSet) -> Result<()> {
        let _ = (env, page, rw, blocks);
        Ok(())
    }

    /// A staged page is about to go into an opportunistic transfer (bottom to top). A layer takes blocks out of
    /// `blocks` that are not eligible now: "again".
    fn make_ready(&self, env: &Env, page: &Page, blocks: &mut BlockSet) {
        let _ = (env, page, blocks);
    }

    /// The transfer of `blocks` is over (bottom to top). After the topmost slice, generic code releases the blocks.
    /// Must not block.
    fn completion(&self, env: &Env, page: &Page, rw: Rw, blocks: BlockSet, result: &Result<()>) {
        let _ = (env, page, rw, blocks, result);
    }

    /// `blocks` are being invalidated (bottom to top): sever mappings of them.
    fn unmap(&self, env: &Env, page: &Page, blocks: BlockSet) {
        let _ = (env, page, blocks);
    }

    /// Generic code, or another layer, closed the write window of `blocks` (bottom to top; see
    /// [`Page::shut_window`]): quota and grant set aside for them are free again.
    fn window_closed(&self, env: &Env, page: &Page, blocks: BlockSet) {
        let _ = (env, page, blocks);
    }

    /// The page is dying (bottom to top): cut internal pointers to it.
    fn delete(&self, env: &Env, page: &Page) {
        let _ = (env, page);
    }
}
