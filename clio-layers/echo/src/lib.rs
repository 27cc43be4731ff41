//! Echo: a thin top layer that sits on a transfer device without POSIX semantics, for tests and benchmarks.
//!
//! [`EchoDevice`] puts its slice on top of whatever device is below; [`EchoFile`] reads and writes an object through
//! the whole machinery: IO, locks, pages, staging, RPCs. It copies its buffers and does no read-ahead.

#![forbid(unsafe_code)]

mod device;
mod file;
mod io;

pub use device::EchoDevice;
pub use file::EchoFile;
