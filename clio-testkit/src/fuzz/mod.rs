//! Fuzz targets, as functions that any test can call.
//!
//! A target gives any bytes to a decoder that must be total, and checks the laws of what comes out: what decodes is
//! valid, encodes to what it was, and can be used without a panic; what is refused is refused with a documented errno
//! and a reason. A broken law is a panic. The inputs that a target starts from are in [`seeds`](seeds()).
//!
//! [`rpc_messages`] makes requests from its input and checks what a target does with them; [`wire_messages`] is about the
//! bytes in which they reach a daemon. The staging record, which a client will share with the daemon, has its final form
//! already.

mod configuration;
mod layouts;
mod namespace_paths;
mod namespace_records;
mod path_rules;
mod rpc_messages;
mod script;
mod seeds;
mod staging_records;
mod store_headers;
mod store_uris;
mod wire_messages;

pub use configuration::configuration;
pub use layouts::layouts;
pub use namespace_paths::namespace_paths;
pub use namespace_records::namespace_records;
pub use path_rules::path_rules;
pub use rpc_messages::rpc_messages;
pub use seeds::{Seed, seeds};
pub use staging_records::staging_records;
pub use store_headers::store_headers;
pub use store_uris::store_uris;
pub use wire_messages::wire_messages;

use clio_core::{Errno, Error};

/// What a target did with an input. Both are fine; a seed says which it expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It decoded (for a script: it changed something), and the laws hold.
    Accepted,
    /// It was refused as documented.
    Refused,
}

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of its program in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs it on an input.
    ///
    /// # Panics
    /// If a law is broken.
    pub run: fn(&[u8]) -> Verdict,
}

/// All targets, in order of their names.
pub const TARGETS: &[Target] = &[
    Target { name: "configuration", run: configuration },
    Target { name: "layouts", run: layouts },
    Target { name: "namespace_paths", run: namespace_paths },
    Target { name: "namespace_records", run: namespace_records },
    Target { name: "path_rules", run: path_rules },
    Target { name: "rpc_messages", run: rpc_messages },
    Target { name: "staging_records", run: staging_records },
    Target { name: "store_headers", run: store_headers },
    Target { name: "store_uris", run: store_uris },
    Target { name: "wire_messages", run: wire_messages },
];

/// The laws of a refusal: its errno is one of those `documented`, and it says why.
#[track_caller]
fn refused(e: &Error, documented: &[Errno]) -> Verdict {
    assert!(documented.contains(&e.errno()), "not a documented errno: {e}");
    assert!(!e.detail().is_empty() && e.to_string().contains(e.detail()), "no reason is given: {e}");
    Verdict::Refused
}
