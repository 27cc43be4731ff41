//! A target that fails as told.

use crate::timer::{Timer, call_at};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{Completion, Op, Reply, Target, TargetClient};
use clio_core::units::{ClientId, TargetIndex};
use clio_core::{Errno, Error, Result};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It fails, and the target never sees it.
    Refuse(Errno),
    /// The target carries it out, but the client is told that it failed: a lost reply.
    LoseReply(Errno),
    /// The reply comes so much later.
    Delay(Duration),
    /// The target sees it only after [`Faulty::release`].
    HoldRequest,
    /// The reply comes only after [`Faulty::release`].
    HoldReply,
}

type Rule = Box<dyn FnMut(&Op) -> Option<Fault> + Send>;
type Held = Box<dyn FnOnce() + Send>;

/// Asks a rule about each request, and lets happen to it what the rule says.
pub struct Faulty {
    inner: Arc<dyn Target>,
    rule: RankedMutex<Rule>,
    held: Arc<RankedMutex<Vec<Held>>>,
    timer: Arc<Timer>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Faulty {
    /// `inner` without faults, until [`Faulty::set_rule`].
    pub fn new(inner: Arc<dyn Target>) -> Self {
        let rule: Rule = Box::new(|_| None);
        let held = Arc::new(RankedMutex::new(LockRank::Leaf, Vec::new()));
        Self { inner, rule: RankedMutex::new(LockRank::Leaf, rule), held, timer: Arc::new(Timer::new()) }
    }

    /// From now on, `rule` decides. It must not call the target.
    pub fn set_rule(&self, rule: impl FnMut(&Op) -> Option<Fault> + Send + 'static) {
        *self.rule.lock() = Box::new(rule);
    }

    /// From now on, `fault` happens to the `nth` request (from 0) for which `kind` is true, and to no other.
    pub fn fail_nth(&self, nth: usize, fault: Fault, kind: impl Fn(&Op) -> bool + Send + 'static) {
        let mut seen = 0;
        self.set_rule(move |op| {
            let hit = kind(op) && seen == nth;
            seen += usize::from(kind(op));
            hit.then_some(fault)
        });
    }

    /// Lets go of what is held, in the order it came. Returns how many requests and replies that were.
    pub fn release(&self) -> usize {
        let held = std::mem::take(&mut *self.held.lock());
        let count = held.len();
        held.into_iter().for_each(|go| go());
        count
    }

    /// How many requests and replies are held.
    pub fn held(&self) -> usize {
        self.held.lock().len()
    }

    fn error(errno: Errno) -> Result<Reply> {
        Err(Error::new(errno, "submit", "fault injected"))
    }

    fn hold(held: &RankedMutex<Vec<Held>>, go: Held) {
        held.lock().push(go);
    }
}

impl Target for Faulty {
    fn index(&self) -> TargetIndex {
        self.inner.index()
    }

    fn connect(&self, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)> {
        self.inner.connect(callbacks)
    }

    fn resume(&self, callbacks: Arc<dyn TargetClient>, grant: u64) -> Result<ClientId> {
        self.inner.resume(callbacks, grant)
    }

    fn submit(&self, client: ClientId, op: Op, done: Completion) {
        let fault = (self.rule.lock())(&op);
        let done: Completion = match fault {
            None => done,
            Some(Fault::Refuse(errno)) => return done(Self::error(errno)),
            Some(Fault::LoseReply(errno)) => Box::new(move |_| done(Self::error(errno))),
            Some(Fault::Delay(time)) => {
                let timer = Arc::downgrade(&self.timer);
                Box::new(move |result| {
                    call_at(&timer, Instant::now() + time, Box::new(move || done(result)));
                })
            }
            Some(Fault::HoldRequest) => {
                let inner = self.inner.clone();
                return Self::hold(&self.held, Box::new(move || inner.submit(client, op, done)));
            }
            Some(Fault::HoldReply) => {
                let held = self.held.clone();
                Box::new(move |result| Self::hold(&held, Box::new(move || done(result))))
            }
        };
        self.inner.submit(client, op, done);
    }
}

impl Drop for Faulty {
    /// Nothing stays unanswered.
    fn drop(&mut self) {
        self.set_rule(|_| None);
        while self.release() > 0 {}
    }
}
