//! Values by extent: extents may overlap and repeat. Searched by binary search, with a bound on how far back to look.

use crate::units::Extent;

#[derive(Debug)]
struct Entry<T> {
    extent: Extent,
    /// Largest end of this entry and all before it.
    reach: u64,
    value: T,
}

/// Values sorted by the start of their extents.
#[derive(Debug)]
pub(super) struct Extents<T> {
    entries: Vec<Entry<T>>,
}

impl<T> Extents<T> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn insert(&mut self, extent: Extent, value: T) {
        let at = self.starting_by(extent.start);
        self.entries.insert(at, Entry { extent, reach: 0, value });
        self.mend(at);
    }

    /// Removes the first value for which `pick` is true.
    pub(super) fn remove(&mut self, pick: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.entries.iter().map(|e| &e.value).position(pick)?;
        let entry = self.entries.remove(at);
        self.mend(at);
        Some(entry.value)
    }

    /// Values whose extent covers `extent`, those that start last first.
    #[inline]
    pub(super) fn covering(&self, extent: Extent) -> impl Iterator<Item = &T> {
        let before = &self.entries[..self.starting_by(extent.start)];
        let candidates = before.iter().rev().take_while(move |e| e.reach >= extent.end);
        candidates.filter(move |e| e.extent.covers(extent)).map(|e| &e.value)
    }

    /// Values whose extent has a byte in `extent`, those that start last first.
    pub(super) fn overlapping(&self, extent: Extent) -> impl Iterator<Item = &T> {
        let end = self.entries.partition_point(|e| e.extent.start < extent.end);
        let candidates = self.entries[..end].iter().rev().take_while(move |e| e.reach > extent.start);
        candidates.filter(move |e| e.extent.overlaps(extent)).map(|e| &e.value)
    }

    /// All values, by start.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|e| &e.value)
    }

    /// How many entries start at or before `start`.
    #[inline]
    fn starting_by(&self, start: u64) -> usize {
        self.entries.partition_point(|e| e.extent.start <= start)
    }

    /// Computes `reach` anew from `at` on.
    fn mend(&mut self, at: usize) {
        let mut reach = at.checked_sub(1).map_or(0, |before| self.entries[before].reach);
        for entry in &mut self.entries[at..] {
            reach = reach.max(entry.extent.end);
            entry.reach = reach;
        }
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn extent() -> impl Strategy<Value = Extent> {
        (0u64..40, 0u64..20, prop::bool::weighted(0.1))
            .prop_map(|(s, l, eof)| if eof { Extent::new(s, Extent::EOF) } else { Extent::with_len(s, l) })
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_list_finds(
            ops in prop::collection::vec((extent(), prop::bool::weighted(0.7)), 1..40),
            query in extent(),
        ) {
            let (mut extents, mut plain) = (Extents::new(), Vec::new());
            for (n, (e, add)) in ops.into_iter().enumerate() {
                if add {
                    extents.insert(e, n);
                    plain.push((e, n));
                } else if let Some(at) = plain.len().checked_sub(1) {
                    let (_, gone) = plain.remove(n % (at + 1));
                    prop_assert_eq!(extents.remove(|v| *v == gone), Some(gone));
                }
            }
            let select = |f: &dyn Fn(Extent) -> bool| -> BTreeSet<usize> {
                plain.iter().filter(|(e, _)| f(*e)).map(|(_, n)| *n).collect()
            };
            prop_assert_eq!(extents.len(), plain.len());
            prop_assert_eq!(extents.iter().copied().collect::<BTreeSet<_>>(), select(&|_| true));
            let overlapping: BTreeSet<_> = extents.overlapping(query).copied().collect();
            prop_assert_eq!(overlapping, select(&|e| e.overlaps(query)));
            if !query.is_empty() {
                let covering: BTreeSet<_> = extents.covering(query).copied().collect();
                prop_assert_eq!(covering, select(&|e| e.covers(query)));
            }
        }
    }
}
