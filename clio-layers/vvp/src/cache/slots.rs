//! The clock: a ring of slots, one for each top-page alive.

use super::PageCache;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::Object;
use clio_core::units::PageIndex;
use std::sync::{Arc, Weak};

/// A page's place under the clock; given up when dropped, with the page.
#[derive(Debug)]
pub(crate) struct Slot {
    cache: Arc<PageCache>,
    number: usize,
}

impl Slot {
    pub(super) fn enter(cache: &Arc<PageCache>, object: &Arc<Object>, index: PageIndex) -> Self {
        let number = cache.slots.0.lock().insert((Arc::downgrade(object), index));
        Self { cache: cache.clone(), number }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let gone = self.cache.slots.0.lock().remove(self.number);
        drop(gone);
    }
}

type Entry = (Weak<Object>, PageIndex);

/// All slots.
#[derive(Debug)]
pub(super) struct Slots(RankedMutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    hand: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self(RankedMutex::new(LockRank::PageBudget, Ring::default()))
    }
}

impl Ring {
    fn insert(&mut self, entry: Entry) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.entries[number] = Some(entry);
                number
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        }
    }

    fn remove(&mut self, number: usize) -> Option<Entry> {
        let entry = self.entries.get_mut(number)?.take();
        if entry.is_some() {
            self.free.push(number);
        }
        entry
    }

    fn next(&mut self) -> Option<Entry> {
        for _ in 0..self.entries.len() {
            self.hand = (self.hand + 1) % self.entries.len();
            if let Some(entry) = &self.entries[self.hand] {
                return Some(entry.clone());
            }
        }
        None
    }
}

impl Slots {
    /// Pages under the clock.
    pub(super) fn len(&self) -> usize {
        let ring = self.0.lock();
        ring.entries.len() - ring.free.len()
    }

    /// The page that the hand points at next; `None` if there is none.
    pub(super) fn next(&self) -> Option<Entry> {
        self.0.lock().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_goes_round() {
        let mut ring = Ring::default();
        let slots: Vec<_> = (0..4).map(|i| ring.insert((Weak::new(), PageIndex(i)))).collect();
        ring.remove(slots[2]);
        let seen: Vec<_> = (0..6).filter_map(|_| ring.next()).map(|(_, i)| i.0).collect();
        assert_eq!(seen, [1, 3, 0, 1, 3, 0]);
        assert_eq!(ring.insert((Weak::new(), PageIndex(9))), slots[2], "slots are used again");
        for slot in slots {
            ring.remove(slot);
        }
        assert!(ring.next().is_none());
    }
}
