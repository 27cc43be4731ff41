//! Page memory, and what lives in it.
//!
//! - [`Arena`] gives out page memory in size classes: huge pages when private, a sealed memfd when shared. It grows
//!   by chunks of 2 MiB up to a limit, hands freed memory out again while it is warm, and joins freed neighbours, so
//!   that a change of sizes strands nothing. Its book-keeping is in private memory.
//! - [`Mapping`] is the address space below it, and what the other side of a shared arena has of it: bytes and words
//!   by checked offsets.
//! - A shared arena begins with the [staging records](clio_core::memory::staging) of its user.

mod arena;
mod buddy;
mod head;
mod mapping;
mod origin;
mod pool;
mod size_class;

pub use arena::Arena;
pub use mapping::Mapping;
pub use origin::Origin;
pub use size_class::{CHUNK_BYTES, SizeClass};
