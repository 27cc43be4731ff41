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
//! first of all locks (before the page budget). Reads share their range, and so do buffered writes at one stroke, from one
//! buffer into one folio, which the folio's mutex makes atomic; all other writes, truncate and punch have it alone. The fast
//! paths don't take it. They only do what is done at one stroke; a read looks for writes that go bit by bit
//! (`part_writes`), and whoever cuts a range shuts the windows in it first, and lowers the size before it cuts pages.
//!
//! So a write is seen whole or not at all by every reader of this client, and, as far as its iteration holds one extent
//! lock, which is to the end of the stripe unit, by those of others.

mod cache;
mod config;
mod file;
mod io;
mod object;
mod part_writes;
mod range_lock;
mod read_ahead;
mod transfer;
mod user;

#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use cache::{CacheStats, PageCache};
pub use config::VvpConfig;
pub use file::{FaultedPage, FileFlags, VvpFile, flush_object, sync_object};
pub use object::VvpDevice;
