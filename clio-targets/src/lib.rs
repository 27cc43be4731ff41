//! Storage targets: what keeps objects, behind the one trait [`clio_core::target::Target`].
//!
//! A target is a [`Service`] over an [`ObjectStore`]. The service is the half that all targets share: connections,
//! locks, grants, callbacks, lockless I/O. The store keeps bytes: [`MemStore`] in memory, [`DirStore`] in a folder.
//! A target that has its own server elsewhere (the node daemon, an object store's cluster) implements the trait
//! itself; the suite of `conformance` is the same for all.

mod bulk;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod dir;
mod exec;
mod mem;
mod service;
mod store;
mod sums;
mod syncs;
mod sys;
mod timer;
pub mod wrap;

pub use dir::{Damage, DamageKind, DirOptions, DirStore, DirTarget, Report, SideHeader, StoreHeader, Uuid};
pub use mem::{MemOptions, MemStore, MemTarget};
pub use service::{GrantConfig, GrantStats, Service, ServiceConfig};
pub use store::{Filled, ObjectStore, Space};
pub use sums::BulkSums;
