//! What a file has: [`FileLayout`], with the targets of the components that were instantiated.

use super::alloc::choose_stripes;
use super::{Allocator, Component, Geometry, Layout, Striping, Targets, folio};
use clio_core::units::{Extent, Fid, StripeIndex, TargetIndex};
use clio_core::{Errno, Error, Result};

/// Index of a component in its layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ComponentIndex(pub u16);

/// Counts the changes of a file's layout. An I/O that meets another generation than it began with starts anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LayoutGeneration(pub u64);

/// Names one stripe of a file, that is, one sub-object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StripeRef {
    /// The component.
    pub component: ComponentIndex,
    /// The stripe within the component.
    pub stripe: StripeIndex,
}

impl StripeRef {
    /// The FID of this sub-object of `file`.
    pub fn fid(self, file: Fid) -> Fid {
        file.sub_object(self.component.0, self.stripe.0)
    }

    /// The stripe that a sub-object's FID names; `None` for the FID of a file.
    pub fn of(sub_object: Fid) -> Option<Self> {
        let (component, stripe) = sub_object.stripe_of()?;
        Some(Self { component: ComponentIndex(component), stripe: StripeIndex(stripe) })
    }
}

/// A component of a file's layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileComponent {
    pub(super) wanted: Component,
    /// Empty while the component is missing.
    pub(super) stripes: Vec<TargetIndex>,
}

impl FileComponent {
    /// The bytes of the file that belong to it.
    pub fn extent(&self) -> Extent {
        self.wanted.extent
    }

    /// How it is, or shall be, striped. The count given there is a wish: fewer targets may have been usable.
    pub fn striping(&self) -> &Striping {
        &self.wanted.striping
    }

    /// The target of each stripe; `None` while the component is not instantiated.
    pub fn stripes(&self) -> Option<&[TargetIndex]> {
        (!self.stripes.is_empty()).then_some(&self.stripes)
    }

    /// Its arithmetic; `None` while the component is not instantiated.
    pub fn geometry(&self) -> Option<Geometry> {
        Geometry::new(self.wanted.striping.stripe_size, self.stripes.len() as u64)
    }
}

/// The layout of a file: immutable but for [`FileLayout::instantiate`], and cheap to share in an `Arc`.
///
/// The number of components, their extents and stripe sizes never change, and so neither does the folio size.
#[derive(Clone, PartialEq, Eq, Debug)]
#[doc(alias = "lov_stripe_md")]
pub struct FileLayout {
    pub(super) generation: LayoutGeneration,
    pub(super) components: Vec<FileComponent>,
    pub(super) folio_size: u64,
}

impl FileLayout {
    /// The layout of a new file, with no component instantiated, at generation 0.
    ///
    /// # Errors
    /// `EINVAL` as for [`Layout::check`].
    pub fn new(layout: &Layout) -> Result<Self> {
        layout.check()?;
        let fresh = |wanted: &Component| FileComponent { wanted: wanted.clone(), stripes: Vec::new() };
        Ok(Self::assemble(LayoutGeneration(0), layout.components().iter().map(fresh).collect()))
    }

    /// Puts checked parts together.
    pub(super) fn assemble(generation: LayoutGeneration, components: Vec<FileComponent>) -> Self {
        let folio_size = folio::common_size(&components);
        Self { generation, components, folio_size }
    }

    /// How often the layout has changed.
    pub fn generation(&self) -> LayoutGeneration {
        self.generation
    }

    /// The components in order of their extents, which follow each other from 0.
    pub fn components(&self) -> &[FileComponent] {
        &self.components
    }

    /// The component with this index.
    pub fn component(&self, index: ComponentIndex) -> Option<&FileComponent> {
        self.components.get(usize::from(index.0))
    }

    /// The components with their indices.
    pub(super) fn indexed(&self) -> impl Iterator<Item = (ComponentIndex, &FileComponent)> {
        self.components.iter().enumerate().map(|(i, c)| (ComponentIndex(i as u16), c))
    }

    /// The target of a stripe; `None` if there is no such stripe (yet).
    pub fn target(&self, at: StripeRef) -> Option<TargetIndex> {
        self.component(at.component)?.stripes.get(usize::from(at.stripe.0)).copied()
    }

    /// All stripes of all instantiated components, in order of their FIDs.
    pub fn stripes(&self) -> impl Iterator<Item = (StripeRef, TargetIndex)> {
        self.indexed().flat_map(|(component, c)| {
            let at = move |k| StripeRef { component, stripe: StripeIndex(k as u16) };
            c.stripes.iter().enumerate().map(move |(k, t)| (at(k), *t))
        })
    }

    /// The components that `extent` touches and that are not instantiated.
    pub fn missing(&self, extent: Extent) -> impl Iterator<Item = ComponentIndex> {
        self.indexed().filter(move |(_, c)| c.stripes.is_empty() && c.extent().overlaps(extent)).map(|(i, _)| i)
    }

    /// What this layout was made from: the wishes without the targets.
    pub fn wanted(&self) -> Vec<Component> {
        self.components.iter().map(|c| c.wanted.clone()).collect()
    }

    /// Gives targets to all missing components that `extent` touches, and raises the generation by one if there
    /// were any. Returns whether there were. Either all of them get their targets or nothing changes.
    ///
    /// Fewer stripes than wanted are made if some targets are full or offline: a narrower file beats none.
    ///
    /// # Errors
    /// `ENOSPC` if no target is usable, or not the first one that was asked for; `EINVAL` if the store's targets
    /// and pools no longer fit the layout.
    #[doc(alias = "layout intent")]
    pub fn instantiate(&mut self, extent: Extent, targets: &Targets, allocator: &mut dyn Allocator) -> Result<bool> {
        let missing: Vec<_> = self.missing(extent).map(|i| usize::from(i.0)).collect();
        if missing.is_empty() {
            return Ok(false);
        }
        let generation = self.generation.0.checked_add(1).ok_or_else(|| {
            Error::new(Errno::EOVERFLOW, "change layout", "the layout has changed too often; copy the file")
        })?;
        let mut chosen = Vec::with_capacity(missing.len());
        for i in &missing {
            chosen.push(choose_stripes(self.components[*i].striping(), targets, allocator)?);
        }
        for (i, stripes) in missing.into_iter().zip(chosen) {
            self.components[i].stripes = stripes;
        }
        self.generation = LayoutGeneration(generation);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RoundRobin, TargetSpace};
    use super::*;

    fn targets(n: u16) -> Targets {
        Targets::new((0..n).map(|i| TargetSpace { index: TargetIndex(i), total: 100, free: 100, usable: true }))
    }

    #[test]
    fn components_get_targets_when_first_written() {
        let layout = Layout::composite().until(1 << 20).until(4 << 20).stripe_count(2).to_eof().stripe_count(0);
        let mut f = FileLayout::new(&layout).unwrap();
        let mut rr = RoundRobin::default();
        assert_eq!((f.generation().0, f.stripes().count()), (0, 0));
        assert!(!f.instantiate(Extent::new(5, 5), &targets(4), &mut rr).unwrap());
        assert!(f.instantiate(Extent::new(0, 10), &targets(4), &mut rr).unwrap());
        assert!(!f.instantiate(Extent::new(100, 1 << 20), &targets(4), &mut rr).unwrap());
        assert_eq!((f.generation().0, f.stripes().count()), (1, 1));
        assert_eq!(f.missing(Extent::WHOLE).map(|c| c.0).collect::<Vec<_>>(), [1, 2]);
        assert!(f.instantiate(Extent::new(4 << 20, Extent::EOF), &targets(4), &mut rr).unwrap());
        assert_eq!((f.generation().0, f.stripes().count()), (2, 5));
        assert!(f.instantiate(Extent::WHOLE, &targets(4), &mut rr).unwrap());
        assert_eq!((f.generation().0, f.stripes().count()), (3, 7));

        let file = Fid::new(7, 8);
        let fids: Vec<_> = f.stripes().map(|(at, _)| at.fid(file)).collect();
        assert!(fids.is_sorted());
        for ((at, target), fid) in f.stripes().zip(fids) {
            assert_eq!(StripeRef::of(fid), Some(at));
            assert_eq!(f.target(at), Some(target));
        }
        assert_eq!(StripeRef::of(file), None);
    }

    #[test]
    fn a_failed_instantiation_changes_nothing() {
        let layout = Layout::composite().until(1 << 20).stripe_count(2).to_eof().stripe_count(5);
        let mut f = FileLayout::new(&layout).unwrap();
        let before = f.clone();
        let e = f.instantiate(Extent::WHOLE, &targets(4), &mut RoundRobin::default()).unwrap_err();
        assert_eq!(e.errno(), Errno::EINVAL);
        assert_eq!(f, before);
    }
}
