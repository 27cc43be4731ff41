//! One resource: its granted locks, its queue, and the rules by which a request moves from one to the other.

use crate::contention::{Contention, Growth};
use crate::glimpse::Glimpse;
use crate::registry::{Registry, Slot, Timer};
use crate::{Effect, LockInfo};
use clio_core::attr::Lvb;
use clio_core::error::Errno;
use clio_core::target::{DlmHandle, EnqueueFlags, LockMode};
use clio_core::units::{ClientId, Extent, Fid};
use smallvec::SmallVec;

/// A lock that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) handle: DlmHandle,
    pub(crate) client: ClientId,
    pub(crate) mode: LockMode,
    pub(crate) extent: Extent,
    /// Set once the holder was told to give it back: by when.
    pub(crate) blocking: Option<u64>,
}

/// A request; its extent is aligned to blocks and not empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) client: ClientId,
    pub(crate) request: u64,
    pub(crate) mode: LockMode,
    pub(crate) extent: Extent,
    pub(crate) flags: EnqueueFlags,
}

impl Request {
    pub(crate) fn refused(&self, errno: Errno) -> Effect {
        Effect::Refused { client: self.client, request: self.request, errno }
    }

    fn conflicts(&self, mode: LockMode, extent: Extent) -> bool {
        self.extent.overlaps(extent) && !self.mode.compatible(mode)
    }
}

/// What a request finds on its resource.
struct Survey {
    /// Granted locks and waiting requests that it conflicts with.
    conflicts: usize,
    /// As before, wherever they lie: their modes conflict.
    rivals: usize,
    /// The widest extent around it that meets no conflict beyond those that overlap it already.
    room: Extent,
}

/// A resource with at least one lock or request.
///
/// Invariants between steps: granted locks that overlap are compatible; a granted lock that conflicts with a waiting
/// request has `blocking` set; a waiting request conflicts with a granted lock or one that waits before it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) fid: Fid,
    pub(crate) slot: Slot,
    pub(crate) lvb: Lvb,
    /// By handle, that is in the order of their grants.
    pub(crate) granted: SmallVec<[Granted; 1]>,
    /// In the order of their arrival.
    pub(crate) waiting: Vec<Request>,
    pub(crate) glimpses: Vec<Glimpse>,
    pub(crate) contention: Contention,
}

impl Resource {
    pub(crate) fn new(fid: Fid, slot: Slot, lvb: Lvb, contention: Contention) -> Self {
        Self { fid, slot, lvb, granted: SmallVec::new(), waiting: Vec::new(), glimpses: Vec::new(), contention }
    }

    /// Whether nothing keeps the resource.
    pub(crate) fn is_unused(&self) -> bool {
        self.granted.is_empty() && self.waiting.is_empty() && self.glimpses.is_empty()
    }

    /// The lock `handle`, if it is held here.
    pub(crate) fn find(&self, handle: DlmHandle) -> Option<usize> {
        self.granted.binary_search_by_key(&handle, |g| g.handle).ok()
    }

    /// Answers a request, now or later.
    pub(crate) fn enqueue(&mut self, r: Request, reg: &mut Registry, out: &mut Vec<Effect>) {
        let survey = self.survey(&r);
        if survey.conflicts == 0 {
            self.grant(r, survey, reg, out);
        } else if r.flags.glimpse {
            self.start_glimpse(r, reg, out);
        } else if r.flags.try_lock {
            out.push(r.refused(Errno::EAGAIN));
        } else if self.goes_lockless(&r, survey.conflicts, reg) {
            // It goes on being fought over, although nobody waits.
            self.contention.note(reg.now_ms, &reg.config);
            out.push(r.refused(Errno::EUSERS));
        } else {
            self.contention.note(reg.now_ms, &reg.config);
            for g in self.granted.iter_mut().filter(|g| r.conflicts(g.mode, g.extent)) {
                if g.blocking.is_none() {
                    g.blocking = Some(reg.start(Timer::Blocking(g.handle), reg.config.blocking_timeout_ms));
                    tracing::trace!(target: "clio::dlm", fid = %self.fid, client = g.client.0, handle = g.handle.0,
                        "asked back");
                    out.push(Effect::BlockingAst { client: g.client, handle: g.handle });
                }
            }
            reg.counts.waiting += 1;
            self.waiting.push(r);
        }
    }

    /// Whether a request with that many conflicts is told to do without a lock.
    fn goes_lockless(&mut self, r: &Request, conflicts: usize, reg: &Registry) -> bool {
        let config = &reg.config;
        if !config.contention_enabled || r.flags.mandatory || matches!(r.mode, LockMode::Group(_)) {
            return false;
        }
        conflicts > config.contended_locks
            || config.lockless_conflicts.is_some_and(|n| self.contention.recent(reg.now_ms, config) >= n)
    }

    /// Looks at all locks and requests once, on behalf of `r`.
    fn survey(&self, r: &Request) -> Survey {
        let Extent { start, end } = r.extent;
        let mut s = Survey { conflicts: 0, rivals: 0, room: Extent::WHOLE };
        let granted = self.granted.iter().map(|g| (g.mode, g.extent));
        let waiting = self.waiting.iter().map(|w| (w.mode, w.extent));
        for (_, e) in granted.chain(waiting).filter(|(mode, _)| !r.mode.compatible(*mode)) {
            let (above, below) = (e.end > start, e.start < end);
            s.rivals += 1;
            s.conflicts += usize::from(above && below);
            // One that overlaps stops the growth on both sides.
            if below {
                s.room.start = s.room.start.max(e.end.min(start));
            }
            if above {
                s.room.end = s.room.end.min(e.start.max(end));
            }
        }
        s
    }

    /// Grants a request that conflicts with no granted lock and none that waits before it; conflicts in `survey` are
    /// requests that wait for it.
    fn grant(&mut self, r: Request, survey: Survey, reg: &mut Registry, out: &mut Vec<Effect>) {
        let growth =
            if r.flags.exact { Growth::Exact } else { self.contention.growth(survey.rivals, reg.now_ms, &reg.config) };
        let extent = growth.apply(r.extent, survey.room);
        let handle = reg.new_lock(self.slot);
        let blocking = survey.conflicts > 0;
        let deadline = blocking.then(|| reg.start(Timer::Blocking(handle), reg.config.blocking_timeout_ms));
        self.granted.push(Granted { handle, client: r.client, mode: r.mode, extent, blocking: deadline });
        tracing::trace!(target: "clio::dlm", fid = %self.fid, client = r.client.0, handle = handle.0, mode = ?r.mode,
            extent = ?extent, blocking, "granted");
        out.push(Effect::Granted {
            client: r.client,
            request: r.request,
            handle,
            mode: r.mode,
            extent,
            lvb: self.lvb,
            blocking,
        });
    }

    /// Grants what can be granted, in the order of arrival. To be called whenever a lock or a request went.
    pub(crate) fn regrant(&mut self, reg: &mut Registry, out: &mut Vec<Effect>) {
        let mut i = 0;
        while i < self.waiting.len() {
            let r = self.waiting[i];
            let held = self.granted.iter().any(|g| r.conflicts(g.mode, g.extent));
            if held || self.waiting[..i].iter().any(|w| r.conflicts(w.mode, w.extent)) {
                i += 1;
            } else {
                self.waiting.remove(i);
                reg.counts.waiting -= 1;
                let survey = self.survey(&r);
                self.grant(r, survey, reg, out);
            }
        }
    }

    /// Takes the lock at `index` away, without looking at what becomes possible by it.
    pub(crate) fn remove(&mut self, index: usize, reg: &mut Registry) -> Granted {
        let g = self.granted.remove(index);
        reg.locks.remove(&g.handle);
        if let Some(deadline) = g.blocking {
            reg.stop(Timer::Blocking(g.handle), deadline);
        }
        g
    }

    /// The holder gives the lock at `index` back.
    pub(crate) fn cancel(&mut self, index: usize, reg: &mut Registry, out: &mut Vec<Effect>) {
        let gone = self.remove(index, reg).handle;
        tracing::trace!(target: "clio::dlm", fid = %self.fid, handle = gone.0, "cancelled");
        self.glimpse_without(gone, reg, out);
        self.regrant(reg, out);
    }

    /// Changes the mode of the lock at `index`, if that is possible without waiting.
    pub(crate) fn convert(&mut self, index: usize, mode: LockMode, reg: &mut Registry, out: &mut Vec<Effect>) {
        let g = self.granted[index];
        let mut others = self.granted.iter().filter(|o| o.handle != g.handle);
        let free = others.all(|o| !o.extent.overlaps(g.extent) || mode.compatible(o.mode))
            && !self.waiting.iter().any(|w| w.conflicts(mode, g.extent));
        let mode = if g.mode.serves(mode) || free { mode } else { g.mode };
        self.granted[index].mode = mode;
        out.push(Effect::Converted { client: g.client, handle: g.handle, mode });
        self.regrant(reg, out);
        self.settle(index, reg);
    }

    /// Forgets that the lock at `index` was asked back if nobody waits for it any more.
    fn settle(&mut self, index: usize, reg: &mut Registry) {
        let g = &mut self.granted[index];
        if let Some(deadline) = g.blocking
            && !self.waiting.iter().any(|w| w.conflicts(g.mode, g.extent))
        {
            reg.stop(Timer::Blocking(g.handle), deadline);
            g.blocking = None;
        }
    }

    /// Gives the holder of the lock at `index` the full time anew.
    pub(crate) fn prolong(&mut self, index: usize, reg: &mut Registry) {
        let g = &mut self.granted[index];
        if let Some(deadline) = g.blocking {
            reg.stop(Timer::Blocking(g.handle), deadline);
            g.blocking = Some(reg.start(Timer::Blocking(g.handle), reg.config.blocking_timeout_ms));
        }
    }

    /// All locks: granted ones by handle, then those that wait.
    pub(crate) fn infos(&self) -> impl Iterator<Item = LockInfo> + '_ {
        let granted = self.granted.iter().map(|g| LockInfo {
            handle: Some(g.handle),
            client: g.client,
            mode: g.mode,
            extent: g.extent,
            blocking: g.blocking.is_some(),
        });
        granted.chain(self.waiting.iter().map(|w| LockInfo {
            handle: None,
            client: w.client,
            mode: w.mode,
            extent: w.extent,
            blocking: false,
        }))
    }
}
