//! Where the bytes of a file lie, over all components: offsets, extents, sizes, truncation.

use super::{ComponentIndex, FileComponent, FileLayout, StripeRef};
use clio_core::units::{Extent, MAX_FILE_SIZE, StripeIndex, TargetIndex};
use clio_core::{Errno, Error, Result};

/// Where a byte of a file lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    /// On a stripe.
    Stripe(Placed),
    /// In a component that is not instantiated, which ends before file offset `end`.
    Missing {
        /// The component.
        component: ComponentIndex,
        /// The first file offset after it, at most the largest file size.
        end: u64,
    },
    /// Beyond the last component, or beyond the largest file.
    Undefined,
}

/// A byte's place on a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The stripe.
    pub at: StripeRef,
    /// The target that holds it.
    pub target: TargetIndex,
    /// Where in the stripe's object.
    pub object_offset: u64,
    /// The file offset after the run of bytes from here that lie one after the other in the same object: the end of
    /// the stripe unit or, if there is one stripe only, of the component. At most the largest file size.
    pub run_end: u64,
}

/// What of an extent of a file lies on one stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubExtent {
    /// The stripe.
    pub at: StripeRef,
    /// The target that holds it.
    pub target: TargetIndex,
    /// Bytes of the stripe's object; never empty.
    pub object: Extent,
}

/// The size that an object gets by a truncation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeSize {
    /// The stripe.
    pub at: StripeRef,
    /// The target that holds it.
    pub target: TargetIndex,
    /// Its object's new size in bytes.
    pub object_size: u64,
}

impl FileComponent {
    /// What of `extent` of the file lies on `stripe` of this component, as an extent of its object, possibly empty.
    fn part(&self, stripe: StripeIndex, extent: Extent) -> Extent {
        let none = Extent::new(0, 0);
        self.geometry().map_or(none, |g| g.sub_extent(stripe, extent.intersect(self.extent())))
    }
}

impl FileLayout {
    /// The largest size in bytes that the file can have: the last component's end, or 2^63 - 1.
    #[doc(alias = "lov_object_maxbytes")]
    pub fn max_size(&self) -> u64 {
        self.components.last().map_or(0, |c| c.extent().end.min(MAX_FILE_SIZE))
    }

    /// That a file of `size` bytes fits: for a write, the end of what is written.
    ///
    /// # Errors
    /// `EFBIG` if it exceeds [`FileLayout::max_size`].
    pub fn check_size(&self, size: u64) -> Result<()> {
        let max = self.max_size();
        if size <= max {
            return Ok(());
        }
        let advice = if max < MAX_FILE_SIZE { "; the layout's last component ends there" } else { "" };
        Err(Error::new(Errno::EFBIG, "write", format!("offset {size} exceeds the largest size {max}{advice}")))
    }

    /// The component that the byte at `offset` belongs to.
    pub fn component_at(&self, offset: u64) -> Option<ComponentIndex> {
        let i = self.components.partition_point(|c| c.extent().end <= offset);
        (offset < MAX_FILE_SIZE && i < self.components.len()).then_some(ComponentIndex(i as u16))
    }

    /// Where the byte at `offset` lies.
    pub fn locate(&self, offset: u64) -> Location {
        let Some(component) = self.component_at(offset) else { return Location::Undefined };
        let c = &self.components[usize::from(component.0)];
        let end = c.extent().end.min(MAX_FILE_SIZE);
        let Some(geometry) = c.geometry() else { return Location::Missing { component, end } };
        let stripe = geometry.stripe_of(offset);
        Location::Stripe(Placed {
            at: StripeRef { component, stripe },
            target: c.stripes[usize::from(stripe.0)],
            object_offset: geometry.object_offset(offset),
            run_end: if c.stripes.len() == 1 { end } else { end.min(geometry.unit_end(offset)) },
        })
    }

    /// How far from `offset` an I/O can go on without a change of object: see [`Placed::run_end`]. For a missing
    /// component its end; `None` where the layout defines nothing.
    pub fn stripe_end(&self, offset: u64) -> Option<u64> {
        match self.locate(offset) {
            Location::Stripe(p) => Some(p.run_end),
            Location::Missing { end, .. } => Some(end),
            Location::Undefined => None,
        }
    }

    /// The file offset of the byte at `object_offset` of a stripe; `None` if the file has no such byte: the stripe
    /// doesn't exist, or the byte would lie outside its component (as in the leading hole of a later component).
    pub fn file_offset(&self, at: StripeRef, object_offset: u64) -> Option<u64> {
        let c = self.component(at.component)?;
        let geometry = c.geometry().filter(|_| usize::from(at.stripe.0) < c.stripes.len())?;
        geometry.file_offset(at.stripe, object_offset).filter(|f| c.extent().contains(*f))
    }

    /// The parts of `extent` on the stripes that it touches, in order of their FIDs. The parts on missing components
    /// and beyond the layout are left out; see [`FileLayout::missing`]. An end at [`Extent::EOF`] stays there in
    /// a component that has no end, and is the component's end in others.
    pub fn sub_extents(&self, extent: Extent) -> impl Iterator<Item = SubExtent> {
        self.indexed().flat_map(move |(component, c)| {
            let own = extent.intersect(c.extent());
            let stripes = c.geometry().map_or([0..0, 0..0], |g| g.touched(own));
            stripes.into_iter().flatten().map(move |k| {
                let stripe = StripeIndex(k);
                let target = c.stripes[usize::from(k)];
                SubExtent { at: StripeRef { component, stripe }, target, object: c.part(stripe, own) }
            })
        })
    }

    /// The size of the file in bytes, from the sizes of its objects: one more than the highest offset in the file
    /// whose byte lies below the end of its object. The same for known minimum sizes.
    ///
    /// What a damaged object has beyond its component counts for nothing, as it can't be read through this layout.
    #[doc(alias = "lov_merge_lvb_kms")]
    pub fn file_size(&self, mut object_size: impl FnMut(StripeRef) -> u64) -> u64 {
        self.stripes().map(|(at, _)| self.reach(at, object_size(at))).max().unwrap_or(0)
    }

    /// The smallest size of the file in bytes that one object of `object_size` bytes accounts for; 0 if none of its
    /// bytes is one of the file.
    pub fn reach(&self, at: StripeRef, object_size: u64) -> u64 {
        let Some(c) = self.component(at.component) else { return 0 };
        let own = c.part(at.stripe, Extent::new(0, MAX_FILE_SIZE));
        let end = object_size.min(own.end);
        if end <= own.start {
            return 0;
        }
        self.file_offset(at, end - 1).map_or(0, |f| f + 1)
    }

    /// The size in bytes that a stripe's object has if the file is `size` bytes long and has no holes.
    pub fn object_size(&self, at: StripeRef, size: u64) -> u64 {
        let own = self.component(at.component).map(|c| c.part(at.stripe, Extent::new(0, size)));
        own.filter(|e| !e.is_empty()).map_or(0, |e| e.end)
    }

    /// The sizes that objects get when the file is truncated, up or down, to `size` bytes: for each stripe of the
    /// component that holds the last byte, and of all later ones. Earlier ones stay as they are.
    ///
    /// Truncation up must first instantiate the component of the last byte, since its object carries the size:
    /// `instantiate` with the extent from [`FileLayout::last_byte`].
    ///
    /// # Errors
    /// `EFBIG` if `size` exceeds [`FileLayout::max_size`].
    #[doc(alias = "punch")]
    pub fn truncate(&self, size: u64) -> Result<impl Iterator<Item = StripeSize>> {
        self.check_size(size)?;
        let touched = move |at: &StripeRef| self.component(at.component).is_some_and(|c| c.extent().end >= size);
        Ok(self.stripes().filter(move |(at, _)| touched(at)).map(move |(at, target)| StripeSize {
            at,
            target,
            object_size: self.object_size(at, size),
        }))
    }

    /// The extent of the last byte of a file of `size` bytes; empty for an empty file.
    pub fn last_byte(size: u64) -> Extent {
        Extent::new(size.saturating_sub(1), size)
    }
}
