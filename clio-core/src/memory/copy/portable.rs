//! The kernels in relaxed atomics: for other architectures, and for the checkers, which see every access.
//!
//! Under loom, some words of page memory are the checker's own: see `loom_memory.rs`.
//!
//! Bytes on the caller's side (a Rust slice) are accessed plainly, bytes of page memory atomically.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// One relaxed load of page memory.
///
/// # Safety
/// `p` is mapped.
unsafe fn load(p: *const u8) -> u8 {
    #[cfg(clio_loom)]
    refuse_part(p);
    // SAFETY: mapped by contract, and every byte is aligned for an AtomicU8.
    unsafe { AtomicU8::from_ptr(p.cast_mut()) }.load(Relaxed)
}

/// One relaxed store to page memory.
///
/// # Safety
/// `p` is mapped and writable.
unsafe fn store(p: *mut u8, v: u8) {
    #[cfg(clio_loom)]
    refuse_part(p);
    // SAFETY: mapped by contract, and every byte is aligned for an AtomicU8.
    unsafe { AtomicU8::from_ptr(p) }.store(v, Relaxed)
}

/// One relaxed load of eight bytes of page memory.
///
/// # Safety
/// `p` is mapped for eight bytes and aligned to eight.
unsafe fn load_word(p: *const u8) -> u64 {
    #[cfg(clio_loom)]
    if let Some(word) = crate::memory::loom_memory::word(p) {
        return word.load(Relaxed);
    }
    // SAFETY: by this function's contract.
    unsafe { AtomicU64::from_ptr(p.cast_mut().cast()) }.load(Relaxed)
}

/// One relaxed store of eight bytes to page memory.
///
/// # Safety
/// `p` is mapped and writable for eight bytes and aligned to eight.
unsafe fn store_word(p: *mut u8, v: u64) {
    #[cfg(clio_loom)]
    if let Some(word) = crate::memory::loom_memory::word(p) {
        return word.store(v, Relaxed);
    }
    // SAFETY: by this function's contract.
    unsafe { AtomicU64::from_ptr(p.cast()) }.store(v, Relaxed)
}

/// A model that copies a part of a word that loom sees would check nothing.
#[cfg(clio_loom)]
fn refuse_part(p: *const u8) {
    assert!(crate::memory::loom_memory::word(p.map_addr(|a| a & !7)).is_none(), "a copy of a part of a word");
}

/// Calls `byte` and `word` so that together they cover `0..len` once, `word` with offsets at which `page + offset`
/// is aligned to eight and eight bytes are left.
fn cover(page: *const u8, len: usize, mut byte: impl FnMut(usize), mut word: impl FnMut(usize)) {
    let head = page.align_offset(8).min(len);
    let words_end = head + (len - head) / 8 * 8;
    (0..head).for_each(&mut byte);
    (head..words_end).step_by(8).for_each(&mut word);
    (words_end..len).for_each(&mut byte);
}

/// Copies from page memory to a place of the caller's own.
///
/// # Safety
/// Both sides are mapped for `len` bytes, do not overlap, and nobody else accesses `to`.
pub(super) unsafe fn copy_out(to: *mut u8, from: *const u8, len: usize) {
    cover(
        from,
        len,
        // SAFETY: `at < len`.
        |at| unsafe { to.add(at).write(load(from.add(at))) },
        // SAFETY: `at + 8 <= len`, and `from + at` is aligned to eight.
        |at| unsafe { to.add(at).cast::<u64>().write_unaligned(load_word(from.add(at))) },
    );
}

/// Copies from a place of the caller's own to page memory.
///
/// # Safety
/// Both sides are mapped for `len` bytes, do not overlap, and nobody writes `from`.
pub(super) unsafe fn copy_in(to: *mut u8, from: *const u8, len: usize) {
    cover(
        to,
        len,
        // SAFETY: `at < len`.
        |at| unsafe { store(to.add(at), from.add(at).read()) },
        // SAFETY: `at + 8 <= len`, and `to + at` is aligned to eight.
        |at| unsafe { store_word(to.add(at), from.add(at).cast::<u64>().read_unaligned()) },
    );
}

/// Copies between two places in page memory.
///
/// # Safety
/// Both sides are mapped for `len` bytes and do not overlap.
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: `at < len`, here and below.
    let byte = |at: usize| unsafe { store(to.add(at), load(from.add(at))) };
    if !(to as usize ^ from as usize).is_multiple_of(8) {
        return (0..len).for_each(byte);
    }
    // SAFETY: `at + 8 <= len`; `to + at` is aligned to eight, and `from + at` with it.
    cover(to, len, byte, |at| unsafe { store_word(to.add(at), load_word(from.add(at))) });
}

/// As [`copy_in`]: there is no portable way past the cache.
///
/// # Safety
/// As for [`copy_in`].
pub(super) unsafe fn copy_in_nt(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the same contract.
    unsafe { copy_in(to, from, len) }
}

/// As [`copy`]: there is no portable way past the cache.
///
/// # Safety
/// As for [`copy`].
pub(super) unsafe fn copy_nt(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the same contract.
    unsafe { copy(to, from, len) }
}

/// Sets bytes of page memory.
///
/// # Safety
/// `to` is mapped and writable for `len` bytes.
pub(super) unsafe fn fill(to: *mut u8, value: u8, len: usize) {
    let word = u64::from_ne_bytes([value; 8]);
    cover(
        to,
        len,
        // SAFETY: `at < len`.
        |at| unsafe { store(to.add(at), value) },
        // SAFETY: `at + 8 <= len`, and `to + at` is aligned to eight.
        |at| unsafe { store_word(to.add(at), word) },
    );
}
