//! What the daemon counts.

use super::Shared;
use super::outbox::Outbox;
use crate::wire::{Answer, Figures, TargetFigures};
use clio_core::target::{Bulk, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of requests, as they are counted.
const KINDS: [&str; 8] = ["read", "write", "punch", "lock", "cancel", "sync", "other", "names"];
const NAMES: usize = KINDS.len() - 1;

/// Requests taken.
pub(super) struct Counters {
    kinds: [AtomicU64; KINDS.len()],
    /// Bytes read from and written to each target.
    bytes: Vec<[AtomicU64; 2]>,
}

impl Counters {
    pub(super) fn new(targets: usize) -> Self {
        Self { kinds: Default::default(), bytes: (0..targets).map(|_| Default::default()).collect() }
    }

    /// A target is asked for `op`.
    pub(super) fn count(&self, target: u16, op: &Op) {
        let kind = match op {
            Op::Read { .. } => 0,
            Op::Write { .. } => 1,
            Op::Punch { .. } => 2,
            Op::Enqueue { .. } => 3,
            Op::Cancel(_) => 4,
            Op::Sync(_) => 5,
            _ => 6,
        };
        add(&self.kinds[kind], 1);
        let len = |bulk: &Bulk| bulk.iter().map(|s| s.mem.len() as u64).sum();
        if let (Op::Read { bulk, .. } | Op::Write { bulk, .. }, Some(bytes)) = (op, self.bytes.get(usize::from(target)))
        {
            add(&bytes[kind], len(bulk));
        }
    }

    /// Bytes that were to be written, to all targets.
    pub(super) fn written_bytes(&self) -> u64 {
        self.bytes.iter().map(|[_, written]| written.load(Ordering::Relaxed)).sum()
    }

    /// The namespace is asked for something.
    pub(super) fn count_names(&self) {
        add(&self.kinds[NAMES], 1);
    }
}

fn add(to: &AtomicU64, n: u64) {
    to.fetch_add(n, Ordering::Relaxed);
}

/// Answers request `id`. A worker does it: space is asked of the system.
pub(super) fn begin(shared: &Arc<Shared>, id: u64, outbox: Arc<Outbox>) {
    let this = shared.clone();
    shared.work(move || {
        outbox.reply(id, Ok(Answer::Figures(this.figures())));
        outbox.end();
    });
}

impl Shared {
    fn figures(&self) -> Figures {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let mut targets = self.served.figures();
        targets.resize(self.served.targets().len(), TargetFigures::default());
        for (i, (target, [read, written])) in targets.iter_mut().zip(&self.counters.bytes).enumerate() {
            (target.target, target.read_bytes, target.written_bytes) = (i as u16, get(read), get(written));
        }
        Figures {
            status: self.status(),
            open_files: self.served.namespace().open_files() as u64,
            requests: KINDS.iter().zip(&self.counters.kinds).map(|(name, n)| (name.to_string(), get(n))).collect(),
            targets,
        }
    }
}
