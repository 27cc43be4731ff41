//! The processes of clients. Where a client has forked, its connection outlives it: the child has it, too.

use super::{PROCESS, failed, watch};
use clio_core::Result;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;

/// Clients' processes, by session (pidfd).
#[derive(Default)]
pub(super) struct Processes(HashMap<u64, OwnedFd>);

impl Processes {
    /// Has the end of `pid` come as an event of [`PROCESS`] and `session`. A process that can't be watched (descriptors are
    /// short, or it has ended already) is gone once its connection is.
    pub(super) fn watch(&mut self, epoll: &OwnedFd, session: u64, pid: Pid) {
        match open(epoll, session, pid) {
            Ok(process) => drop(self.0.insert(session, process)),
            Err(e) => tracing::debug!(target: "clio::node", session, error = %e, "a process can't be watched"),
        }
    }

    /// Ends the watch.
    pub(super) fn forget(&mut self, epoll: &OwnedFd, session: u64) {
        if let Some(process) = self.0.remove(&session) {
            let _ = epoll::delete(epoll, &process);
        }
    }
}

fn open(epoll: &OwnedFd, session: u64, pid: Pid) -> Result<OwnedFd> {
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| failed("pidfd", e))?;
    watch(epoll, &process, session | PROCESS)?;
    Ok(process)
}
