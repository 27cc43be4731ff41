//! Exclusive use of a page by an IO.

use super::{Page, Rw, SyncIo, WriteRefusal};
use crate::env::Env;
use crate::error::Result;
use crate::io::IoId;
use crate::object::{AttrCell, Object};
use crate::units::BlockSet;
use std::sync::Arc;

/// A page owned by an IO: nobody else writes, transfers, evicts or invalidates it. Dropping it disowns the page.
///
/// Rule: no page is held while waiting for a lock, a grant or memory.
#[derive(Debug)]
#[must_use = "the page is disowned when this is dropped"]
pub struct OwnedPage {
    page: Arc<Page>,
    io: IoId,
}

impl OwnedPage {
    pub(super) fn new(page: Arc<Page>, io: IoId) -> Self {
        Self { page, io }
    }

    /// The page.
    pub fn page(&self) -> &Arc<Page> {
        &self.page
    }

    /// The owner.
    pub fn io(&self) -> IoId {
        self.io
    }

    /// Writes `buf` at byte `at` of the page. `eof` is where the file ended before, in bytes from the page's start.
    /// None of the bytes' blocks may be in transfer ([`Page::own_idle`]). Returns the blocks touched, now dirty.
    ///
    /// # Errors
    /// [`WriteRefusal::NoMemory`], [`WriteRefusal::Fragmented`]; nothing is changed then.
    pub fn write(&self, at: usize, buf: &[u8], eof: u64) -> Result<BlockSet, WriteRefusal> {
        let folio = self.page.folio();
        let cell = folio.cell();
        let mut state = cell.lock();
        debug_assert!(
            BlockSet::touching(at as u64, (at + buf.len()) as u64).and(state.in_flight()).is_empty(),
            "write to blocks in transfer"
        );
        cell.write(&mut state, folio.backing(), at, buf, eof)
    }

    /// Raises size, KMS and times of `object`, the file that this is a page of, and before it those of the stripe: a write up
    /// to byte `end` of the page. While the page is owned, so that whoever has it written out for a lock comes after.
    pub fn raise(&self, object: &Object, end: usize, mtime: u64) {
        let file_end = self.page.offset() + end as u64;
        match &self.page.folio().cell().lock().sub {
            Some(sub) => AttrCell::raise_both(&sub.attrs, sub.offset + end as u64, object.attrs(), file_end, mtime),
            None => object.attrs().raise(file_end, mtime),
        }
    }

    /// Attaches memory for `blocks`. False if there is none.
    pub fn attach(&self, blocks: BlockSet) -> bool {
        let folio = self.page.folio();
        let state = folio.cell().lock();
        folio.cell().attach(&state, folio.backing(), blocks)
    }

    /// Has `sync` told when those of `blocks` complete that a `prep` moves into a transfer while the page is owned.
    /// Said before the submission, it misses no completion, as [`Page::notify`] after it might.
    pub fn watch(&self, blocks: BlockSet, sync: &Arc<SyncIo>) {
        self.page.folio().cell().lock().watch = Some((blocks, sync.clone()));
    }

    /// [`Page::prep`] by the owner.
    ///
    /// # Errors
    /// As [`Page::prep`].
    pub fn prep(&self, env: &Env, rw: Rw, blocks: BlockSet) -> Result<BlockSet> {
        self.page.prep(env, self.io, rw, blocks)
    }

    /// Cuts the content at byte `at` of the page: beyond lies nothing (whole blocks) or zeros. No block beyond may
    /// be in transfer.
    pub fn truncate(&self, at: usize) {
        let folio = self.page.folio();
        let mut state = folio.cell().lock();
        folio.cell().truncate(&mut state, folio.backing(), at, folio.blocks());
    }

    /// Forgets the content of `blocks`, dirty or not.
    pub fn forget(&self, blocks: BlockSet) {
        let folio = self.page.folio();
        let mut state = folio.cell().lock();
        folio.cell().forget(&mut state, folio.backing(), blocks);
    }
}

impl Drop for OwnedPage {
    fn drop(&mut self) {
        self.page.disown(self.io);
    }
}
