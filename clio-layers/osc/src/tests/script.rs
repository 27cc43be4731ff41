//! A target that records what it is asked, and fails or holds answers when told to.

use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{Completion, DlmHandle, Op, Reply, Target, TargetClient};
use clio_core::units::{ClientId, Extent, TargetIndex};
use clio_core::{Errno, Error, Result};
use clio_targets::MemTarget;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    Enqueue,
    Cancel,
    Punch,
    ReturnGrant,
    Other,
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    pub(crate) extent: Extent,
    pub(crate) bytes: u64,
    pub(crate) grant: u64,
    pub(crate) lock: Option<DlmHandle>,
}

#[derive(Default)]
struct Script {
    log: Vec<Asked>,
    failures: Vec<(Kind, Errno, usize)>,
    corrupt_reads: usize,
    holding: Vec<Kind>,
    held: Vec<(ClientId, Op, Completion)>,
    /// Answers held back, not requests.
    mute: Vec<Kind>,
    answers: Vec<(Completion, Result<Reply>)>,
}

pub(crate) struct ScriptedTarget {
    pub(crate) inner: MemTarget,
    script: RankedMutex<Script>,
    this: std::sync::Weak<ScriptedTarget>,
    /// Where requests go that are served by other threads.
    servers: Option<std::sync::mpsc::Sender<(ClientId, Op, Completion)>>,
}

impl std::fmt::Debug for ScriptedTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScriptedTarget")
    }
}

fn describe(op: &Op) -> Asked {
    let hull = |bulk: &clio_core::target::Bulk| bulk.iter().fold(Extent::new(0, 0), |e, s| e.hull(s.extent()));
    let bytes = |bulk: &clio_core::target::Bulk| bulk.iter().map(|s| s.mem.len() as u64).sum();
    let plain = |kind, extent| Asked { kind, extent, bytes: 0, grant: 0, lock: None };
    match op {
        Op::Read { bulk, .. } => Asked { bytes: bytes(bulk), ..plain(Kind::Read, hull(bulk)) },
        Op::Write { bulk, grant, lock, .. } => {
            Asked { bytes: bytes(bulk), grant: *grant, lock: *lock, ..plain(Kind::Write, hull(bulk)) }
        }
        Op::Enqueue { extent, .. } => plain(Kind::Enqueue, *extent),
        Op::Cancel(h) => Asked { lock: Some(*h), ..plain(Kind::Cancel, Extent::new(0, 0)) },
        Op::Punch { extent, lock, .. } => Asked { lock: *lock, ..plain(Kind::Punch, *extent) },
        Op::ReturnGrant { bytes } => Asked { grant: *bytes, ..plain(Kind::ReturnGrant, Extent::new(0, 0)) },
        _ => plain(Kind::Other, Extent::new(0, 0)),
    }
}

impl ScriptedTarget {
    pub(crate) fn new(inner: MemTarget) -> Arc<Self> {
        let script = RankedMutex::new(LockRank::Leaf, Script::default());
        Arc::new_cyclic(|this| Self { inner, script, this: this.clone(), servers: None })
    }

    /// As [`ScriptedTarget::new`], but requests are served by `threads` other threads, in any order.
    pub(crate) fn threaded(inner: MemTarget, threads: usize) -> Arc<Self> {
        let script = RankedMutex::new(LockRank::Leaf, Script::default());
        let (tx, rx) = std::sync::mpsc::channel::<(ClientId, Op, Completion)>();
        let target = Arc::new_cyclic(|this| Self { inner, script, this: this.clone(), servers: Some(tx) });
        let rx = Arc::new(clio_core::sync::Mutex::new(rx));
        for _ in 0..threads {
            let (rx, target) = (rx.clone(), Arc::downgrade(&target));
            std::thread::spawn(move || {
                loop {
                    let next = rx.lock().recv();
                    let (Ok((client, op, done)), Some(target)) = (next, target.upgrade()) else { return };
                    target.inner.submit(client, op, done);
                }
            });
        }
        target
    }

    /// What of this kind was asked so far.
    pub(crate) fn log(&self, kind: Kind) -> Vec<Asked> {
        self.script.lock().log.iter().filter(|a| a.kind == kind).cloned().collect()
    }

    /// Kinds of what was asked so far, in order.
    pub(crate) fn order(&self) -> Vec<Kind> {
        self.script.lock().log.iter().map(|a| a.kind).collect()
    }

    pub(crate) fn clear_log(&self) {
        self.script.lock().log.clear();
    }

    /// Fails the next `n` of this kind.
    pub(crate) fn fail(&self, kind: Kind, errno: Errno, n: usize) {
        self.script.lock().failures.push((kind, errno, n));
    }

    pub(crate) fn fail_no_more(&self) {
        self.script.lock().failures.clear();
    }

    /// Spoils the checksums of the next `n` reads.
    pub(crate) fn corrupt_reads(&self, n: usize) {
        self.script.lock().corrupt_reads = n;
    }

    /// Keeps requests of this kind from the target.
    pub(crate) fn hold(&self, kind: Kind) {
        self.script.lock().holding.push(kind);
    }

    /// Keeps answers to requests of this kind from the client.
    pub(crate) fn mute(&self, kind: Kind) {
        self.script.lock().mute.push(kind);
    }

    pub(crate) fn held(&self) -> usize {
        self.script.lock().held.len()
    }

    pub(crate) fn muted(&self) -> usize {
        self.script.lock().answers.len()
    }

    /// Holds nothing any more.
    pub(crate) fn release(&self) {
        let (held, answers) = {
            let mut s = self.script.lock();
            s.holding.clear();
            s.mute.clear();
            (std::mem::take(&mut s.held), std::mem::take(&mut s.answers))
        };
        held.into_iter().for_each(|(c, op, done)| self.inner.submit(c, op, done));
        answers.into_iter().for_each(|(done, result)| done(result));
    }

    /// Lets the answers through that were held back, the last first.
    pub(crate) fn release_backwards(&self) {
        let answers = {
            let mut s = self.script.lock();
            s.mute.clear();
            std::mem::take(&mut s.answers)
        };
        answers.into_iter().rev().for_each(|(done, result)| done(result));
    }

    /// Releases when it is dropped: a failed check must not leave other threads waiting for ever.
    pub(crate) fn release_at_end(&self) -> impl Drop + '_ {
        struct AtEnd<'a>(&'a ScriptedTarget);
        impl Drop for AtEnd<'_> {
            fn drop(&mut self) {
                self.0.release();
            }
        }
        AtEnd(self)
    }

    /// Lets the oldest held request through.
    pub(crate) fn release_one(&self) {
        let first = {
            let mut s = self.script.lock();
            (!s.held.is_empty()).then(|| s.held.remove(0))
        };
        if let Some((c, op, done)) = first {
            self.inner.submit(c, op, done);
        }
    }

    fn answer(&self, kind: Kind, done: Completion, mut result: Result<Reply>) {
        {
            let mut s = self.script.lock();
            if let Ok(Reply::Read { checksum: Some(c), .. }) = &mut result
                && s.corrupt_reads > 0
            {
                s.corrupt_reads -= 1;
                *c ^= 1;
            }
            if s.mute.contains(&kind) {
                s.answers.push((done, result));
                return;
            }
        }
        done(result);
    }
}

impl Target for ScriptedTarget {
    fn index(&self) -> TargetIndex {
        self.inner.index()
    }

    fn connect(&self, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        self.inner.connect(callbacks)
    }

    fn submit(&self, client: ClientId, op: Op, done: Completion) {
        let asked = describe(&op);
        let kind = asked.kind;
        let this = self.this.clone();
        let done: Completion = Box::new(move |result| match this.upgrade() {
            Some(this) => this.answer(kind, done, result),
            None => done(result),
        });
        let failure = {
            let mut s = self.script.lock();
            s.log.push(asked);
            if s.holding.contains(&kind) {
                s.held.push((client, op, done));
                return;
            }
            let failure = s.failures.iter_mut().find(|(k, _, n)| *k == kind && *n > 0);
            failure.map(|(_, errno, n)| {
                *n -= 1;
                *errno
            })
        };
        match failure {
            Some(errno) => done(Err(Error::new(errno, "submit", "as told"))),
            None => match &self.servers {
                None => self.inner.submit(client, op, done),
                Some(servers) => servers.send((client, op, done)).expect("servers run while the target lives"),
            },
        }
    }
}
