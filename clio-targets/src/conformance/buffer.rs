#![expect(unsafe_code, reason = "memory for bulk data, as a client would have it; each block has its proof")]
//! Memory for requests.

use clio_core::memory::MemRef;
use clio_core::target::BulkSegment;
use std::ptr::NonNull;

/// Bytes on the heap that are reached through [`MemRef`]s only.
#[derive(Debug)]
pub struct Buffer {
    mem: MemRef,
}

impl Buffer {
    /// A buffer with this content.
    pub fn new(content: &[u8]) -> Self {
        let bytes = Box::into_raw(content.to_vec().into_boxed_slice());
        // SAFETY: a box's pointer is not null, even that of an empty slice.
        let ptr = unsafe { NonNull::new_unchecked(bytes.cast::<u8>()) };
        // SAFETY: the bytes stay allocated until `drop`, and nothing else refers to them.
        Self { mem: unsafe { MemRef::from_raw(ptr, content.len()) } }
    }

    /// The memory.
    pub fn mem(&self) -> MemRef {
        self.mem
    }

    /// The bytes `[from, to)` as a segment at `offset` of an object.
    pub fn segment(&self, from: usize, to: usize, offset: u64) -> BulkSegment {
        BulkSegment { offset, mem: self.mem.slice(from..to) }
    }

    /// A copy of the content.
    pub fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.mem.len()];
        self.mem.read_at(0, &mut bytes);
        bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::ptr::slice_from_raw_parts_mut(self.mem.as_ptr(), self.mem.len());
        // SAFETY: made by `Box::into_raw` in `new` with this length, and freed only here; requests that use it have
        // been completed, which is what `Client` waits for.
        drop(unsafe { Box::from_raw(bytes) });
    }
}
