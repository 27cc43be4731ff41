#![expect(unsafe_code, reason = "raw page memory; each block has its proof")]

use super::copy;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;

/// A piece of page memory: an address and a length, with no claim to exclusive use.
///
/// Access goes through copies that tolerate concurrent change; who may change which bytes when is decided by page
/// ownership and transfer state, not by the borrow checker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemRef {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a MemRef is an address; all access through it is by the race-tolerant copies of `copy`.
unsafe impl Send for MemRef {}
// SAFETY: as above.
unsafe impl Sync for MemRef {}

impl MemRef {
    /// A reference to `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The bytes must stay mapped, readable and writable (or, if the reference is only handed to writes to a target,
    /// readable) for as long as this reference or a copy of it is used, and no `&mut` or, while written, `&` to
    /// them may be used meanwhile.
    pub unsafe fn from_raw(ptr: NonNull<u8>, len: usize) -> Self {
        Self { ptr, len }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address, for system calls.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The bytes `range` of it.
    ///
    /// # Panics
    /// If `range` is not within it.
    pub fn slice(&self, range: Range<usize>) -> MemRef {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: the start is within the referenced bytes (or one past their end), hence not null.
        let ptr = unsafe { NonNull::new_unchecked(self.ptr.as_ptr().add(range.start)) };
        MemRef { ptr, len: range.end - range.start }
    }

    /// Copies `buf.len()` bytes from offset `at` to `buf`.
    ///
    /// # Panics
    /// If that is more than there is.
    pub fn read_at(&self, at: usize, buf: &mut [u8]) {
        let from = self.slice(at..at + buf.len());
        // SAFETY: `from` is as long as `buf`, and mapped by MemRef's contract.
        unsafe { copy::copy_out(from.as_ptr(), buf) }
    }

    /// Copies `buf` to offset `at`.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn write_at(&self, at: usize, buf: &[u8]) {
        let to = self.slice(at..at + buf.len());
        // SAFETY: `to` is as long as `buf`, and mapped by MemRef's contract.
        unsafe { copy::copy_in(to.as_ptr(), buf) }
    }

    /// Copies all of `from` to the start of this.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn copy_from(&self, from: MemRef) {
        let to = self.slice(0..from.len);
        // SAFETY: both are mapped for `from.len` bytes by MemRef's contract.
        unsafe { copy::copy_within(to.as_ptr(), from.as_ptr(), from.len) }
    }

    /// Sets every byte to zero.
    pub fn zero(&self) {
        // SAFETY: mapped for `len` bytes by MemRef's contract.
        unsafe { copy::fill(self.as_ptr(), 0, self.len) }
    }

    /// crc32c of the bytes, continuing from `seed`. Meaningful only while nobody changes them (blocks in transfer).
    pub fn crc32c(&self, seed: u32) -> u32 {
        // Summed from a copy in the nearest cache: the bytes themselves may change, which a slice must not.
        let mut buf = [MaybeUninit::<u8>::uninit(); 4096];
        let (mut crc, mut at) = (seed, 0);
        while at < self.len {
            let n = buf.len().min(self.len - at);
            let to = buf.as_mut_ptr().cast::<u8>();
            // SAFETY: `n` bytes from `at` on are mapped by MemRef's contract; `buf` has room for `n`, which are
            // initialised by the copy before the slice of them is made.
            let copied = unsafe {
                copy::copy_within(to, self.slice(at..at + n).as_ptr(), n);
                std::slice::from_raw_parts(to, n)
            };
            crc = crc32c::crc32c_append(crc, copied);
            at += n;
        }
        crc
    }
}
