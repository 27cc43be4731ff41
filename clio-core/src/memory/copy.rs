#![expect(unsafe_code, reason = "copies of raw page memory; each block has its proof")]
//! Copies that tolerate concurrent change of page memory.
//!
//! Another thread or process may write page memory while it is copied. A plain `ptr::copy` of such bytes is a data
//! race, hence undefined: the compiler may read a byte twice, or draw conclusions from a value. So every access here
//! is opaque to it: inline assembly on x86-64, relaxed atomics elsewhere (and under Miri and loom). The bytes that
//! come out of a race are some mixture of old and new; nothing else goes wrong.
//!
//! The assembly is also there for speed: it costs the same for every alignment of source and destination, which
//! the string instructions that C libraries pick for long copies do not.

#[cfg(any(test, miri, clio_loom, not(target_arch = "x86_64")))]
mod portable;
#[cfg(all(target_arch = "x86_64", not(miri), not(clio_loom)))]
mod x86_64;

#[cfg(any(miri, clio_loom, not(target_arch = "x86_64")))]
use portable as kernel;
#[cfg(all(target_arch = "x86_64", not(miri), not(clio_loom)))]
use x86_64 as kernel;

/// From this length on, a copy past the cache is faster than one through it, if the copy isn't read again soon.
const NON_TEMPORAL_MIN_BYTES: usize = 64 << 10;

/// Copies from page memory to `to`.
///
/// # Safety
/// `from` must be mapped for `to.len()` bytes, and must not overlap `to`.
#[inline]
pub unsafe fn copy_out(from: *const u8, to: &mut [u8]) {
    // SAFETY: by this function's contract; `to` is exclusively ours.
    unsafe { kernel::copy_out(to.as_mut_ptr(), from, to.len()) }
}

/// Copies `from` to page memory.
///
/// # Safety
/// `to` must be mapped and writable for `from.len()` bytes, and must not overlap `from`.
#[inline]
pub unsafe fn copy_in(to: *mut u8, from: &[u8]) {
    // SAFETY: by this function's contract; nobody writes `from`.
    unsafe { kernel::copy_in(to, from.as_ptr(), from.len()) }
}

/// Copies `len` bytes between two places in page memory; the ranges must not overlap.
///
/// # Safety
/// `from` must be mapped for `len` bytes, and `to` too, writable.
#[inline]
pub unsafe fn copy_within(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe { kernel::copy(to, from, len) }
}

/// As [`copy_in`], past the cache if it is 64 KiB or more: for bytes that this CPU will not touch again soon, such as
/// the flusher's. The bytes are visible to others at the next release operation of this thread, as with [`copy_in`].
///
/// # Safety
/// As for [`copy_in`].
#[inline]
pub unsafe fn copy_in_nt(to: *mut u8, from: &[u8]) {
    if from.len() < NON_TEMPORAL_MIN_BYTES {
        // SAFETY: the same contract.
        return unsafe { copy_in(to, from) };
    }
    // SAFETY: by this function's contract; nobody writes `from`.
    unsafe { kernel::copy_in_nt(to, from.as_ptr(), from.len()) }
}

/// As [`copy_within`], past the cache if it is 64 KiB or more; see [`copy_in_nt`].
///
/// # Safety
/// As for [`copy_within`].
#[inline]
pub unsafe fn copy_within_nt(to: *mut u8, from: *const u8, len: usize) {
    if len < NON_TEMPORAL_MIN_BYTES {
        // SAFETY: the same contract.
        return unsafe { copy_within(to, from, len) };
    }
    // SAFETY: by this function's contract.
    unsafe { kernel::copy_nt(to, from, len) }
}

/// Sets `len` bytes of page memory to `value`.
///
/// # Safety
/// `to` must be mapped and writable for `len` bytes.
#[inline]
pub unsafe fn fill(to: *mut u8, value: u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe { kernel::fill(to, value, len) }
}

#[cfg(test)]
mod tests;
