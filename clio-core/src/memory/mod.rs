//! Page memory: references to bytes that transfers, other threads and (later) other processes may touch at any time,
//! copied by race-tolerant kernels only: [`copy_in`], [`copy_out`], [`copy_within`], [`fill`].

mod copy;
#[cfg(clio_loom)]
mod loom_memory;
mod memref;
pub mod staging;
pub mod words;

pub use copy::{copy_in, copy_in_nt, copy_out, copy_within, copy_within_nt, fill};
#[cfg(clio_loom)]
pub use loom_memory::LoomMemory;
pub use memref::MemRef;

use staging::StagingTable;
use std::fmt::Debug;
use std::sync::Arc;

/// Gives out page memory in size classes. Implemented by `clio-arena`; memory given out is never unmapped while the
/// provider lives, so that an optimistic reader of a recycled block reads stale bytes, but never faults.
pub trait PageMemory: Send + Sync + Debug {
    /// Block-aligned memory of `len` bytes: 4 KiB, 16 KiB, 64 KiB or 1 MiB. `None` if the arena is at its limit.
    /// The content is undefined.
    fn alloc(&self, len: usize) -> Option<MemRef>;

    /// Takes back what [`PageMemory::alloc`] gave.
    fn free(&self, mem: MemRef);

    /// Bytes given out.
    fn used(&self) -> usize;

    /// Where to say what of the memory is dirty, if somebody else is to write it out should this process die.
    fn staging(&self) -> Option<Arc<StagingTable>> {
        None
    }
}
