//! The attributes of a file, merged from those of its stripes.
//!
//! # The rule
//! What the stripes say is the truth. Writes raise sizes and times without the attribute lock, of the stripe first and then
//! of the file. The file's own cell must come down when stripes say less than before (another client truncated the file, a
//! lock that KMS relied on was lost), and must not stay below such a raise.
//!
//! # How
//! - The merge of a version of the attribute group is cached; changes of stripes other than raises make a new version. A
//!   cached merge counts together with the file's own cell: whatever is higher there was raised since.
//! - A new merge cuts the file's cell to what the stripes say. That could swallow a raise that found the old value high
//!   enough. So the stripes are merged again: what such a write found in the file's cell before the cut is found at the
//!   stripe after it.
//! - A truncation lowers the file's cell and the stripes' under the attribute lock, in whichever order: the last of them
//!   makes a new version.

use crate::layout::LayoutGeneration;
use crate::striped::Striped;
use clio_core::attr::Attr;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::AttrCell;
use clio_core::sync::atomic::{Ordering, fence};

/// A file's merged attributes.
pub(crate) struct Merge {
    cached: RankedMutex<Option<Cached>>,
}

#[derive(Clone, Copy)]
struct Cached {
    version: u64,
    generation: LayoutGeneration,
    sum: Attr,
}

impl Merge {
    pub(crate) fn new() -> Self {
        Self { cached: RankedMutex::new(LockRank::Leaf, None) }
    }

    /// Brings `attr`, just loaded from `cell`, up to date. The attribute lock is held; `version` is that of the group.
    pub(crate) fn get(&self, striped: &Striped, cell: &AttrCell, version: u64, attr: &mut Attr) {
        let generation = striped.layout().generation();
        let mut cached = self.cached.lock();
        let sum = match *cached {
            Some(c) if (c.version, c.generation) == (version, generation) => c.sum,
            _ => {
                let sum = settle(|| merge(striped), cell, attr);
                *cached = Some(Cached { version, generation, sum });
                sum
            }
        };
        let now = cell.load();
        attr.size = now.size.max(sum.size);
        attr.kms = now.kms.max(sum.kms);
        attr.blocks = sum.blocks;
        attr.atime = now.atime.max(sum.atime);
        attr.mtime = now.mtime.max(sum.mtime);
        attr.ctime = now.ctime.max(sum.ctime);
    }
}

/// Merges, and puts the file's cell right, whose content was `seen`.
fn settle(merge: impl Fn() -> Attr, cell: &AttrCell, seen: &Attr) -> Attr {
    let sum = merge();
    cell.settle(seen, sum.size, sum.kms);
    fence(Ordering::SeqCst);
    let again = merge();
    lift(cell, again.size, again.kms);
    again
}

/// Raises size and KMS, each to at least its value.
fn lift(cell: &AttrCell, size: u64, kms: u64) {
    loop {
        let now = cell.load();
        if now.size >= size && now.kms >= kms {
            return;
        }
        cell.settle(&now, now.size.max(size), now.kms.max(kms));
    }
}

/// What the stripes say. One that was never used here is taken for empty.
fn merge(striped: &Striped) -> Attr {
    let mut sum = Attr::default();
    for (at, sub) in striped.subs() {
        let a = sub.attrs().load();
        let kms = striped.layout().reach(at, a.kms);
        sum.kms = sum.kms.max(kms);
        sum.size = sum.size.max(striped.layout().reach(at, a.size)).max(kms);
        sum.blocks += a.blocks;
        sum.atime = sum.atime.max(a.atime);
        sum.mtime = sum.mtime.max(a.mtime);
        sum.ctime = sum.ctime.max(a.ctime);
    }
    sum
}

#[cfg(all(test, clio_loom))]
mod loom_tests {
    use super::*;
    use clio_core::attr::AttrMask;
    use clio_core::sync::thread;
    use std::sync::Arc;

    struct File {
        top: AttrCell,
        stripe: AttrCell,
    }

    impl File {
        /// The file's cell is too high: somebody else cut the stripe.
        fn cut() -> Arc<Self> {
            let file = File { top: AttrCell::default(), stripe: AttrCell::default() };
            let sizes = |n| Attr { size: n, kms: n, ..Attr::default() };
            file.top.store(&sizes(100), AttrMask::all());
            file.stripe.store(&sizes(50), AttrMask::all());
            Arc::new(file)
        }

        fn look(&self) -> Attr {
            settle(|| self.stripe.load(), &self.top, &self.top.load())
        }

        /// Nothing is left of the 100, and nothing is lost of the write's 80.
        fn check(&self) {
            let sum = self.look();
            assert_eq!((sum.size, sum.kms), (80, 80));
            assert_eq!((self.top.size(), self.top.kms()), (80, 80));
        }
    }

    fn model(write: fn(&File)) {
        loom::model(move || {
            let file = File::cut();
            let writer = {
                let file = file.clone();
                thread::spawn(move || write(&file))
            };
            file.look();
            // What anybody sees meanwhile is at least what was cut to.
            assert!(file.top.kms() >= 50);
            writer.join().expect("writer");
            let (size, kms) = (file.top.size(), file.top.kms());
            assert!(size >= 80 && kms >= 80, "a raise was lost: {size} {kms}");
            file.check();
        });
    }

    #[test]
    fn loom_a_write_to_the_cache_is_not_lost() {
        model(|file| {
            AttrCell::raise_both(&file.stripe, 80, &file.top, 80, 0);
        });
    }

    #[test]
    fn loom_a_write_past_the_cache_is_not_lost() {
        model(|file| {
            file.stripe.raise(80, 0);
            file.top.raise_after_stripes(80, 0);
        });
    }
}
