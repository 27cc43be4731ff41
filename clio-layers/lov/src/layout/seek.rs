//! Finding data and holes of a file by asking its objects.

use super::{FileLayout, StripeRef};
use clio_core::units::{Extent, TargetIndex};

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekTarget {
    /// `SEEK_DATA`
    Data,
    /// `SEEK_HOLE`
    Hole,
}

/// A question to one object: where is the next data, or hole, at or after `object_offset`?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeekAsk {
    /// The stripe.
    pub at: StripeRef,
    /// The target that holds it.
    pub target: TargetIndex,
    /// Where to start, in bytes of the object.
    pub object_offset: u64,
}

impl FileLayout {
    /// What to ask, and whom, to find data or a hole at or after `offset` of a file of `size` bytes.
    pub fn seek_asks(&self, offset: u64, size: u64) -> impl Iterator<Item = SeekAsk> {
        self.sub_extents(Extent::new(offset, size)).map(|s| SeekAsk {
            at: s.at,
            target: s.target,
            object_offset: s.object.start,
        })
    }

    /// The file offset of the next data or hole at or after `offset`, from the objects' answers to all of
    /// [`FileLayout::seek_asks`]; an answer is `None` where the object ends before the offset asked for.
    ///
    /// Missing components are holes, and so is what lies beyond the end of an object; the end of the file is one too.
    /// `None` (`ENXIO`) if there is no more data, or if `offset` isn't below `size`.
    pub fn seek_merge(
        &self,
        what: SeekTarget,
        offset: u64,
        size: u64,
        answers: impl IntoIterator<Item = (SeekAsk, Option<u64>)>,
    ) -> Option<u64> {
        if offset >= size {
            return None;
        }
        // In data, an object that has ended has none. In holes, all that follows is one.
        let found = answers.into_iter().filter_map(|(ask, answer)| {
            let object_offset = match what {
                SeekTarget::Data => answer?,
                SeekTarget::Hole => answer.unwrap_or(ask.object_offset),
            };
            self.file_offset(ask.at, object_offset)
        });
        let nearest = found.filter(|f| (offset..size).contains(f)).min();
        match what {
            SeekTarget::Data => nearest,
            SeekTarget::Hole => {
                let undefined = self.first_missing(offset).unwrap_or(size);
                Some(nearest.unwrap_or(size).min(undefined).min(size))
            }
        }
    }

    /// The first offset at or after `offset` that no object can hold.
    fn first_missing(&self, offset: u64) -> Option<u64> {
        let first = self.missing(Extent::new(offset, Extent::EOF)).next().and_then(|i| self.component(i));
        first.map(|c| c.extent().start.max(offset))
    }
}
