//! Folios: which one of a sub-object backs which one of a file.

use super::{FileComponent, FileLayout, Location, StripeRef};
use clio_core::units::{Extent, MAX_FOLIO_SIZE, PageIndex, TargetIndex};

/// A folio of a file as the folio of a sub-object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SubFolio {
    /// The stripe.
    pub at: StripeRef,
    /// The target that holds it.
    pub target: TargetIndex,
    /// The folio's index in the stripe's object, whose folios have the size of the file's.
    pub index: PageIndex,
}

/// The largest power of two up to [`MAX_FOLIO_SIZE`] that divides every stripe size and every bound of a component.
pub(super) fn common_size(components: &[FileComponent]) -> u64 {
    let bits = components.iter().fold(MAX_FOLIO_SIZE, |bits, c| {
        // A component starts at 0 or where the one before ends, so that the ends are all bounds there are.
        let end = c.extent().end;
        bits | c.striping().stripe_size | if end == Extent::EOF { 0 } else { end }
    });
    1 << bits.trailing_zeros()
}

impl FileLayout {
    /// Bytes in a folio of the file and of its sub-objects: the largest power of two up to 1 MiB that divides all
    /// stripe sizes and all bounds of components, so that no folio crosses a stripe unit. At least 64 KiB.
    pub fn folio_size(&self) -> u64 {
        self.folio_size
    }

    /// The folio of a sub-object that backs folio `index` of the file; `None` in a missing component and where the
    /// layout defines nothing.
    pub fn sub_folio(&self, index: PageIndex) -> Option<SubFolio> {
        match self.locate(index.0.checked_mul(self.folio_size)?) {
            Location::Stripe(p) => {
                Some(SubFolio { at: p.at, target: p.target, index: PageIndex(p.object_offset / self.folio_size) })
            }
            Location::Missing { .. } | Location::Undefined => None,
        }
    }

    /// The folio of the file that folio `index` of a sub-object backs: the inverse of [`FileLayout::sub_folio`].
    pub fn top_folio(&self, at: StripeRef, index: PageIndex) -> Option<PageIndex> {
        let offset = self.file_offset(at, index.0.checked_mul(self.folio_size)?)?;
        Some(PageIndex(offset / self.folio_size))
    }
}
