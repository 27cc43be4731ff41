//! VVP: the POSIX face of the object stack.
//!
//! The topmost layer of a file: entry points ([`VvpFile`]), the page cache's budget ([`PageCache`]), read-ahead, and
//! the semantics that POSIX adds to bytes in folios: short reads, O_APPEND, truncate, direct I/O, fsync. It knows the
//! layers below only as [`clio_core::object::Device`] and [`clio_core::io::IoSlice`].
//!
//! # Two ways through
//! A read of valid blocks below the known minimum size, and a write to blocks that the transfer layer has opened a
//! window for, touch the folio alone: no IO, no lock match, no allocation. Everything else builds an
//! [`Io`](clio_core::io::Io) with a slice of this layer on top, and runs it through `clio-io-loop`.
//!
//! # Threads of one client
//! Extent locks protect against other clients only. Between threads of this one, a range lock of each object comes
//! first of all locks (before the page budget): reads and buffered writes share their range; truncate, punch, direct
//! writes and appends have it alone. The fast paths don't take it: whoever has a range alone shuts the windows in it
//! first, and lowers the size before it cuts pages.

mod cache;
mod clock;
mod config;
mod file;
mod io;
mod object;
mod range_lock;
mod read_ahead;
mod transfer;
mod user;

#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use cache::{CacheStats, PageCache};
pub use config::VvpConfig;
pub use file::{FileFlags, VvpFile, sync_object};
pub use object::VvpDevice;
