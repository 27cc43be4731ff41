//! The lock slice: a lock of the target behind an extent lock, or a lockless one.

use crate::cancel::learn;
use crate::device::OscDevice;
use crate::lock_phase::{Answer, Attempt, AttemptState, Phase, PhaseCell};
use crate::lock_table::{Answered, Granted};
use crate::state::ObjectKey;
use crate::stats::bump;
use clio_core::attr::AttrMask;
use clio_core::env::Env;
use clio_core::error::{Errno, Error, Result};
use clio_core::io::LockDemand;
use clio_core::lock::{ExtentLock, LockCx, LockDescr, LockSlice, Step, Unused};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::Object;
use clio_core::target::{DlmHandle, EnqueueFlags, LockMode, Op, Reply};
use std::sync::Arc;

/// How often a lock is asked for anew that an eviction took while it was waited for.
const MAX_EVICTIONS: u32 = 3;

#[derive(Debug)]
struct Inner {
    /// Times it was asked for in this life, and of these, times an eviction came between.
    attempts: u32,
    evictions: u32,
    /// Asked in a way that can't be answered `EUSERS`.
    insist: bool,
}

/// The OSC's part of an extent lock.
pub(crate) struct OscLock {
    device: Arc<OscDevice>,
    key: ObjectKey,
    phase: PhaseCell,
    inner: RankedMutex<Inner>,
}

impl OscLock {
    pub(crate) fn new(device: &Arc<OscDevice>, key: ObjectKey) -> Self {
        Self {
            device: device.clone(),
            key,
            phase: PhaseCell::new(),
            inner: RankedMutex::new(LockRank::Leaf, Inner { attempts: 0, evictions: 0, insist: false }),
        }
    }

    /// Sends the enqueue. Its completion stores the answer and signals the lock; it takes no mutex that the caller,
    /// who holds the lock's, has.
    fn ask(&self, cx: &LockCx<'_>) {
        let attempt = Arc::new(Attempt { state: RankedMutex::new(LockRank::Leaf, AttemptState::default()) });
        let insist = {
            let mut inner = self.inner.lock();
            inner.attempts += 1;
            inner.insist
        };
        self.phase.set(Phase::Asked(attempt.clone()));
        let device = self.device.clone();
        device.locks.asking();
        bump(&device.counters.locks_enqueued);
        let need = *cx.descr;
        let mandatory = need.flags.mandatory || insist || need.demand == LockDemand::Mandatory;
        let flags = EnqueueFlags { mandatory, ..need.flags };
        let op = Op::Enqueue { fid: cx.object.fid(), extent: need.extent, mode: need.mode, flags };
        let (lock, attrs, key) = (Arc::downgrade(cx.lock), cx.object.attrs().clone(), self.key);
        let target = self.device.target.clone();
        let client = self.device.client();
        let done = move |reply: Result<Reply>| {
            let mut named = None;
            let mut granted = None;
            if let Ok(Reply::Granted { handle, mode, extent, grant, .. }) = reply {
                device.receive_grant(grant);
                named = handle;
                granted = handle.map(|h| (h, Granted { key, extent, mode, lock: lock.clone(), attrs, ending: false }));
            }
            if matches!(&reply, Err(e) if e.errno() != Errno::EUSERS && e.errno() != Errno::EAGAIN) {
                device.suspect_lost_lock();
            }
            let answered = device.locks.answered(granted);
            let mut reply = reply;
            if answered == Answered::Disowned {
                named = None;
                reply = Err(Error::new(Errno::ESTALE, "lock", "the lock was given back before its grant was heard of"));
            }
            let asked_back = answered == Answered::AskedBack;
            let abandoned = {
                let mut state = attempt.state.lock();
                state.answer = Some(Answer { reply, asked_back });
                state.abandoned
            };
            if let Some(handle) = named.filter(|_| abandoned) {
                device.release(handle);
            }
            if let Some(lock) = lock.upgrade() {
                lock.signal();
            }
        };
        target.submit(client, op, Box::new(done));
    }

    /// The answer isn't wanted any more.
    fn abandon(&self, attempt: &Attempt) {
        let answer = {
            let mut state = attempt.state.lock();
            state.abandoned = true;
            state.answer.take()
        };
        if let Some(Answer { reply: Ok(Reply::Granted { handle: Some(handle), .. }), .. }) = answer {
            self.device.release(handle);
        }
    }

    /// Looks at the answer.
    fn digest(&self, cx: &mut LockCx<'_>, answer: Answer) -> Result<Step> {
        let e = match answer.reply {
            Ok(Reply::Granted { handle: Some(handle), extent, lvb, blocking, .. }) => {
                cx.descr.extent = extent;
                learn(cx.object, &lvb, extent.end);
                let once = blocking || answer.asked_back;
                self.phase.set(if once { Phase::Once(handle) } else { Phase::Granted(handle) });
                return Ok(Step::Done);
            }
            Ok(Reply::Granted { handle: None, lvb, .. }) => {
                learn(cx.object, &lvb, 0);
                Error::new(Errno::EAGAIN, "lock", "a conflicting lock is held; its holder was asked for the size")
            }
            Ok(reply) => Error::new(Errno::EPROTO, "lock", format!("the target answers an enqueue with {reply:?}")),
            Err(e) => e,
        };
        match e.errno() {
            Errno::EUSERS if self.needs_lock(cx.descr) => self.ask_harder(cx),
            Errno::EUSERS => {
                bump(&self.device.counters.lockless);
                let handle = self.device.locks.add_lockless(self.key, cx.descr.extent, cx.lock, cx.object.attrs());
                self.phase.set(Phase::Lockless(handle));
                self.wait(cx)
            }
            Errno::ESTALE if self.may_ask_again() => {
                self.ask(cx);
                self.wait(cx)
            }
            Errno::EIO | Errno::ENOMEM if self.ask_later(cx) => Ok(Step::Wait),
            // The target was busy; to a try-lock it is the answer.
            Errno::EAGAIN if !cx.descr.flags.try_lock && self.ask_later(cx) => Ok(Step::Wait),
            _ => {
                self.phase.set(Phase::Idle);
                Err(e)
            }
        }
    }

    /// Whether nothing but a lock will do.
    fn needs_lock(&self, need: &LockDescr) -> bool {
        need.flags.mandatory || need.demand == LockDemand::Mandatory || matches!(need.mode, LockMode::Group(_))
    }

    /// The target wants this I/O to do without a lock, which it can't: insists. A target that goes on refusing breaks
    /// the protocol; it is asked again only after a while, and up to a limit.
    fn ask_harder(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        let insisted = std::mem::replace(&mut self.inner.lock().insist, true);
        if !insisted {
            self.ask(cx);
            return self.wait(cx);
        }
        if self.ask_later(cx) {
            return Ok(Step::Wait);
        }
        self.phase.set(Phase::Idle);
        Err(Error::new(Errno::EPROTO, "lock", "the target refuses a lock (EUSERS) where it must not"))
    }

    fn may_ask_again(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.evictions += 1;
        inner.evictions <= MAX_EVICTIONS
    }

    /// The target had a passing trouble: asks again after a while, up to a limit.
    fn ask_later(&self, cx: &LockCx<'_>) -> bool {
        let attempts = self.inner.lock().attempts;
        let (limit, delay) = {
            let config = self.device.config.read();
            (config.resend_limit, config.delay(attempts))
        };
        if attempts > limit {
            return false;
        }
        self.phase.set(Phase::Later);
        bump(&self.device.counters.resends);
        let lock = Arc::downgrade(cx.lock);
        let wake = move |_: &Env| {
            if let Some(lock) = lock.upgrade() {
                lock.signal();
            }
        };
        self.device.workers.after(delay, wake)
    }

    /// A lockless lock conflicts with everything in its range: has that cancelled, and waits until it is gone.
    fn wait_lockless(&self, cx: &mut LockCx<'_>, handle: DlmHandle) -> Step {
        let rivals = self.device.locks.rivals(self.key, cx.descr.extent, handle, cx.lock);
        if rivals.is_empty() {
            return Step::Done;
        }
        self.device.workers.push(move |env| {
            for rival in rivals {
                rival.cancel(env);
            }
        });
        Step::Wait
    }
}

impl LockSlice for OscLock {
    fn layer(&self) -> &'static str {
        "osc"
    }

    fn enqueue(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        if self.device.locks.meets_lockless(self.key, cx.descr.extent, cx.lock) {
            return Ok(Step::Wait);
        }
        {
            let mut inner = self.inner.lock();
            (inner.attempts, inner.evictions, inner.insist) = (0, 0, false);
        }
        self.ask(cx);
        self.device.limit_locks();
        Ok(Step::Done)
    }

    fn wait(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        match self.phase.get() {
            Phase::Granted(_) | Phase::Once(_) => Ok(Step::Done),
            Phase::Lockless(handle) => Ok(self.wait_lockless(cx, handle)),
            Phase::Asked(attempt) => {
                let answer = attempt.state.lock().answer.take();
                match answer {
                    None => Ok(Step::Wait),
                    Some(answer) => self.digest(cx, answer),
                }
            }
            Phase::Later => {
                self.ask(cx);
                self.wait(cx)
            }
            Phase::Idle | Phase::Ended => {
                Err(Error::new(Errno::ESTALE, "lock", "the lock was lost while it was waited for"))
            }
        }
    }

    fn unuse(&self, _: &mut LockCx<'_>) -> Unused {
        match self.phase.get() {
            Phase::Granted(_) => Unused::Keep,
            Phase::Once(_) | Phase::Lockless(_) => Unused::Cancel,
            Phase::Asked(attempt) => {
                self.phase.set(Phase::Idle);
                self.abandon(&attempt);
                Unused::Renew
            }
            Phase::Later => {
                self.phase.set(Phase::Idle);
                Unused::Renew
            }
            Phase::Idle | Phase::Ended => Unused::Renew,
        }
    }

    fn is_passive(&self) -> bool {
        !self.phase.goes_after_use()
    }

    fn cancel(&self, env: &Env, object: &Arc<Object>, _: &Arc<ExtentLock>, descr: &LockDescr) {
        let (handle, backed) = match self.phase.get() {
            Phase::Granted(handle) | Phase::Once(handle) => (handle, true),
            Phase::Lockless(handle) => (handle, false),
            _ => return,
        };
        self.device.end_protection(env, self.key, object, handle, descr);
        self.phase.end();
        if backed {
            self.device.give_back(handle);
        }
    }

    fn delete(&self, env: &Env, lock: &Arc<ExtentLock>) {
        match self.phase.end() {
            Phase::Asked(attempt) => self.abandon(&attempt),
            // Not cancelled before: lost by an eviction, or with its object.
            Phase::Granted(handle) | Phase::Once(handle) => {
                let object = lock.object();
                if let Ok(object) = &object {
                    self.device.void_protection(env, self.key, object, handle);
                }
                self.device.release(handle);
                if let Ok(object) = object {
                    // KMS was cut: what the file merged of its stripes counts no more.
                    object.attr_modify(AttrMask::empty(), |_| {});
                }
            }
            Phase::Lockless(handle) => drop(self.device.locks.remove(handle)),
            Phase::Idle | Phase::Later | Phase::Ended => {}
        }
    }

    fn fits_into(&self, _: &LockDescr, _: &LockDescr) -> bool {
        !self.phase.is_private()
    }

    fn weigh(&self, _: &Env, _: &Arc<Object>, descr: &LockDescr) -> u64 {
        let state = self.device.lock_state();
        state.objects.get(&self.key).map_or(0, |s| s.weigh(descr.extent))
    }
}
