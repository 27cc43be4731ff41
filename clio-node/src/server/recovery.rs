//! After a daemon's death: its clients take up with this one what they held, and all others wait.
//!
//! Locks that were held together don't conflict, so each client asks for its own at once; whoever is new could be granted
//! what an old client comes for. So new clients are not listened to until every old one has said that it is done, has gone,
//! or has let too much time pass.

use super::outbox::Outbox;
use super::registry::Known;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long clients are waited for that live, but don't come: they may be stopped. They lose their locks then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks at whether they live.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The clients that are waited for.
#[derive(Default)]
pub(super) struct Recovery {
    /// Those that have not come.
    absent: HashMap<u64, Known>,
    /// Those that are about to take up what they held.
    at_it: HashSet<u64>,
    /// Those that are done, and who is to be told when all are.
    done: Vec<(Arc<Outbox>, u64)>,
    deadline: Option<Instant>,
}

impl Recovery {
    /// Waits for those of `left` that live. Returns it with the tokens of the others.
    pub(super) fn new(left: Vec<Known>) -> (Recovery, Vec<u64>) {
        let (alive, dead): (Vec<_>, Vec<_>) = left.into_iter().partition(Known::is_alive);
        let absent: HashMap<_, _> = alive.into_iter().map(|k| (k.token, k)).collect();
        let deadline = (!absent.is_empty()).then(|| Instant::now() + PATIENCE);
        (Recovery { absent, deadline, ..Recovery::default() }, dead.iter().map(|k| k.token).collect())
    }

    /// Whether somebody is waited for.
    pub(super) fn is_on(&self) -> bool {
        self.deadline.is_some()
    }

    /// Client `token` has come; whether it is awaited.
    pub(super) fn came(&mut self, token: u64) -> bool {
        let is_awaited = self.absent.remove(&token).is_some();
        if is_awaited {
            self.at_it.insert(token);
        }
        is_awaited
    }

    /// Client `token` has taken up what it held. Its request `id` is answered now if this returns true, or else once all
    /// have.
    pub(super) fn recovered(&mut self, token: u64, outbox: &Arc<Outbox>, id: u64) -> bool {
        self.at_it.remove(&token);
        if self.is_on() {
            self.done.push((outbox.clone(), id));
        }
        !self.is_on()
    }

    /// Client `token` has gone.
    pub(super) fn left(&mut self, token: u64) {
        self.at_it.remove(&token);
    }

    /// Looks who is still to be waited for.
    pub(super) fn look(&mut self) -> Look {
        let Some(deadline) = self.deadline else { return Look::default() };
        let is_late = Instant::now() >= deadline;
        if is_late {
            let absent = self.absent.len();
            tracing::warn!(target: "clio::node", absent, "clients didn't come back: their locks are lost");
            self.at_it.clear();
        }
        let gone: Vec<u64> = self.absent.values().filter(|k| is_late || !k.is_alive()).map(|k| k.token).collect();
        self.absent.retain(|token, _| !gone.contains(token));
        let is_over = self.absent.is_empty() && self.at_it.is_empty();
        if is_over {
            self.deadline = None;
        }
        Look { gone, over: is_over.then(|| std::mem::take(&mut self.done)) }
    }
}

/// What a look at those that are waited for came to.
#[derive(Default)]
pub(super) struct Look {
    /// The tokens of those that are given up.
    pub(super) gone: Vec<u64>,
    /// It is over now, and these requests are to be answered.
    pub(super) over: Option<Vec<(Arc<Outbox>, u64)>>,
}
