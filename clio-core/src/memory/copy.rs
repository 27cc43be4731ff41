#![expect(unsafe_code, reason = "copies of raw page memory; each block has its proof")]
//! Copies that tolerate concurrent change of the page memory side.

/// Copies from page memory to `to`.
///
/// # Safety
/// `from` must be mapped for `to.len()` bytes.
pub unsafe fn copy_out(from: *const u8, to: &mut [u8]) {
    // SAFETY: by this function's contract.
    unsafe { copy_within(to.as_mut_ptr(), from, to.len()) }
}

/// Copies `from` to page memory.
///
/// # Safety
/// `to` must be mapped for `from.len()` bytes.
pub unsafe fn copy_in(to: *mut u8, from: &[u8]) {
    // SAFETY: by this function's contract.
    unsafe { copy_within(to, from.as_ptr(), from.len()) }
}

/// Copies `len` bytes; the ranges must not overlap.
///
/// # Safety
/// Both sides must be mapped for `len` bytes.
pub unsafe fn copy_within(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

/// Sets `len` bytes to `value`.
///
/// # Safety
/// `to` must be mapped for `len` bytes.
pub unsafe fn fill(to: *mut u8, value: u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe { std::ptr::write_bytes(to, value, len) }
}
