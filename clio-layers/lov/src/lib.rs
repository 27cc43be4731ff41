//! The LOV layer: it makes one file of several sub-objects on several storage targets.
//!
//! [`layout`] holds the rules and the arithmetic of striping, as pure functions. The rest is the layer: top-objects,
//! top-locks and top-IOs have a slice of it, which fans out to sub-objects, sub-locks and sub-IOs. Those start with
//! a slice of LOVSUB, the companion that knows the way back up. What lies below is reached through
//! [`Device`](clio_core::object::Device) alone.

#![forbid(unsafe_code)]

pub mod layout;

mod attr;
mod change;
mod device;
mod direct;
mod io;
mod lock;
mod lovsub;
mod object;
mod parts;
mod read_ahead;
mod scope;
mod striped;
mod sub_io;
mod transfer;

#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use device::{LayoutSource, LovDevice};
