//! OSC: the transfer layer. One [`OscDevice`] for each target of a client decides when dirty data goes out and in which
//! RPCs, holds the client's locks at the target, and keeps quota and grant.
//!
//! # A write
//! `commit` takes quota and grant for dirty blocks and puts them into the staging area of their object
//! (`staging.rs`), with a window through which more may become dirty without a call. The engine
//! takes blocks out again (for a flush, age, pressure, or because an RPC's worth is dirty), moves them to PageOut, and
//! sends them. The completion gives the credit back, keeps the error if there is one, and starts the next RPC.
//!
//! Between the staging area and the target, data is in a token; whoever flushes an extent waits for the tokens that
//! meet it. Nothing that is dirty is ever without credit in the staging area or in a token.
//!
//! # A lock
//! The slice sends the enqueue; the completion stores the answer and signals the lock. A blocking AST is queued to the
//! [`Workers`], who cancel: write out, drop pages, cut the handle's pointer, cut KMS, tell the target.
//!
//! # What waits for what
//! Completions and ASTs never wait. Pages are never owned while quota, grant or a slot is waited for. Flushes for a
//! lock's cancellation need no slot. The mutex of the device is innermost of those it may meet, and never held across a
//! call to a page, a lock or a target.

#![forbid(unsafe_code)]

mod call;
mod cancel;
mod client;
mod commit;
mod config;
mod credit;
mod device;
mod engine;
mod io;
mod lock;
mod lock_phase;
mod lock_table;
mod lru;
mod object;
mod rpc;
mod staging;
mod state;
mod stats;
mod submit;
mod workers;

#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use config::OscConfig;
pub use credit::Credits;
pub use device::OscDevice;
pub use stats::{BUCKETS, Histogram, OscStats};
pub use workers::Workers;
