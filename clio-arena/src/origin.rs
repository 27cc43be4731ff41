#![expect(unsafe_code, reason = "a page that the kernel clears in forked children; the block has its proof")]
//! Which process something was made in, so that a forked child knows what it has inherited.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The process in which this was made. A child of fork has its memory, but not its threads nor its arenas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin(u64);

/// The next process's number. A child goes on from where its parent was, so that no two of a line have one number.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Origin {
    /// This process. The first call maps a page; where the kernel can't clear it at fork (before Linux 4.14), all
    /// processes are taken for one.
    pub fn here() -> Origin {
        let word = word();
        let known = word.load(Ordering::Relaxed);
        if known != 0 {
            return Origin(known);
        }
        let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
        match word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Origin(fresh),
            Err(first) => Origin(first),
        }
    }

    /// Whether this is the process. One load; never blocks.
    #[inline]
    pub fn is_here(self) -> bool {
        word().load(Ordering::Relaxed) == self.0
    }
}

/// The word that is 0 again in each new child.
#[inline]
fn word() -> &'static AtomicU64 {
    static WORD: OnceLock<&'static AtomicU64> = OnceLock::new();
    WORD.get_or_init(map_word)
}

#[cold]
fn map_word() -> &'static AtomicU64 {
    static NEVER_CLEARED: AtomicU64 = AtomicU64::new(0);
    let len = size_of::<AtomicU64>();
    // SAFETY: a new private mapping, of a page at least, zeroed, aligned and never unmapped; the kernel clears it only in
    // a child before that runs, and zero is a valid value.
    unsafe {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0);
        if page == libc::MAP_FAILED || libc::madvise(page, len, libc::MADV_WIPEONFORK) != 0 {
            tracing::warn!(target: "clio::object", "forked children can't be told from their parent here");
            return &NEVER_CLEARED;
        }
        &*page.cast::<AtomicU64>()
    }
}
