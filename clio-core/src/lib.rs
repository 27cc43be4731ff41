//! The generic half of Clio's object stack: headers, slices, state machines and the machinery that drives them.
//!
//! This crate does no I/O and knows no layer by name.

pub mod attr;
pub mod clock;
pub mod env;
pub mod error;
pub mod io;
pub mod lock;
pub mod lockrank;
pub mod memory;
pub mod object;
pub mod page;
pub mod req;
pub mod sync;
pub mod target;
pub mod units;

pub use error::{Errno, Error, Result};
