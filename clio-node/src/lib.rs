//! The node service: all processes of a machine share one store.
//!
//! A daemon ([`server`]) keeps the store; each process is its client ([`client`]) and has a stack of its own, whose
//! targets and names are the daemon's. Requests travel as packets over a Unix socket ([`wire`]), bulk data lies in an
//! arena that the daemon made and both have mapped. The daemon's death loses nothing: its clients take up with the next one
//! what they held.

pub mod client;
mod peer_groups;
pub mod server;
mod socket;
pub mod wire;

#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz {
    //! What the daemon makes of messages, for fuzz targets.
    use clio_arena::Mapping;
    use clio_core::Result;
    use clio_core::target::Op;

    /// What a target is asked when a client, whose arena this is, asks for `op`.
    ///
    /// # Errors
    /// What the client is told.
    pub fn target_op(op: crate::wire::WireOp, arena: &Mapping) -> Result<Op> {
        crate::wire::op_from_wire(op, |segments| crate::server::find_bulk(arena, &segments))
    }
}
