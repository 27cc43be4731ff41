//! Layouts: how the bytes of a file are dealt out to sub-objects on storage targets.
//!
//! [`Layout`] is what a user asks for, [`FileLayout`] what a file has. A layout is a row of *components*, extents
//! that follow each other from byte 0, each striped in its own way over its own sub-objects. A component gets its
//! targets when it is first written ([`FileLayout::instantiate`]): until then it is *missing*. A read at a missing
//! component is short, a write instantiates it. Where no component is defined at all, a read is short too, and a
//! write fails with `EFBIG`.
//!
//! The arithmetic is file-absolute: an object offset is computed from the offset in the file, not in the component.
//! So the objects of later components begin with a hole, and a component may begin in the middle of a stripe unit.
//! All of it stands on one function, [`Geometry::bytes_below`]: how many bytes of a stripe lie below a file offset.
//!
//! Nothing here does I/O, locks or keeps state, except for the allocators' memory of past choices.

mod alloc;
mod builder;
mod codec;
mod describe;
mod file;
mod folio;
mod geometry;
mod map;
mod seek;
mod striping;
mod targets;

#[cfg(test)]
mod laws_exhaustive;
#[cfg(test)]
mod laws_sampled;
#[cfg(test)]
mod model;

pub use alloc::{Allocator, Balanced, FreeSpace, RoundRobin};
pub use builder::{Component, Layout};
pub use describe::{ComponentDescription, Description, StripeDescription};
pub use file::{ComponentIndex, FileComponent, FileLayout, LayoutGeneration, StripeRef};
pub use folio::SubFolio;
pub use geometry::Geometry;
pub use map::{Location, Placed, StripeSize, SubExtent};
pub use seek::{SeekAsk, SeekTarget};
pub use striping::{StripeCount, Striping};
pub use targets::{TargetSpace, Targets};

use clio_core::{Errno, Error};
use std::borrow::Cow;

/// Stripe sizes and the bounds of components are multiples of this many bytes.
pub const STRIPE_SIZE_UNIT: u64 = 64 << 10;
/// The largest stripe size in bytes.
pub const MAX_STRIPE_SIZE: u64 = 4 << 30;
/// Stripe size where none is given, in bytes.
pub const DEFAULT_STRIPE_SIZE: u64 = 1 << 20;
/// The most stripes that a component can have.
pub const MAX_STRIPES: u16 = 2000;
/// The most components that a layout can have.
pub const MAX_COMPONENTS: usize = 128;
/// The longest name of a pool in bytes.
pub const MAX_POOL_NAME: usize = 63;

/// An `EINVAL` about a layout that cannot be.
fn invalid(detail: impl Into<Cow<'static, str>>) -> Error {
    Error::new(Errno::EINVAL, "set layout", detail)
}
