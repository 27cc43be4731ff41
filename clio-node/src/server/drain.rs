//! What a client that is gone had written, and had not handed over: it is in the client's arena, which outlives it.
//!
//! The arena's records say what is dirty ([`clio_core::memory::staging`]). They are the client's to write, and not to be
//! trusted: only what its write locks cover is written out, by the daemon's own list of them, and those locks are kept
//! until it is.

use super::locks::WriteLock;
use clio_arena::Mapping;
use clio_core::clock::now_ns;
use clio_core::memory::staging::{self, StagedFolio};
use clio_core::sync::{Condvar, Mutex};
use clio_core::target::{Bulk, BulkSegment, Op, Target};
use clio_core::units::{ClientId, Extent, Fid};
use clio_core::{Errno, Error, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Writes on their way at once.
const WINDOW: usize = 8;
/// How often a write is tried again, and after what time, where the target has too much to do.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// What came of it.
#[derive(Default, Debug)]
pub(super) struct Drained {
    /// Bytes written.
    pub(super) bytes: u64,
    /// Bytes that no write lock covered.
    pub(super) uncovered: u64,
    /// The first failure: what it concerns is lost.
    pub(super) error: Option<Error>,
}

/// Writes out what is staged in `arena`, as far as `locks` cover it. Blocks until all is at the targets.
pub(super) fn drain(targets: &[Arc<dyn Target>], arena: &Arc<Mapping>, locks: &[WriteLock]) -> Drained {
    let mut drained = Drained::default();
    let Some(records) = arena.records() else { return drained };
    let mut by_fid: HashMap<Fid, Vec<&WriteLock>> = HashMap::new();
    locks.iter().for_each(|lock| by_fid.entry(lock.fid).or_default().push(lock));
    let writes = Arc::new(Writes::default());
    for folio in staging::read(&records, arena.len() as u64) {
        let folio = match folio {
            Ok(folio) => folio,
            Err(e) => {
                tracing::warn!(target: "clio::node", error = %e, "a record of a client that is gone is left out");
                continue;
            }
        };
        let mut covered = 0;
        for lock in by_fid.get(&folio.fid).into_iter().flatten() {
            let bulk = under(lock, &folio, arena);
            let bytes = bulk.iter().map(|s| s.mem.len() as u64).sum();
            if let (false, Some(target)) = (bulk.is_empty(), targets.get(usize::from(lock.target))) {
                covered += bytes;
                writes.submit(target, Write { lock: **lock, bulk, bytes, with_grant: true, tries: TRIES });
            }
        }
        let all: u64 = folio.runs.iter().map(|run| run.extent.len()).sum();
        // Locks that overlap are of one group.
        drained.uncovered += all.saturating_sub(covered);
    }
    let (bytes, error) = writes.finish(targets);
    Drained { bytes, error, ..drained }
}

/// The part of `folio` that `lock` covers.
fn under(lock: &WriteLock, folio: &StagedFolio, arena: &Mapping) -> Bulk {
    let part = |run: &staging::StagedRun| {
        let extent = run.extent.intersect(lock.extent);
        let at = run.at + extent.start.checked_sub(run.extent.start)?;
        let mem = arena.at(at, extent.len() as usize)?;
        (!extent.is_empty()).then_some(BulkSegment { offset: extent.start, mem })
    };
    folio.runs.iter().filter_map(part).collect()
}

#[derive(Clone)]
struct Write {
    lock: WriteLock,
    bulk: Bulk,
    bytes: u64,
    /// It uses up grant, which the client has, or had.
    with_grant: bool,
    tries: u32,
}

impl Write {
    fn op(&self) -> Op {
        let blocks = self.bulk.iter().map(|s| s.extent().align_to_blocks()).fold(0, |sum, e: Extent| sum + e.len());
        Op::Write {
            fid: self.lock.fid,
            bulk: self.bulk.clone(),
            checksum: None,
            lock: Some(self.lock.handle),
            grant: if self.with_grant { blocks } else { 0 },
            mtime: now_ns(),
            sync: false,
        }
    }
}

/// The writes of one client.
#[derive(Default)]
struct Writes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    under_way: usize,
    bytes: u64,
    /// Those to be made again.
    again: Vec<Write>,
    error: Option<Error>,
}

impl Writes {
    /// Starts a write once few enough are on their way.
    fn submit(self: &Arc<Self>, target: &Arc<dyn Target>, write: Write) {
        let mut state = self.state.lock();
        while state.under_way >= WINDOW {
            state = self.changed.wait(state);
        }
        state.under_way += 1;
        drop(state);
        let (writes, client, op) = (self.clone(), ClientId(write.lock.client), write.op());
        target.submit(client, op, Box::new(move |result| writes.over(write, result.map(drop))));
    }

    fn over(&self, write: Write, result: Result<()>) {
        let mut state = self.state.lock();
        state.under_way -= 1;
        match result {
            Ok(()) => state.bytes += write.bytes,
            // So much grant it hasn't: part of it is with writes that were on their way when it died.
            Err(e) if e.errno() == Errno::EPROTO && write.with_grant => {
                state.again.push(Write { with_grant: false, ..write });
            }
            Err(e) if e.errno() == Errno::EAGAIN && write.tries > 0 => {
                state.again.push(Write { tries: write.tries - 1, ..write });
            }
            Err(e) => drop(state.error.get_or_insert(e.on(write.lock.fid))),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for all, those that are made again too. What was written, and the first error.
    fn finish(self: &Arc<Self>, targets: &[Arc<dyn Target>]) -> (u64, Option<Error>) {
        loop {
            let again = {
                let mut state = self.state.lock();
                while state.under_way > 0 {
                    state = self.changed.wait(state);
                }
                if state.again.is_empty() {
                    return (state.bytes, state.error.take());
                }
                std::mem::take(&mut state.again)
            };
            if again.iter().any(|write| write.tries < TRIES) {
                std::thread::sleep(PAUSE);
            }
            for write in again {
                if let Some(target) = targets.get(usize::from(write.lock.target)) {
                    self.submit(target, write);
                }
            }
        }
    }
}
