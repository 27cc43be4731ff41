//! A block set that can be read without the mutex.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::units::BlockSet;

/// Changed under the folio's mutex; the readers' order is that of the folio's sequence.
#[derive(Debug, Default)]
pub(super) struct AtomicBlocks([AtomicU64; 4]);

impl AtomicBlocks {
    #[inline]
    pub(super) fn load(&self) -> BlockSet {
        BlockSet(std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }

    /// Whether block `b` is in the set.
    #[inline]
    pub(super) fn has(&self, b: usize) -> bool {
        self.0[b / 64].load(Ordering::Relaxed) >> (b % 64) & 1 == 1
    }

    pub(super) fn store(&self, set: BlockSet) {
        for (word, value) in self.0.iter().zip(set.0) {
            word.store(value, Ordering::Relaxed);
        }
    }
}
