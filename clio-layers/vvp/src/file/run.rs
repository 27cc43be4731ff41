//! Running an IO for an entry point.

use super::VvpFile;
use crate::io::VVP_IO;
use crate::transfer::{MiscIo, write_out_range};
use crate::user::UserMem;
use clio_core::env::Env;
use clio_core::io::{Io, IoKind};
use clio_core::object::Object;
use clio_core::units::Extent;
use clio_core::{Error, Result};
use std::sync::Arc;

/// What an IO came to.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Bytes moved.
    pub(super) done: u64,
    /// Offset after the last of them.
    pub(super) pos: u64,
    /// The offset that a seek found.
    pub(super) found: Option<u64>,
    /// Whether the last iteration was on a hole.
    pub(super) hole: bool,
    /// What stopped it before all was moved, if something did.
    pub(super) stopped: Option<Error>,
}

impl VvpFile {
    /// Runs an IO of `kind` on `count` bytes at `pos`, anew for the rest if the layout changes under it.
    pub(super) fn run(&self, env: &Env, kind: IoKind, pos: u64, count: u64, mem: Option<&UserMem>) -> Result<Outcome> {
        let moves_data = matches!(kind, IoKind::Read | IoKind::Write { .. });
        let (done, io) = clio_io_loop::run_restarting(env, |done| {
            let start = pos + done;
            let mut io = Io::with(env, &self.object, kind, start, count - done, |common| {
                common.demand = self.flags.demand;
                common.dsync = self.flags.dsync;
                common.direct = moves_data && self.is_direct();
            })?;
            let mut slice = env.take(&VVP_IO);
            slice.prime(&self.state, mem.cloned().unwrap_or_default(), pos);
            if kind == IoKind::Read {
                slice.read_ahead(&self.ahead);
            }
            slice.write_through(self.object.errors().pending(&self.cursor));
            io.push_top(slice);
            Ok(io)
        })?;
        let common = &io.common;
        let stopped = common.error().cloned();
        Ok(Outcome { done, pos: common.pos, found: common.found, hole: common.hole, stopped })
    }

    /// Starts reading what was left for later.
    pub(super) fn read_deferred(&self, env: &Env) {
        for extent in self.ahead.take_deferred() {
            let advised = self.run(env, IoKind::Advise { will_need: true }, extent.start, extent.len(), None);
            if let Err(e) = advised {
                // Somebody else is writing there, or memory is short: the read itself will tell.
                tracing::debug!(target: "clio::io", fid = %self.object.fid(), error = %e, "read-ahead given up");
                return;
            }
        }
    }

    /// Writes out all dirty pages, and waits.
    pub(super) fn write_out_all(&self, env: &Env) -> Result<()> {
        flush_object(env, &self.object)
    }
}

/// Writes an object's dirty data out, without making it durable, whether or not a file is open on it. What is cached
/// stays, and so do the locks. Blocks.
///
/// # Errors
/// What a target says; it stays to be told to the files that are open, too.
pub fn flush_object(env: &Env, object: &Arc<Object>) -> Result<()> {
    let mut io = MiscIo::new(env, object)?;
    write_out_range(&mut io, object, Extent::WHOLE)
}

/// Writes an object's dirty data out and makes it durable, with its attributes, whether or not a file is open on it.
/// Errors of earlier asynchronous writes stay with the files that were open then. Blocks.
///
/// # Errors
/// What a target says.
pub fn sync_object(env: &Env, object: &Arc<Object>) -> Result<()> {
    let mut io = Io::new(env, object, IoKind::Fsync, 0, u64::MAX)?;
    clio_io_loop::run(env, &mut io).map(drop)
}
