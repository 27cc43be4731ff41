#![expect(unsafe_code, reason = "atomic words that live in page memory; each block has its proof")]
//! Words that a client shares with the daemon that serves it: see [`super::staging`].

use super::MemRef;
use crate::sync::atomic::AtomicU64;
use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// An array of atomic words, on the heap or in page memory that other processes map too. Cloning shares it.
#[derive(Clone)]
pub struct SharedWords {
    words: NonNull<AtomicU64>,
    len: usize,
    /// Keeps the words where they are.
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a pointer to atomics that `_keep` keeps alive, and whatever `_keep` is may be sent and shared.
unsafe impl Send for SharedWords {}
// SAFETY: as above; all access is through `&[AtomicU64]`.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// `len` zeros on the heap.
    pub fn on_heap(len: usize) -> Self {
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..len).map(|_| AtomicU64::new(0)).collect());
        // The vector is never changed again, so its buffer stays where it is.
        Self { words: NonNull::from(words.as_slice()).cast(), len, _keep: words }
    }

    /// The words that `mem` holds, whatever their values; a rest of less than eight bytes is left out. `keep` is
    /// what keeps `mem` mapped.
    ///
    /// # Safety
    /// As long as `keep` lives, `mem` must be mapped and writable, and be accessed by nothing but atomic words and the
    /// copies of [`memory`](super).
    ///
    /// # Panics
    /// If `mem` isn't aligned to eight bytes.
    #[cfg(not(clio_loom))]
    pub unsafe fn in_memory(mem: MemRef, keep: Arc<dyn Any + Send + Sync>) -> Self {
        let words = mem.as_ptr().cast::<AtomicU64>();
        assert!(words.is_aligned(), "words in page memory at {words:?} are not aligned");
        let words = NonNull::new(words).expect("page memory is not at the null address");
        Self { words, len: mem.len() / size_of::<AtomicU64>(), _keep: keep }
    }

    /// Under loom, atomics live on the heap only: `mem` gives the length.
    ///
    /// # Safety
    /// None needed.
    #[cfg(clio_loom)]
    pub unsafe fn in_memory(mem: MemRef, _keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self::on_heap(mem.len() / size_of::<u64>())
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `words` points to `len` aligned words that live as long as `_keep`: by construction in `on_heap`, by
        // contract in `in_memory`. Any bit pattern is a value, and nothing but atomics accesses them.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }
}

impl fmt::Debug for SharedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWords").field("len", &self.len).finish_non_exhaustive()
    }
}
