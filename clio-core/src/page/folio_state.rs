//! What a folio's mutex guards: ownership, transfer, and who waits for it.
//!
//! The state of the folio and of its blocks has one setter, [`FolioState::set`], which goes by the transition table. An
//! illegal move changes nothing: it fails in debug builds, and is logged and refused in others.

use super::Rw;
use super::partial::PartialBlocks;
use super::state::{IllegalTransition, PageState};
use super::sync_io::SyncIo;
use crate::error::{Errno, Error};
use crate::io::IoId;
use crate::memory::staging::RecordIndex;
use crate::object::AttrCell;
use crate::units::{BlockSet, Fid};
use std::sync::Arc;

/// A move along the table's edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    /// Cached → Owned.
    Own(IoId),
    /// Owned → Cached, by the owner.
    Disown(IoId),
    /// Owned → PageIn or PageOut, of blocks, by the owner.
    Prep(IoId, Rw, BlockSet),
    /// Cached → PageOut, of blocks.
    MakeReady(BlockSet),
    /// PageIn or PageOut → Cached, of blocks. Those of a folio that is owned are the owner's again.
    Complete(BlockSet),
    /// Cached → Freeing.
    Delete,
}

/// The sub-object of a folio.
#[derive(Debug)]
pub(super) struct Sub {
    pub(super) fid: Fid,
    /// A cached write raises its KMS.
    pub(super) attrs: Arc<AttrCell>,
    /// Where in it the folio starts, in bytes.
    pub(super) offset: u64,
}

/// State guarded by the folio's mutex.
#[derive(Debug, Default)]
pub(super) struct FolioState {
    /// The IO that owns the folio.
    owner: Option<IoId>,
    /// On its way out: see [`PageState::Freeing`].
    freeing: bool,
    /// Blocks being read.
    page_in: BlockSet,
    /// Blocks being written out.
    page_out: BlockSet,
    /// Blocks that may be dirtied without telling the transfer layer: it has set quota aside for them.
    pub(super) window: BlockSet,
    /// Blocks that no window is opened for: somebody cuts them, or writes them past the cache.
    pub(super) barred: BlockSet,
    /// Where in which sub-object the folio lies.
    pub(super) sub: Option<Sub>,
    /// Says what of the folio is not at its target yet, if anything: exactly the blocks that are dirty or being written
    /// out.
    pub(super) record: Option<RecordIndex>,
    pub(super) partial: PartialBlocks,
    /// Who waits for which blocks' transfer.
    pub(super) sync: Vec<(BlockSet, Arc<SyncIo>)>,
    /// Who will wait for which blocks, once the owner's `prep` has moved them into a transfer.
    pub(super) watch: Option<(BlockSet, Arc<SyncIo>)>,
}

impl FolioState {
    /// Blocks in transfer.
    #[inline]
    pub(super) fn in_flight(&self) -> BlockSet {
        self.page_in.or(self.page_out)
    }

    /// Blocks being written out.
    pub(super) fn page_out(&self) -> BlockSet {
        self.page_out
    }

    /// Whether an IO owns the folio.
    #[inline]
    pub(super) fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether the folio is on its way out.
    #[inline]
    pub(super) fn is_freeing(&self) -> bool {
        self.freeing
    }

    /// State of block `b`: transfer beats ownership.
    pub(super) fn state_of(&self, b: usize) -> PageState {
        if self.page_in.contains(b) {
            PageState::PageIn
        } else if self.page_out.contains(b) {
            PageState::PageOut
        } else {
            self.at_rest()
        }
    }

    /// State of what isn't in transfer.
    fn at_rest(&self) -> PageState {
        match self.owner {
            _ if self.freeing => PageState::Freeing,
            Some(_) => PageState::Owned,
            None => PageState::Cached,
        }
    }

    /// The one setter of page state: checks the table, then does as told. Changes nothing if the table forbids it.
    ///
    /// # Errors
    /// [`IllegalTransition`]: a layer broke the protocol. Debug builds panic.
    #[track_caller]
    pub(super) fn set(&mut self, to: Move) -> Result<(), IllegalTransition> {
        let done = self.try_set(to);
        if let Err(e) = &done {
            tracing::error!(target: "clio::page", error = %e, asked = ?to, owner = ?self.owner, "refused");
            debug_assert!(false, "{e}: {to:?}, owner {:?}", self.owner);
        }
        done
    }

    fn try_set(&mut self, to: Move) -> Result<(), IllegalTransition> {
        self.check(to)?;
        match to {
            Move::Own(io) => self.owner = Some(io),
            Move::Disown(_) => (self.owner, self.watch) = (None, None),
            Move::Prep(_, Rw::Read, blocks) => self.page_in = self.page_in.or(blocks),
            Move::Prep(_, Rw::Write, blocks) | Move::MakeReady(blocks) => self.page_out = self.page_out.or(blocks),
            Move::Complete(blocks) => {
                self.page_in = self.page_in.minus(blocks);
                self.page_out = self.page_out.minus(blocks);
            }
            Move::Delete => self.freeing = true,
        }
        Ok(())
    }

    fn check(&self, to: Move) -> Result<(), IllegalTransition> {
        use PageState::*;
        let rest = self.at_rest();
        match to {
            Move::Own(_) => rest.transition(Owned).map(drop),
            Move::Disown(io) if self.owner == Some(io) => rest.transition(Cached).map(drop),
            Move::Prep(io, Rw::Read, blocks) if self.owner == Some(io) => self.each(blocks, PageIn),
            Move::Prep(io, Rw::Write, blocks) if self.owner == Some(io) => self.each(blocks, PageOut),
            Move::MakeReady(blocks) if self.owner.is_none() => self.each(blocks, PageOut),
            Move::Complete(blocks) if self.in_flight().covers(blocks) => self.each(blocks, Cached),
            Move::Delete if self.owner.is_none() => {
                rest.transition(Freeing)?;
                self.each(self.in_flight(), Freeing)
            }
            // By somebody who doesn't own it, or of what isn't in transfer: to the table it would be another edge.
            Move::Disown(_) | Move::Complete(_) => Err(IllegalTransition { from: rest, to: Cached }),
            Move::Prep(_, Rw::Read, _) => Err(IllegalTransition { from: rest, to: PageIn }),
            Move::Prep(..) | Move::MakeReady(_) => Err(IllegalTransition { from: rest, to: PageOut }),
            Move::Delete => Err(IllegalTransition { from: rest, to: Freeing }),
        }
    }

    /// Whether each of `blocks` may go to `to`.
    fn each(&self, blocks: BlockSet, to: PageState) -> Result<(), IllegalTransition> {
        let classes = [
            (self.page_in, PageState::PageIn),
            (self.page_out, PageState::PageOut),
            (blocks.minus(self.in_flight()), self.at_rest()),
        ];
        let mut met = classes.into_iter().filter(|(class, _)| !class.and(blocks).is_empty());
        met.try_for_each(|(_, from)| from.transition(to).map(drop))
    }

    /// The cell's next folio starts as the first did.
    pub(super) fn end_life(&mut self) {
        let is_unused = self.in_flight().is_empty() && self.owner.is_none() && self.record.is_none();
        debug_assert!(is_unused, "a folio is freed in use");
        self.partial.clear();
        let partial = std::mem::take(&mut self.partial);
        let mut sync = std::mem::take(&mut self.sync);
        sync.clear();
        *self = Self { partial, sync, ..Self::default() };
    }
}

impl From<IllegalTransition> for Error {
    fn from(e: IllegalTransition) -> Self {
        Error::new(Errno::EPROTO, "page", e.to_string())
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;

    fn at(moves: &[Move]) -> FolioState {
        let mut state = FolioState::default();
        moves.iter().for_each(|m| state.try_set(*m).expect("legal"));
        state
    }

    /// Every move from every state, with block 0 as its object: what the table forbids is refused, and changes nothing.
    #[test]
    fn moves_go_by_the_table() {
        let (me, other, block) = (IoId(1), IoId(2), BlockSet::range(0..1));
        let states: [(&str, &[Move]); 7] = [
            ("Cached", &[]),
            ("Owned", &[Move::Own(me)]),
            ("PageIn", &[Move::Own(me), Move::Prep(me, Rw::Read, block), Move::Disown(me)]),
            ("PageIn, owned", &[Move::Own(me), Move::Prep(me, Rw::Read, block)]),
            ("PageOut", &[Move::MakeReady(block)]),
            ("PageOut, owned", &[Move::MakeReady(block), Move::Own(me)]),
            ("Freeing", &[Move::Delete]),
        ];
        let moves = [
            ("own", Move::Own(other)),
            ("disown", Move::Disown(me)),
            ("disown by another", Move::Disown(other)),
            ("prep for read", Move::Prep(me, Rw::Read, block)),
            ("prep for write", Move::Prep(me, Rw::Write, block)),
            ("prep by another", Move::Prep(other, Rw::Write, block)),
            ("make_ready", Move::MakeReady(block)),
            ("completion", Move::Complete(block)),
            ("delete", Move::Delete),
        ];
        let mut table = String::new();
        for (name, way) in states {
            let legal: Vec<_> = moves
                .iter()
                .filter(|(_, to)| {
                    let mut state = at(way);
                    let before = (state.state_of(0), state.at_rest());
                    let done = state.try_set(*to);
                    assert!(done.is_ok() || (state.state_of(0), state.at_rest()) == before);
                    assert!(done.is_err() || (state.state_of(0), state.at_rest()) != before, "{name}: {to:?}");
                    done.is_ok()
                })
                .map(|(name, _)| *name)
                .collect();
            table += &format!("{name}: {legal:?}\n");
        }
        insta::assert_snapshot!(table, @r#"
        Cached: ["own", "make_ready", "delete"]
        Owned: ["disown", "prep for read", "prep for write"]
        PageIn: ["own", "completion"]
        PageIn, owned: ["disown", "completion"]
        PageOut: ["own", "completion"]
        PageOut, owned: ["disown", "completion"]
        Freeing: []
        "#);
    }

    /// One block of several is enough.
    #[test]
    fn every_block_is_checked() {
        let mut state = at(&[Move::MakeReady(BlockSet::range(2..3))]);
        assert!(state.try_set(Move::MakeReady(BlockSet::range(0..4))).is_err());
        assert!(state.try_set(Move::Complete(BlockSet::range(2..4))).is_err());
        assert_eq!(state.in_flight(), BlockSet::range(2..3));
    }
}
