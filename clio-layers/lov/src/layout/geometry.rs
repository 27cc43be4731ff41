//! RAID0 arithmetic of one component: offsets in the file and in its objects.

use clio_core::units::{Extent, MAX_FILE_SIZE, StripeIndex};
use std::num::NonZeroU64;

/// Stripe size and stripe count: enough to know where each byte of a file lies.
///
/// Offsets are bytes. No function panics or overflows for any offset; a stripe index must be below the count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    stripe_size: NonZeroU64,
    /// Stripe size times stripe count.
    width: NonZeroU64,
}

impl Geometry {
    /// `None` if either is 0, or if their product exceeds 2^63 - 1.
    pub fn new(stripe_size: u64, stripe_count: u64) -> Option<Self> {
        let width = stripe_size.checked_mul(stripe_count).filter(|w| *w <= MAX_FILE_SIZE)?;
        Some(Self { stripe_size: NonZeroU64::new(stripe_size)?, width: NonZeroU64::new(width)? })
    }

    /// Bytes that go to one stripe before the next stripe's turn.
    pub fn stripe_size(self) -> u64 {
        self.stripe_size.get()
    }

    /// How many stripes there are.
    pub fn stripe_count(self) -> u64 {
        self.width.get() / self.stripe_size
    }

    /// The stripe that holds the byte at `offset` of the file.
    #[doc(alias = "lov_stripe_number")]
    pub fn stripe_of(self, offset: u64) -> StripeIndex {
        StripeIndex((offset % self.width / self.stripe_size) as u16)
    }

    /// Where in its object the byte at `offset` of the file lies.
    pub fn object_offset(self, offset: u64) -> u64 {
        offset / self.width * self.stripe_size.get() + offset % self.stripe_size
    }

    /// How many bytes of `stripe` lie below `offset` of the file. That is also the object offset of the first byte
    /// of the stripe that lies at or after `offset`.
    #[doc(alias = "lov_stripe_offset")]
    pub fn bytes_below(self, stripe: StripeIndex, offset: u64) -> u64 {
        let size = self.stripe_size.get();
        let in_round = (offset % self.width).saturating_sub(u64::from(stripe.0) * size);
        offset / self.width * size + in_round.min(size)
    }

    /// The file offset of the byte at `object_offset` of `stripe`; `None` if that is beyond the largest file.
    #[doc(alias = "lov_stripe_size")]
    pub fn file_offset(self, stripe: StripeIndex, object_offset: u64) -> Option<u64> {
        let round = (object_offset / self.stripe_size).checked_mul(self.width.get())?;
        let in_round = u64::from(stripe.0) * self.stripe_size.get() + object_offset % self.stripe_size;
        round.checked_add(in_round).filter(|f| *f < MAX_FILE_SIZE)
    }

    /// What of `extent` of the file lies on `stripe`, as an extent of its object; possibly empty. An end at
    /// [`Extent::EOF`] stays there.
    #[doc(alias = "lov_stripe_intersects")]
    pub fn sub_extent(self, stripe: StripeIndex, extent: Extent) -> Extent {
        let start = self.bytes_below(stripe, extent.start);
        match extent.end {
            Extent::EOF if extent.start < Extent::EOF => Extent { start, end: Extent::EOF },
            end => Extent::new(start, self.bytes_below(stripe, end)),
        }
    }

    /// The file offset after the stripe unit that holds the byte at `offset`, at most the largest file size.
    pub fn unit_end(self, offset: u64) -> u64 {
        let end = (offset / self.stripe_size).saturating_add(1).saturating_mul(self.stripe_size.get());
        end.min(MAX_FILE_SIZE)
    }

    /// The stripes that `extent` touches, in ascending order, as two ranges since it may wrap around.
    pub(super) fn touched(self, extent: Extent) -> [std::ops::Range<u16>; 2] {
        let count = self.stripe_count() as u16;
        if extent.is_empty() {
            return [0..0, 0..0];
        }
        let (first, last) = (extent.start / self.stripe_size, (extent.end - 1) / self.stripe_size);
        if last - first >= u64::from(count) {
            return [0..count, 0..0];
        }
        let (first, last) = (self.stripe_of(extent.start).0, self.stripe_of(extent.end - 1).0);
        if first <= last { [first..last + 1, 0..0] } else { [0..last + 1, first..count] }
    }
}
