//! Dirty byte ranges of blocks that were not written whole: what write-out sends is what was written, to the byte.

use crate::units::{BLOCK_SIZE, BlockSet};
use smallvec::SmallVec;
use std::ops::Range;

/// Most ranges kept for a block; beyond that it is written out first.
pub(super) const MAX_RANGES: usize = 32;

/// Dirty ranges of one block, ascending, neither touching nor overlapping.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    block: u16,
    ranges: SmallVec<[(u16, u16); 2]>,
}

/// The partly dirty blocks of a folio.
#[derive(Default, Debug)]
pub(super) struct PartialBlocks(Vec<Entry>);

impl PartialBlocks {
    fn find(&self, block: usize) -> Option<usize> {
        self.0.iter().position(|e| e.block as usize == block)
    }

    /// Whether `block` has an entry, that is, is dirty in part.
    pub(super) fn contains(&self, block: usize) -> bool {
        self.find(block).is_some()
    }

    /// Whether adding `range` to `block` would make too many ranges.
    pub(super) fn is_full_for(&self, block: usize, range: &Range<usize>) -> bool {
        self.find(block).is_some_and(|i| {
            let e = &self.0[i];
            let touches = e.ranges.iter().any(|(s, t)| range.start <= *t as usize && *s as usize <= range.end);
            e.ranges.len() >= MAX_RANGES && !touches
        })
    }

    /// Adds the bytes `range` (within the block) as dirty. True if the block is now dirty as a whole: the entry is
    /// gone then.
    pub(super) fn add(&mut self, block: usize, range: Range<usize>) -> bool {
        let i = match self.find(block) {
            Some(i) => i,
            None => {
                self.0.push(Entry { block: block as u16, ranges: SmallVec::new() });
                self.0.len() - 1
            }
        };
        let ranges = &mut self.0[i].ranges;
        let (mut start, mut end) = (range.start as u16, range.end as u16);
        ranges.retain(|(s, e)| {
            let apart = *e < start || end < *s;
            if !apart {
                start = start.min(*s);
                end = end.max(*e);
            }
            apart
        });
        let at = ranges.iter().position(|(s, _)| *s > start).unwrap_or(ranges.len());
        ranges.insert(at, (start, end));
        if ranges[0] == (0, BLOCK_SIZE as u16) {
            self.0.swap_remove(i);
            return true;
        }
        false
    }

    /// A block that has an entry, and how many ranges all entries have.
    pub(super) fn weight(&self) -> Option<(usize, usize)> {
        let first = self.0.first()?.block as usize;
        Some((first, self.0.iter().map(|e| e.ranges.len()).sum()))
    }

    /// Forgets the entries of `blocks`.
    #[inline]
    pub(super) fn remove_all(&mut self, blocks: BlockSet) {
        if !self.0.is_empty() {
            self.0.retain(|e| !blocks.contains(e.block as usize));
        }
    }

    /// Cuts dirty bytes of `block` at `at`. `was_whole` says that the block was dirty as a whole until now.
    /// True if dirty bytes remain.
    pub(super) fn clip(&mut self, block: usize, at: usize, was_whole: bool) -> bool {
        match self.find(block) {
            None if was_whole && at > 0 => {
                self.add(block, 0..at);
                true
            }
            None => false,
            Some(i) => {
                let ranges = &mut self.0[i].ranges;
                ranges.retain(|(s, e)| {
                    *e = (*e).min(at as u16);
                    *s < *e
                });
                let left = !ranges.is_empty();
                if !left {
                    self.0.swap_remove(i);
                }
                left
            }
        }
    }

    /// Dirty ranges of `block`, as bytes within the block; `None` for one that has no entry.
    pub(super) fn ranges(&self, block: usize) -> Option<&[(u16, u16)]> {
        self.find(block).map(|i| self.0[i].ranges.as_slice())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_match_a_bitmap(ops in prop::collection::vec((0usize..4096, 1usize..700, any::<bool>()), 1..40)) {
            let mut p = PartialBlocks::default();
            let mut model = vec![false; 4096];
            let mut whole = false;
            for (start, len, clip) in ops {
                if clip && !whole {
                    let left = p.clip(3, start, false);
                    model[start..].fill(false);
                    prop_assert_eq!(left, model.contains(&true));
                } else if !whole {
                    let end = (start + len).min(4096);
                    model[start..end].fill(true);
                    whole = p.add(3, start..end);
                    prop_assert_eq!(whole, !model.contains(&false));
                }
                let mut got = vec![whole; 4096];
                for (s, e) in p.ranges(3).unwrap_or(&[]) {
                    got[*s as usize..*e as usize].fill(true);
                }
                prop_assert_eq!(&got, &model);
            }
        }
    }
}
