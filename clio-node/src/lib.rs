//! The node service: all processes of a machine share one store.
//!
//! A daemon ([`server`]) keeps the store; each process is its client ([`client`]) and has a stack of its own, whose
//! targets and names are the daemon's. Requests travel as packets over a Unix socket ([`wire`]), bulk data lies in an
//! arena that the daemon made and both have mapped.

pub mod client;
pub mod server;
mod socket;
pub mod wire;
