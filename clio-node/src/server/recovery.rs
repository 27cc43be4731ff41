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

/// The clients of the daemon before, and those that may come back to this one.
#[derive(Default)]
pub(super) struct Recovery {
    /// Those that are waited for, and have not come.
    absent: HashMap<u64, Known>,
    /// Those that are about to take up what they held.
    at_it: HashSet<u64>,
    /// Those that are done, and who is to be told when all are.
    done: Vec<(Arc<Outbox>, u64)>,
    /// Until when somebody is waited for, if anybody is.
    deadline: Option<Instant>,
    /// Those that may come back, and hold no locks.
    idle: HashMap<u64, Known>,
    /// Those of them that have come, and are about to take up what they held.
    idle_at_it: HashSet<u64>,
    /// Files without a name are yet to be reclaimed: when nobody can come any more who had one open.
    is_reclaim_due: bool,
}

impl Recovery {
    /// Waits for those of `left` that live. Returns it with the tokens of those that don't.
    pub(super) fn new(left: Vec<Known>) -> (Recovery, Vec<u64>) {
        let (alive, dead): (Vec<_>, Vec<_>) = left.into_iter().partition(Known::is_alive);
        let (idle, absent): (Vec<_>, Vec<_>) = alive.into_iter().partition(|k| k.is_idle);
        let by_token = |all: Vec<Known>| all.into_iter().map(|k| (k.token, k)).collect::<HashMap<_, _>>();
        let (idle, absent) = (by_token(idle), by_token(absent));
        let deadline = (!absent.is_empty()).then(|| Instant::now() + PATIENCE);
        let recovery = Recovery { absent, deadline, idle, is_reclaim_due: true, ..Recovery::default() };
        (recovery, dead.iter().map(|k| k.token).collect())
    }

    /// Whether somebody is waited for.
    pub(super) fn is_on(&self) -> bool {
        self.deadline.is_some()
    }

    /// Client `token` has come; whether it may take up what it held.
    pub(super) fn came(&mut self, token: u64) -> bool {
        if self.absent.remove(&token).is_some() {
            self.at_it.insert(token);
        } else if self.idle.remove(&token).is_some() {
            self.idle_at_it.insert(token);
        } else {
            return false;
        }
        true
    }

    /// Client `token` has taken up what it held. Its request `id` is answered now if this returns true, or else once all
    /// have.
    pub(super) fn recovered(&mut self, token: u64, outbox: &Arc<Outbox>, id: u64) -> bool {
        self.left(token);
        if self.is_on() {
            self.done.push((outbox.clone(), id));
        }
        !self.is_on()
    }

    /// Client `token` has gone.
    pub(super) fn left(&mut self, token: u64) {
        self.at_it.remove(&token);
        self.idle_at_it.remove(&token);
    }

    /// A client is left without locks, and may come back.
    pub(super) fn may_come_back(&mut self, known: Known) {
        self.idle.insert(known.token, known);
    }

    /// Looks who is still there to be waited for, or to come back.
    pub(super) fn look(&mut self) -> Look {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late {
            let absent = self.absent.len();
            tracing::warn!(target: "clio::node", absent, "clients didn't come back: their locks are lost");
            self.at_it.clear();
        }
        let absent = self.absent.values().filter(|k| is_late || !k.is_alive());
        let gone: Vec<u64> = absent.chain(self.idle.values().filter(|k| !k.is_alive())).map(|k| k.token).collect();
        self.absent.retain(|token, _| !gone.contains(token));
        self.idle.retain(|token, _| !gone.contains(token));
        let is_over = self.is_on() && self.absent.is_empty() && self.at_it.is_empty();
        if is_over {
            self.deadline = None;
        }
        let nobody_comes = !self.is_on() && self.idle.is_empty() && self.idle_at_it.is_empty();
        let reclaim = nobody_comes && std::mem::take(&mut self.is_reclaim_due);
        Look { gone, over: is_over.then(|| std::mem::take(&mut self.done)), reclaim }
    }
}

/// What a look at those that are waited for came to.
#[derive(Default)]
pub(super) struct Look {
    /// The tokens of those that are given up.
    pub(super) gone: Vec<u64>,
    /// Nobody is waited for any more, and these requests are to be answered.
    pub(super) over: Option<Vec<(Arc<Outbox>, u64)>>,
    /// Files without a name that nobody has open are to be reclaimed now.
    pub(super) reclaim: bool,
}
