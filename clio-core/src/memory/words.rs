#![expect(unsafe_code, reason = "atomic words that live in page memory; each block has its proof")]
//! Words shared between a client and whoever grants its locks: the generation of each cached lock.
//!
//! The owner (the daemon; in embedded mode, the same process) gives a lock a word and a generation. A client that
//! remembers both knows by **one load** whether it still has the lock; revoking is **one store**, and needs no help
//! from the client. The words may lie in memory that the client can write, so the owner never reads them: what it
//! knows is in its own [`LockWordTable`]. To the client, a word is a hint that its owner keeps true.
//!
//! A word is `generation << 1 | revoked`. Generations of one word only rise.

use super::MemRef;
use crate::lockrank::{LockRank, RankedMutex};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
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

/// Names a lock's word at one generation: the right to use what was cached under that lock, while it is current.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockStamp {
    /// Index of the word.
    pub index: u32,
    /// Generation that the lock was granted at; below 2^63.
    pub generation: u64,
}

/// What a lock word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockWord(u64);

impl LockWord {
    fn new(generation: u64, revoked: bool) -> Self {
        Self(generation << 1 | u64::from(revoked))
    }

    /// The current generation.
    pub fn generation(self) -> u64 {
        self.0 >> 1
    }

    /// Whether no lock has the current generation.
    pub fn is_revoked(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The client's view of the lock words: loads only.
#[derive(Clone, Debug)]
pub struct LockWords(SharedWords);

impl LockWords {
    /// The words in `words`, as another [`LockWordTable`] (perhaps of another process) keeps them.
    pub fn new(words: SharedWords) -> Self {
        Self(words)
    }

    /// The word at `index`; one past the end is revoked.
    #[inline]
    pub fn load(&self, index: u32) -> LockWord {
        self.load_ordered(index, Ordering::Acquire)
    }

    /// Whether the lock that got `stamp` is still valid: one acquire load. What the owner did before it granted the
    /// lock is visible after.
    ///
    /// This is the check *before* a use. For the check after a copy, see [`LockWords::is_still_current`].
    #[inline]
    pub fn is_current(&self, stamp: LockStamp) -> bool {
        self.load(stamp.index) == LockWord::new(stamp.generation, false)
    }

    /// As [`LockWords::is_current`], for the check *after* a copy: bytes that this thread read before were read
    /// before the lock could have been lost, if the answer is true.
    #[inline]
    pub fn is_still_current(&self, stamp: LockStamp) -> bool {
        fence(Ordering::Acquire);
        self.load_ordered(stamp.index, Ordering::Relaxed) == LockWord::new(stamp.generation, false)
    }

    /// As [`LockWords::is_current`], in one total order with revocations and with other `SeqCst` operations: either
    /// this sees the revocation, or what the revoker loads (`SeqCst`) after it sees what this thread stored (`SeqCst`)
    /// before.
    #[inline]
    pub fn is_current_after_publishing(&self, stamp: LockStamp) -> bool {
        // Loom takes SeqCst accesses for AcqRel ones; the fence restores there what they mean in the language.
        #[cfg(clio_loom)]
        fence(Ordering::SeqCst);
        self.load_ordered(stamp.index, Ordering::SeqCst) == LockWord::new(stamp.generation, false)
    }

    #[inline]
    fn load_ordered(&self, index: u32, ordering: Ordering) -> LockWord {
        self.0.get(index as usize).map_or(LockWord::new(0, true), |w| LockWord(w.load(ordering)))
    }
}

/// The owner's half: gives out words and revokes them. What it knows is its own; the shared words are only written.
#[derive(Debug)]
pub struct LockWordTable {
    words: SharedWords,
    own: RankedMutex<Own>,
}

#[derive(Debug)]
struct Own {
    /// For each word its generation, and whether it is given out and not revoked, given out, or free.
    slots: Vec<(u64, SlotState)>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlotState {
    Free,
    Granted,
    Revoked,
}

impl LockWordTable {
    /// A table over `words` that nobody uses yet; they become revoked, at generation 0.
    pub fn new(words: SharedWords) -> Self {
        let len = u32::try_from(words.len()).unwrap_or(u32::MAX);
        words.iter().for_each(|w| w.store(LockWord::new(0, true).0, Ordering::SeqCst));
        let own = Own { slots: vec![(0, SlotState::Free); len as usize], free: (0..len).rev().collect() };
        Self { words, own: RankedMutex::new(LockRank::Leaf, own) }
    }

    /// The client's view.
    pub fn view(&self) -> LockWords {
        LockWords(self.words.clone())
    }

    /// A word for a lock just granted, with a generation that it never had; `None` if all are in use (the caller
    /// cancels an old lock first). Blocks on a short mutex, as all below.
    pub fn alloc(&self) -> Option<LockStamp> {
        let mut own = self.own.lock();
        let index = own.free.pop()?;
        let slot = &mut own.slots[index as usize];
        *slot = (slot.0 + 1, SlotState::Granted);
        let generation = slot.0;
        self.words[index as usize].store(LockWord::new(generation, false).0, Ordering::SeqCst);
        Some(LockStamp { index, generation })
    }

    /// Revokes the lock that has the word: no stamp given so far is current any more. The word stays in use, until
    /// [`LockWordTable::free`]; a sweep of what was published under the lock goes between. False if `stamp` was not
    /// current (revoked or freed already).
    pub fn revoke(&self, stamp: LockStamp) -> bool {
        let mut own = self.own.lock();
        let Some(slot) = own.slots.get_mut(stamp.index as usize) else { return false };
        if *slot != (stamp.generation, SlotState::Granted) {
            return false;
        }
        *slot = (slot.0 + 1, SlotState::Revoked);
        self.words[stamp.index as usize].store(LockWord::new(slot.0, true).0, Ordering::SeqCst);
        // Orders the store before all that the revoker loads next, also from words that it accesses less strictly.
        fence(Ordering::SeqCst);
        true
    }

    /// Gives the word of `stamp` back, revoking it first if need be. False if it was given back before.
    pub fn free(&self, stamp: LockStamp) -> bool {
        self.revoke(stamp);
        let mut own = self.own.lock();
        let Some(slot) = own.slots.get_mut(stamp.index as usize) else { return false };
        if *slot != (stamp.generation.wrapping_add(1), SlotState::Revoked) {
            return false;
        }
        slot.1 = SlotState::Free;
        own.free.push(stamp.index);
        true
    }

    /// Words in use.
    pub fn in_use(&self) -> usize {
        self.words.len() - self.own.lock().free.len()
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stamp_is_current_from_alloc_to_revoke() {
        let table = LockWordTable::new(SharedWords::on_heap(2));
        let view = table.view();
        let a = table.alloc().unwrap();
        assert!(view.is_current(a) && view.is_still_current(a) && view.is_current_after_publishing(a));
        assert!(table.revoke(a));
        assert!(!view.is_current(a) && !view.is_still_current(a) && !view.is_current_after_publishing(a));
        assert!(view.load(a.index).is_revoked() && view.load(a.index).generation() == a.generation + 1);
        assert!(!table.revoke(a), "only once");
        assert!(table.free(a));
        assert!(!table.free(a), "only once");
    }

    #[test]
    fn what_is_out_of_range_is_revoked() {
        let table = LockWordTable::new(SharedWords::on_heap(1));
        let stamp = LockStamp { index: 9, generation: 0 };
        assert!(table.view().load(9).is_revoked() && !table.view().is_current(stamp));
        assert!(!table.revoke(stamp) && !table.free(stamp));
    }

    #[test]
    fn a_client_that_writes_the_words_does_not_confuse_the_owner() {
        let words = SharedWords::on_heap(1);
        let table = LockWordTable::new(words.clone());
        let a = table.alloc().unwrap();
        words[0].store(u64::MAX, Ordering::Relaxed);
        assert!(table.revoke(a) && table.free(a));
        assert_eq!(table.alloc().unwrap().generation, a.generation + 2);
    }

    #[test]
    fn words_in_page_memory() {
        let mut backing = vec![7u64; 4];
        let ptr = NonNull::new(backing.as_mut_ptr().cast::<u8>()).unwrap();
        // SAFETY: `backing` outlives the table, and is accessed through the words only until then.
        let words = unsafe { SharedWords::in_memory(MemRef::from_raw(ptr, 31), Arc::new(())) };
        assert_eq!(words.len(), 3);
        let table = LockWordTable::new(words);
        let a = table.alloc().unwrap();
        assert!(table.view().is_current(a));
        drop(table);
        assert_eq!(backing[3], 7);
    }

    proptest! {
        #[test]
        fn matches_a_model(ops in prop::collection::vec((0u8..3, 0usize..8), 1..200)) {
            let table = LockWordTable::new(SharedWords::on_heap(4));
            let view = table.view();
            // Every stamp ever given: granted (2), revoked (1) or free (0).
            let mut model: Vec<(LockStamp, u8)> = Vec::new();
            for (op, at) in ops {
                let at = model.len().saturating_sub(at + 1);
                match op {
                    0 => {
                        let used = model.iter().filter(|m| m.1 > 0).count();
                        let stamp = table.alloc();
                        prop_assert_eq!(stamp.is_some(), used < 4);
                        if let Some(s) = stamp {
                            prop_assert!(model.iter().all(|(m, _)| *m != s));
                            model.push((s, 2));
                        }
                    }
                    1 if !model.is_empty() => {
                        prop_assert_eq!(table.revoke(model[at].0), model[at].1 == 2);
                        model[at].1 = model[at].1.min(1);
                    }
                    2 if !model.is_empty() => {
                        prop_assert_eq!(table.free(model[at].0), model[at].1 > 0);
                        model[at].1 = 0;
                    }
                    _ => {}
                }
                for (s, state) in &model {
                    prop_assert_eq!(view.is_current(*s), *state == 2);
                }
                prop_assert_eq!(table.in_use(), model.iter().filter(|m| m.1 > 0).count());
            }
        }
    }
}
