//! Page memory, and what lives in it.
//!
//! - [`Arena`] gives out page memory in size classes: huge pages when private, a sealed memfd when shared. It grows
//!   by chunks of 2 MiB up to a limit, hands freed memory out again while it is warm, and joins freed neighbours, so
//!   that a change of sizes strands nothing. Its book-keeping is in private memory.
//! - [`Mapping`] is the address space below it, and what the other side of a shared arena has of it: bytes and words
//!   by checked offsets.
//! - [`staging`] is the protocol by which a write outlives its process: records in arena memory, published against
//!   the generation of a lock.

mod arena;
mod buddy;
mod mapping;
mod pool;
mod size_class;
pub mod staging;

pub use arena::Arena;
pub use mapping::Mapping;
pub use size_class::{CHUNK_BYTES, SizeClass};
