//! A snapshot of how a file is striped: its layout, and its sub-objects as far as they were made.

use crate::layout::{FileLayout, StripeRef};
use clio_core::object::Object;
use clio_core::sync::OnceLock;
use std::sync::Arc;

/// The place of a sub-object, shared by all snapshots that have its stripe.
type Slot = Arc<OnceLock<Arc<Object>>>;

/// Immutable, but that sub-objects appear in it.
pub(crate) struct Striped {
    layout: FileLayout,
    /// By component and stripe.
    slots: Vec<Vec<Slot>>,
    one_stripe: bool,
}

impl Striped {
    /// A file without any sub-object yet.
    pub(crate) fn new(layout: FileLayout) -> Self {
        Self::build(layout, None)
    }

    /// The same file with a changed layout: stripes that both have keep their sub-objects.
    pub(crate) fn successor(&self, layout: FileLayout) -> Self {
        Self::build(layout, Some(self))
    }

    fn build(layout: FileLayout, older: Option<&Self>) -> Self {
        let mut slots: Vec<Vec<Slot>> = layout.components().iter().map(|_| Vec::new()).collect();
        for (at, _) in layout.stripes() {
            let kept = older.filter(|o| o.same_component(&layout, at)).and_then(|o| o.slot(at));
            slots[usize::from(at.component.0)].push(kept.cloned().unwrap_or_default());
        }
        let one_stripe = layout.stripes().nth(1).is_none();
        Self { layout, slots, one_stripe }
    }

    /// Whether every stripe of this layout is in `newer` too, at the same place: so that IO may go on.
    pub(crate) fn is_kept_by(&self, newer: &FileLayout) -> bool {
        self.layout.stripes().all(|(at, _)| self.same_component(newer, at))
    }

    fn same_component(&self, other: &FileLayout, at: StripeRef) -> bool {
        match (self.layout.component(at.component), other.component(at.component)) {
            (Some(a), Some(b)) => {
                a.extent() == b.extent() && a.geometry() == b.geometry() && a.stripes() == b.stripes()
            }
            _ => false,
        }
    }

    /// The layout.
    pub(crate) fn layout(&self) -> &FileLayout {
        &self.layout
    }

    /// Whether all that is instantiated is one stripe.
    pub(crate) fn has_one_stripe(&self) -> bool {
        self.one_stripe
    }

    /// Whether a component of the file has no targets yet.
    pub(crate) fn has_missing(&self) -> bool {
        self.layout.components().iter().any(|c| c.stripes().is_none())
    }

    /// The place of a sub-object.
    pub(crate) fn slot(&self, at: StripeRef) -> Option<&Slot> {
        self.slots.get(usize::from(at.component.0))?.get(usize::from(at.stripe.0))
    }

    /// A sub-object, if it was made.
    pub(crate) fn sub(&self, at: StripeRef) -> Option<&Arc<Object>> {
        self.slot(at)?.get()
    }

    /// The sub-objects that were made.
    pub(crate) fn subs(&self) -> impl Iterator<Item = (StripeRef, &Arc<Object>)> {
        self.layout.stripes().filter_map(|(at, _)| Some((at, self.sub(at)?)))
    }
}
