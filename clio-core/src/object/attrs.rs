//! Attributes of an object, readable without a lock, and the group lock that makes compound changes atomic.

use crate::attr::{Attr, AttrMask};
use crate::lockrank::{LockRank, RankedGuard, RankedMutex};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Attributes of one object.
///
/// Single values can be read at any time. Whoever needs several that fit together, or changes them, holds the
/// [`AttrGroup`] lock; the one exception is raising size, KMS and times by a cached write ([`AttrCell::raise`]),
/// which only ever moves forward.
#[derive(Debug, Default)]
pub struct AttrCell {
    size: AtomicU64,
    kms: AtomicU64,
    blocks: AtomicU64,
    atime: AtomicU64,
    mtime: AtomicU64,
    ctime: AtomicU64,
    uid: AtomicU32,
    gid: AtomicU32,
}

impl AttrCell {
    /// Size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Known minimum size in bytes.
    #[inline]
    pub fn kms(&self) -> u64 {
        self.kms.load(Ordering::Acquire)
    }

    /// Raises size and KMS to at least `end` and the modification time to at least `mtime`.
    #[inline]
    pub fn raise(&self, end: u64, mtime: u64) {
        if self.kms.load(Ordering::Relaxed) < end {
            self.kms.fetch_max(end, Ordering::AcqRel);
        }
        if self.size.load(Ordering::Relaxed) < end {
            self.size.fetch_max(end, Ordering::AcqRel);
        }
        if self.mtime.load(Ordering::Relaxed) < mtime {
            self.mtime.fetch_max(mtime, Ordering::AcqRel);
            self.ctime.fetch_max(mtime, Ordering::AcqRel);
        }
    }

    /// As [`AttrCell::raise`], of a stripe up to `stripe_end` of its bytes and then of its file up to `file_end`. Whoever cuts
    /// the file's cell, and then looks at the stripe's, after a fence in between, misses no such raise that found the file's
    /// cell high enough before the cut.
    #[inline]
    pub fn raise_both(stripe: &AttrCell, stripe_end: u64, file: &AttrCell, file_end: u64, mtime: u64) {
        if stripe.kms.load(Ordering::Relaxed) < stripe_end {
            stripe.raise(stripe_end, mtime);
            // Otherwise the look at the file's cell could come before the raise.
            fence(Ordering::SeqCst);
        } else {
            stripe.raise(stripe_end, mtime);
        }
        file.raise(file_end, mtime);
    }

    /// As [`AttrCell::raise`], of a file whose stripes were raised before: the second half of [`AttrCell::raise_both`], where
    /// the layers below do the first.
    pub fn raise_after_stripes(&self, end: u64, mtime: u64) {
        fence(Ordering::SeqCst);
        self.raise(end, mtime);
    }

    /// Puts size and KMS right, downwards too, where nobody raised them since `seen` was loaded.
    pub fn settle(&self, seen: &Attr, size: u64, kms: u64) {
        let settle = |cell: &AtomicU64, seen, truth| {
            if seen != truth {
                // Losing the race to a raise is fine: it is newer.
                let _ = cell.compare_exchange(seen, truth, Ordering::AcqRel, Ordering::Relaxed);
            }
        };
        settle(&self.kms, seen.kms, kms);
        settle(&self.size, seen.size, size);
    }

    /// Raises the size to at least `size`, and leaves KMS alone: what others have written says nothing of what the
    /// locks held here protect.
    pub fn raise_size(&self, size: u64) {
        self.size.fetch_max(size, Ordering::AcqRel);
    }

    /// Sets the size to `size`, or to KMS if that is more. Unlike [`AttrCell::store`], this loses no
    /// [`AttrCell::raise`] that happens meanwhile.
    pub fn update_size(&self, size: u64) {
        // A raise whose size is overwritten here has raised KMS before: the swap has seen it.
        self.size.swap(size, Ordering::AcqRel);
        self.size.fetch_max(self.kms(), Ordering::AcqRel);
    }

    /// Cuts KMS to at most `end`: a lock is lost. Loses no raise below `end` that happens meanwhile.
    pub fn cut_kms(&self, end: u64) {
        self.kms.fetch_min(end, Ordering::AcqRel);
    }

    /// A copy of all attributes.
    pub fn load(&self) -> Attr {
        Attr {
            size: self.size(),
            kms: self.kms(),
            blocks: self.blocks.load(Ordering::Acquire),
            atime: self.atime.load(Ordering::Acquire),
            mtime: self.mtime.load(Ordering::Acquire),
            ctime: self.ctime.load(Ordering::Acquire),
            uid: self.uid.load(Ordering::Acquire),
            gid: self.gid.load(Ordering::Acquire),
        }
    }

    /// Sets the attributes of `mask`. The caller holds the [`AttrGroup`] lock.
    pub fn store(&self, attr: &Attr, mask: AttrMask) {
        let set = |cell: &AtomicU64, value: u64, m: AttrMask| {
            if mask.contains(m) {
                cell.store(value, Ordering::Release);
            }
        };
        set(&self.size, attr.size, AttrMask::SIZE);
        set(&self.kms, attr.kms, AttrMask::KMS);
        set(&self.blocks, attr.blocks, AttrMask::BLOCKS);
        set(&self.atime, attr.atime, AttrMask::ATIME);
        set(&self.mtime, attr.mtime, AttrMask::MTIME);
        set(&self.ctime, attr.ctime, AttrMask::CTIME);
        if mask.contains(AttrMask::UID) {
            self.uid.store(attr.uid, Ordering::Release);
        }
        if mask.contains(AttrMask::GID) {
            self.gid.store(attr.gid, Ordering::Release);
        }
    }
}

/// The attribute lock of a top-object, shared by all its sub-objects, and the version of what it guards.
#[derive(Debug)]
#[doc(alias = "cl_object_attr_lock")]
pub struct AttrGroup {
    guard: RankedMutex<u64>,
}

impl Default for AttrGroup {
    fn default() -> Self {
        Self { guard: RankedMutex::new(LockRank::Attr, 1) }
    }
}

impl AttrGroup {
    /// Takes the attribute lock. The guarded value is a version: whoever changes a sub-object's attribute bumps it,
    /// so that the top-object knows whether its merged attributes still hold.
    pub fn lock(&self) -> RankedGuard<'_, u64> {
        self.guard.lock()
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;

    #[test]
    fn size_follows_news_but_never_falls_below_kms() {
        let attrs = AttrCell::default();
        attrs.raise(100, 1);
        attrs.raise_size(500);
        assert_eq!((attrs.size(), attrs.kms()), (500, 100), "what others wrote is no known minimum");
        attrs.update_size(50);
        assert_eq!((attrs.size(), attrs.kms()), (100, 100));
        attrs.cut_kms(40);
        attrs.cut_kms(70);
        attrs.update_size(60);
        assert_eq!((attrs.size(), attrs.kms()), (60, 40));
    }
}
