//! The lock manager of a storage target as a pure state machine: no I/O, no threads, no clock.
//!
//! Whoever owns a [`Dlm`] feeds it events in one order ([`Dlm::step`], with the time in milliseconds of any clock
//! that doesn't run backwards) and carries out the effects it appends. The same events give the same effects. Nothing
//! here blocks, fails or panics, whatever a client sends; the owner serialises the calls.
//!
//! # Rules
//! - Locks of incompatible modes ([`LockMode::compatible`](clio_core::target::LockMode::compatible)) never overlap,
//!   whoever holds them: two locks of one client conflict as those of two clients do.
//! - A request that meets no lock that conflicts, granted or waiting, is granted at once. Any other waits behind all
//!   that it conflicts with: first come, first served, so that nobody starves; requests that don't conflict
//!   pass each other.
//! - Each granted lock that a waiting request conflicts with is asked back once (blocking AST), at the latest when it
//!   is granted. The client has `blocking_timeout_ms` to cancel it, then it loses all it has.
//! - A grant is widened in both directions up to the nearest conflict, less or not at all on a contended resource
//!   ([`DlmConfig`]). A lock that somebody waits for already isn't widened.
//! - A glimpse that meets a conflict asks the holder of the highest write lock for its attributes, then the next lower
//!   one, for as long as that could know of a larger size. Locks granted after it began aren't asked.
//! - A resource lives as long as it has locks or requests.
//!
//! # Example
//! ```
//! use clio_core::target::{EnqueueFlags, LockMode};
//! use clio_core::units::{ClientId, Extent, Fid};
//! use clio_dlm::{Dlm, DlmConfig, Effect, Event};
//!
//! let (mut dlm, mut out) = (Dlm::new(DlmConfig::default()), Vec::new());
//! let enqueue = |client, mode| Event::Enqueue {
//!     client,
//!     request: client.0,
//!     fid: Fid::new(1, 1),
//!     extent: Extent::new(0, 10),
//!     mode,
//!     flags: EnqueueFlags::default(),
//!     initial_lvb: None,
//! };
//! let (a, b) = (ClientId(1), ClientId(2));
//! dlm.step(0, Event::Connect { client: a }, &mut out);
//! dlm.step(0, Event::Connect { client: b }, &mut out);
//! dlm.step(0, enqueue(a, LockMode::Pw), &mut out);
//! let Effect::Granted { handle, extent: Extent::WHOLE, .. } = out[0] else { panic!("nobody conflicts") };
//!
//! dlm.step(1, enqueue(b, LockMode::Pr), &mut out);
//! assert_eq!(out[1], Effect::BlockingAst { client: a, handle });
//! dlm.step(2, Event::Cancel { client: a, handle }, &mut out);
//! assert!(matches!(out[2], Effect::Granted { client, .. } if client == b));
//! ```
//!
//! # Cost
//! An enqueue looks at every lock of its resource, about a nanosecond each: cheap up to thousands of locks on one
//! object. Disconnect and eviction look at every resource.

mod config;
mod contention;
mod dlm;
mod glimpse;
mod hash;
mod leave;
mod registry;
mod resource;
mod types;

#[cfg(test)]
mod tests;

pub use config::DlmConfig;
pub use dlm::Dlm;
pub use types::{Counts, Effect, Event, LockInfo};
