//! The attributes of a file, merged from those of its stripes.
//!
//! # The rule
//! What the stripes say is the truth, with one exception: a write raises the file's size before or after it raises a
//! stripe's, without the attribute lock. The file's own cell must never be cut below such a raise, and must still come
//! down when stripes say less than before (another client truncated the file, a lock that KMS relied on was lost).
//!
//! # How
//! - The merge of a version of the attribute group is cached; changes of stripes other than raises make a new version. A
//!   cached merge counts together with the file's own cell: whatever is higher there was raised since.
//! - A new merge cuts the file's cell to what the stripes say, but not while a write is on its way ([`Merge::writer`]):
//!   its raise may be in the file's cell and not yet in a stripe's. Then the higher value counts, nothing is cut and
//!   nothing cached.
//! - The cut could swallow a raise that found the old value high enough. So after the cut it is checked again that no
//!   write had begun meanwhile (then the cut is undone), and the stripes are merged again (a cached write raises the
//!   stripe first, so that what it found in the file's cell before the cut is found at the stripe after it).
//! - An append is no such writer, since it looks for the end of file itself, under a lock on all of it and alone in it:
//!   when it is over, the file's cell is raised to what the stripes say then.
//! - A truncation lowers the file's cell and the stripes' under the attribute lock, in whichever order: the last of them
//!   makes a new version.

use crate::layout::LayoutGeneration;
use crate::striped::Striped;
use clio_core::attr::Attr;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::AttrCell;
use clio_core::sync::atomic::{AtomicUsize, Ordering, fence};

/// A file's merged attributes.
pub(crate) struct Merge {
    /// Writes on their way, from before their first raise to after their last.
    writers: AtomicUsize,
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
        Self { writers: AtomicUsize::new(0), cached: RankedMutex::new(LockRank::Leaf, None) }
    }

    /// A write begins: it has not raised anything yet.
    pub(crate) fn writer(&self) {
        self.writers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// A write is over: what it raised in the file's cell is in its stripes' too.
    pub(crate) fn writer_done(&self) {
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Writes on their way.
    #[cfg(all(test, not(clio_loom)))]
    pub(crate) fn writers(&self) -> usize {
        self.writers.load(Ordering::SeqCst)
    }

    /// Brings `attr`, just loaded from `cell`, up to date. The attribute lock is held; `version` is that of the group.
    pub(crate) fn get(&self, striped: &Striped, cell: &AttrCell, version: u64, attr: &mut Attr) {
        let generation = striped.layout().generation();
        let mut cached = self.cached.lock();
        let sum = match *cached {
            Some(c) if (c.version, c.generation) == (version, generation) => c.sum,
            _ => {
                let (sum, settled) = self.settle(|| merge(striped), cell, attr);
                *cached = settled.then_some(Cached { version, generation, sum });
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

    /// Merges, and puts the file's cell right, whose content was `seen`. Whether that could be done.
    fn settle(&self, merge: impl Fn() -> Attr, cell: &AttrCell, seen: &Attr) -> (Attr, bool) {
        let sum = merge();
        if self.writers.load(Ordering::SeqCst) > 0 {
            return (sum, false);
        }
        cell.settle(seen, sum.size, sum.kms);
        fence(Ordering::SeqCst);
        if self.writers.load(Ordering::SeqCst) > 0 {
            lift(cell, seen.size, seen.kms);
            return (sum, false);
        }
        let again = merge();
        lift(cell, again.size, again.kms);
        (again, true)
    }
}

/// Raises the file's size and KMS to at least what the stripes say.
pub(crate) fn lift_to_stripes(striped: &Striped, cell: &AttrCell) {
    let sum = merge(striped);
    lift(cell, sum.size, sum.kms);
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
        merge: Merge,
        top: AttrCell,
        stripe: AttrCell,
    }

    impl File {
        /// The file's cell is too high: somebody else cut the stripe.
        fn cut() -> Arc<Self> {
            let file = File { merge: Merge::new(), top: AttrCell::default(), stripe: AttrCell::default() };
            let sizes = |n| Attr { size: n, kms: n, ..Attr::default() };
            file.top.store(&sizes(100), AttrMask::all());
            file.stripe.store(&sizes(50), AttrMask::all());
            Arc::new(file)
        }

        fn look(&self) {
            self.merge.settle(|| self.stripe.load(), &self.top, &self.top.load());
        }

        /// Nothing is left of the 100, and nothing is lost of the write's 80.
        fn check(&self) {
            let (sum, settled) = self.merge.settle(|| self.stripe.load(), &self.top, &self.top.load());
            assert!(settled && (sum.size, sum.kms) == (80, 80));
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
    fn loom_a_cached_write_is_not_lost() {
        model(|file| {
            AttrCell::raise_both(&file.stripe, 80, &file.top, 80, 0);
        });
    }

    #[test]
    fn loom_a_write_that_raises_the_file_first_is_not_lost() {
        model(|file| {
            file.merge.writer();
            file.top.raise(80, 0);
            file.stripe.raise(80, 0);
            file.merge.writer_done();
        });
    }
}
