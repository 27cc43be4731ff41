//! What one client uses of memory that several share.

use clio_arena::Arena;
use clio_core::memory::staging::StagingTable;
use clio_core::memory::{MemRef, PageMemory};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A client's share of the memory that a process has in common with the daemon: all of it is there for each, and each counts
/// what it uses itself, so that one client's cache isn't held against another's limit.
#[derive(Debug)]
pub(super) struct Share {
    arena: Arc<Arena>,
    used: AtomicUsize,
}

impl Share {
    pub(super) fn of(arena: Arc<Arena>) -> Share {
        Share { arena, used: AtomicUsize::new(0) }
    }
}

impl PageMemory for Share {
    fn alloc(&self, len: usize) -> Option<MemRef> {
        let mem = self.arena.alloc(len)?;
        self.used.fetch_add(mem.len(), Ordering::Relaxed);
        Some(mem)
    }

    fn free(&self, mem: MemRef) {
        self.used.fetch_sub(mem.len(), Ordering::Relaxed);
        self.arena.free(mem);
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn staging(&self) -> Option<Arc<StagingTable>> {
        self.arena.staging()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counts_its_own() {
        let arena = Arc::new(Arena::private(8 << 20).unwrap());
        let [a, b] = [(), ()].map(|()| Share::of(arena.clone()));
        let (mine, theirs) = (a.alloc(1 << 20).unwrap(), b.alloc(4096).unwrap());
        assert_eq!((a.used(), b.used(), arena.used()), (1 << 20, 4096, (1 << 20) + 4096));
        a.free(mine);
        assert_eq!((a.used(), b.used()), (0, 4096));
        b.free(theirs);
        assert_eq!(arena.used(), 0);
    }
}
