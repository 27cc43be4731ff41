//! The allocator proper: warm caches over the buddy, the byte limit, and who has what.

use crate::buddy::{BlockNo, Buddy};
use crate::size_class::{CHUNK_BLOCKS, CHUNK_BYTES, SizeClass};

/// Freed blocks kept for the next allocation, by class: the last freed is the first given out again, since it is
/// still in the CPU's cache. At most 1 MiB a class, since a kept block can't be joined with its neighbours.
const CACHED: [usize; 4] = [128, 64, 16, 1];

/// What [`Pool::take`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Take {
    /// This block.
    Block(BlockNo),
    /// Nothing, but a further chunk would help and is allowed.
    Grow,
    /// Nothing: the limit is reached.
    Full,
}

/// Free and given-out blocks of an arena. Lives in private memory: nobody else reads or trusts it.
#[derive(Debug)]
pub(crate) struct Pool {
    buddy: Buddy,
    cached: [Vec<BlockNo>; 4],
    /// For each block its class + 1, if a piece given out begins there; else 0.
    given: Vec<u8>,
    used_bytes: usize,
    limit_bytes: usize,
}

impl Pool {
    /// A pool without chunks, which gives out up to `limit_bytes`.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        let cached = CACHED.map(Vec::with_capacity);
        Self { buddy: Buddy::default(), cached, given: Vec::new(), used_bytes: 0, limit_bytes }
    }

    /// Chunks that the limit calls for.
    pub(crate) fn max_chunks(limit_bytes: usize) -> usize {
        limit_bytes.div_ceil(CHUNK_BYTES)
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(crate) fn chunks(&self) -> usize {
        self.buddy.chunks()
    }

    /// Adds one chunk after the others.
    pub(crate) fn add_chunk(&mut self) {
        self.buddy.add_chunk();
        self.given.resize(self.buddy.chunks() * CHUNK_BLOCKS, 0);
    }

    /// Takes a block of `class`.
    #[inline]
    pub(crate) fn take(&mut self, class: SizeClass) -> Take {
        if self.used_bytes + class.bytes() > self.limit_bytes {
            return Take::Full;
        }
        let found = match self.cached[class as usize].pop() {
            Some(block) => Some(block),
            None => self.refill(class),
        };
        let Some(block) = found else {
            return if self.chunks() < Self::max_chunks(self.limit_bytes) { Take::Grow } else { Take::Full };
        };
        self.given[block as usize] = class as u8 + 1;
        self.used_bytes += class.bytes();
        Take::Block(block)
    }

    #[cold]
    fn refill(&mut self, class: SizeClass) -> Option<BlockNo> {
        if let Some(block) = self.buddy.take(class) {
            return Some(block);
        }
        // What the caches hold may be joined to blocks of this class.
        for class in SizeClass::ALL {
            self.flush(class, 0);
        }
        self.buddy.take(class)
    }

    /// Takes back the block of `class` at `block`.
    ///
    /// # Panics
    /// If no piece of this class was given out there: memory was freed twice, or isn't from here.
    #[inline]
    #[track_caller]
    pub(crate) fn give(&mut self, block: BlockNo, class: SizeClass) {
        let given = self.given.get_mut(block as usize);
        let is_ours = given.as_ref().is_some_and(|g| **g == class as u8 + 1);
        assert!(is_ours, "block {block} is freed as {class:?}, but was not given out as such");
        given.into_iter().for_each(|g| *g = 0);
        self.used_bytes -= class.bytes();
        let cached = &mut self.cached[class as usize];
        if cached.len() == CACHED[class as usize] {
            self.flush(class, CACHED[class as usize] / 2);
        }
        self.cached[class as usize].push(block);
    }

    /// Gives the coldest cached blocks back to the buddy until `keep` are left.
    #[cold]
    fn flush(&mut self, class: SizeClass, keep: usize) {
        let cached = &mut self.cached[class as usize];
        let surplus = cached.len().saturating_sub(keep);
        for block in cached.drain(..surplus) {
            self.buddy.give(block, class);
        }
    }

    /// Bytes in no one's hands.
    #[cfg(test)]
    fn free_bytes(&self) -> usize {
        let cached = SizeClass::ALL.map(|c| self.cached[c as usize].len() * c.bytes());
        self.buddy.free_bytes().iter().sum::<usize>() + cached.iter().sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn take(pool: &mut Pool, class: SizeClass) -> Option<BlockNo> {
        loop {
            match pool.take(class) {
                Take::Block(b) => return Some(b),
                Take::Grow => pool.add_chunk(),
                Take::Full => return None,
            }
        }
    }

    #[test]
    fn the_last_freed_is_the_first_given_out() {
        let mut pool = Pool::new(CHUNK_BYTES);
        let blocks: Vec<_> = (0..4).map(|_| take(&mut pool, SizeClass::K4).unwrap()).collect();
        blocks.iter().for_each(|b| pool.give(*b, SizeClass::K4));
        assert_eq!(take(&mut pool, SizeClass::K4), Some(blocks[3]));
    }

    #[test]
    fn switching_classes_strands_nothing() {
        let mut pool = Pool::new(4 * CHUNK_BYTES);
        for class in SizeClass::ALL.into_iter().chain(SizeClass::ALL.into_iter().rev()) {
            let blocks: Vec<_> = std::iter::from_fn(|| take(&mut pool, class)).collect();
            assert_eq!(blocks.len() * class.bytes(), 4 * CHUNK_BYTES, "{class:?}");
            blocks.into_iter().for_each(|b| pool.give(b, class));
        }
    }

    #[test]
    fn a_limit_that_is_no_multiple_of_a_chunk_is_kept() {
        let mut pool = Pool::new(CHUNK_BYTES + 5000);
        assert_eq!(std::iter::from_fn(|| take(&mut pool, SizeClass::K4)).count(), CHUNK_BLOCKS + 1);
        assert_eq!(pool.chunks(), 2);
    }

    #[test]
    #[should_panic(expected = "was not given out as such")]
    fn a_double_free_is_caught() {
        let mut pool = Pool::new(CHUNK_BYTES);
        let block = take(&mut pool, SizeClass::K16).unwrap();
        pool.give(block, SizeClass::K16);
        pool.give(block, SizeClass::K16);
    }

    #[test]
    #[should_panic(expected = "was not given out as such")]
    fn freeing_as_another_class_is_caught() {
        let mut pool = Pool::new(CHUNK_BYTES);
        let block = take(&mut pool, SizeClass::K16).unwrap();
        pool.give(block, SizeClass::K4);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, ..ProptestConfig::default() })]

        /// Against a map of what was given out: no overlap, alignment, the limit, conservation; and once all is
        /// freed, all can be had in the largest class.
        #[test]
        fn matches_a_map(limit in 1usize..5 * CHUNK_BYTES, ops in prop::collection::vec((0usize..4, 1usize..40, any::<bool>(), any::<prop::sample::Index>()), 1..120)) {
            let mut pool = Pool::new(limit);
            let mut model: BTreeMap<BlockNo, SizeClass> = BTreeMap::new();
            for (class, count, is_alloc, at) in ops {
                let class = SizeClass::ALL[class];
                for _ in 0..count {
                    let used = pool.used_bytes();
                    if is_alloc {
                        let Some(b) = take(&mut pool, class) else {
                            prop_assert!(used + class.bytes() > limit || pool.chunks() == Pool::max_chunks(limit));
                            break;
                        };
                        let end = b + class.blocks() as u32;
                        prop_assert_eq!(b as usize % class.blocks(), 0);
                        prop_assert!(end as usize <= pool.chunks() * CHUNK_BLOCKS);
                        let before = model.range(..end).next_back();
                        prop_assert!(before.is_none_or(|(o, c)| o + c.blocks() as u32 <= b), "{} overlaps {:?}", b, before);
                        model.insert(b, class);
                    } else if !model.is_empty() {
                        let (b, class) = model.iter().nth(at.index(model.len())).map(|(b, c)| (*b, *c)).unwrap();
                        model.remove(&b);
                        pool.give(b, class);
                    }
                    prop_assert_eq!(pool.used_bytes(), model.values().map(|c| c.bytes()).sum::<usize>());
                    prop_assert!(pool.used_bytes() <= limit);
                    prop_assert_eq!(pool.used_bytes() + pool.free_bytes(), pool.chunks() * CHUNK_BYTES);
                }
            }
            model.into_iter().for_each(|(b, class)| pool.give(b, class));
            prop_assert_eq!(std::iter::from_fn(|| take(&mut pool, SizeClass::M1)).count(), limit >> 20);
        }
    }
}
