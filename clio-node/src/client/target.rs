//! A target of the daemon, as if it were here.

use super::bounce::Placed;
use super::connection::Connection;
use super::line::unexpected;
use crate::wire::{Answer, WireOp, op_to_wire};
use clio_core::Result;
use clio_core::target::{Completion, Op, Reply, Target, TargetClient};
use clio_core::units::{ClientId, TargetIndex};
use std::sync::Arc;

/// One of the daemon's targets.
#[derive(Debug)]
pub struct NodeTarget {
    connection: Arc<Connection>,
    index: TargetIndex,
}

impl NodeTarget {
    /// All targets of the daemon's store.
    pub fn all(connection: &Arc<Connection>) -> Vec<Arc<dyn Target>> {
        let one = |i| Arc::new(NodeTarget { connection: connection.clone(), index: TargetIndex(i) }) as Arc<dyn Target>;
        (0..connection.targets()).map(one).collect()
    }

    fn to_wire(&self, op: &Op, placed: &mut Placed) -> Result<WireOp> {
        let out = matches!(op, Op::Write { .. });
        op_to_wire(op, |bulk| placed.place(bulk, out))
    }
}

impl Target for NodeTarget {
    fn index(&self) -> TargetIndex {
        self.index
    }

    fn connect(&self, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        self.connection.link(self.index, callbacks)
    }

    fn submit(&self, client: ClientId, op: Op, done: Completion) {
        let mut placed = Placed::new(self.connection.arena());
        let wire = match self.to_wire(&op, &mut placed) {
            Ok(wire) => wire,
            Err(e) => return done(Err(e)),
        };
        let (reads, leaves) = (matches!(op, Op::Read { .. }), matches!(op, Op::Disconnect));
        let connection = Arc::downgrade(&self.connection);
        let finish = move |result: Result<Answer>| {
            if reads && result.is_ok() {
                placed.deliver();
            }
            // The caller may use, or free, its memory as soon as it is told.
            drop(placed);
            if let (true, Some(connection)) = (leaves, connection.upgrade()) {
                connection.unlink(client);
            }
            done(result.and_then(|answer| match answer {
                Answer::Target(reply) => Reply::try_from(reply),
                answer => Err(unexpected(&answer)),
            }));
        };
        self.connection.ask(client, wire, Box::new(finish));
    }
}
