//! What folios are made of: page memory, and, where a client's data is to outlive it, staging records.
//!
//! A folio's record names the blocks that are dirty or being written out, and no others, whenever the folio's mutex is
//! free; see [`crate::memory::staging`] for what holds in between.

use super::folio::WriteRefusal;
use super::folio_state::FolioState;
use super::segments::{SEGMENT_BLOCKS, Segments};
use crate::memory::PageMemory;
use crate::memory::staging::{MAX_RANGES, StagingTable};
use crate::units::BlockSet;
use std::sync::Arc;

/// Page memory with the records of what is dirty there, if they are kept.
pub(super) struct Backing {
    memory: Arc<dyn PageMemory>,
    table: Option<Arc<StagingTable>>,
}

impl Backing {
    pub(super) fn new(memory: Arc<dyn PageMemory>) -> Self {
        let table = memory.staging();
        Self { memory, table }
    }

    pub(super) fn memory(&self) -> &Arc<dyn PageMemory> {
        &self.memory
    }

    /// Whether a record has room for a write that covers `ragged` blocks in part.
    ///
    /// # Errors
    /// [`WriteRefusal::Fragmented`] with a block to write out.
    #[inline]
    pub(super) fn check_room(&self, state: &FolioState, ragged: BlockSet) -> Result<(), WriteRefusal> {
        if self.table.is_none() || ragged.is_empty() {
            return Ok(());
        }
        match state.partial.weight() {
            Some((block, ranges)) if ranges + ragged.count() > MAX_RANGES => Err(WriteRefusal::Fragmented(block)),
            _ => Ok(()),
        }
    }

    /// Sees to it that the folio has a record.
    ///
    /// # Errors
    /// [`WriteRefusal::NoMemory`] if all are in use: by folios that are to be written out.
    #[inline]
    pub(super) fn claim(&self, state: &mut FolioState) -> Result<(), WriteRefusal> {
        // A folio without a sub-object is never written out either.
        if let (Some(table), None, Some(sub)) = (&self.table, state.record, &state.sub) {
            state.record = Some(table.claim(sub.fid, sub.offset).ok_or(WriteRefusal::NoMemory)?);
        }
        Ok(())
    }

    /// `touched` were written, and the bytes are in `segments`; `ragged` of them in part.
    #[inline]
    pub(super) fn publish(&self, state: &FolioState, segments: &Segments, touched: BlockSet, ragged: BlockSet) {
        let (Some(table), Some(record)) = (&self.table, state.record) else { return };
        let new = touched.minus(table.named(record));
        let mut segment = usize::MAX;
        for block in new.iter().filter(|b| std::mem::replace(&mut segment, b / SEGMENT_BLOCKS) != b / SEGMENT_BLOCKS) {
            if let Some((first, mem)) = segments.piece(block / SEGMENT_BLOCKS) {
                table.set_piece(record, block / SEGMENT_BLOCKS, first, mem);
            }
        }
        let mut whole = touched.minus(ragged);
        for block in ragged.iter() {
            match state.partial.ranges(block) {
                Some(ranges) => table.set_ranges(record, block, ranges),
                None => whole.insert(block),
            }
        }
        table.set_whole(record, whole);
        table.add(record, new);
    }

    /// The blocks of a segment have other memory now; the old one is about to go.
    pub(super) fn moved(&self, state: &FolioState, segments: &Segments, segment: usize) {
        if let (Some(table), Some(record), Some((first, mem))) = (&self.table, state.record, segments.piece(segment)) {
            table.set_piece(record, segment, first, mem);
        }
    }

    /// Fewer bytes of `block` are dirty than before, or none.
    pub(super) fn clipped(&self, state: &FolioState, block: usize) {
        if let (Some(table), Some(record), Some(ranges)) = (&self.table, state.record, state.partial.ranges(block)) {
            table.set_ranges(record, block, ranges);
        }
    }

    /// Only `dirty`, and what is being written out, is still to be named.
    #[inline]
    pub(super) fn settle(&self, state: &mut FolioState, dirty: BlockSet) {
        let (Some(table), Some(record)) = (&self.table, state.record) else { return };
        let gone = table.named(record).minus(dirty.or(state.page_out()));
        if table.remove(record, gone) {
            table.give_back(record);
            state.record = None;
        }
    }
}
