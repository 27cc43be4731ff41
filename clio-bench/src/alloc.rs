//! The system's allocator, counting.
#![expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// Passes everything on to the system's allocator, and counts allocations.
pub struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every method passes its arguments on to `System`, under the same contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Allocations so far, of all threads.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
