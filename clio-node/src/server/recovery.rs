//! After a daemon's death: its clients take up with this one what they held, and all others wait.
//!
//! Locks that were held together don't conflict, so each client asks for its own at once; whoever is new could be granted
//! what an old client comes for. So new clients are not listened to until every old one has said that it is done, has gone,
//! or has let too much time pass. Who is in the middle of it then is cut off first: it must take up nothing beside those
//! who are served by then.

use super::outbox::Outbox;
use super::registry::{Known, Standing};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long clients are waited for that live, but don't come, or don't get done: they may be stopped. They lose their locks
/// then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks at whether they live.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The clients of the daemon before, and those that may come back to this one.
#[derive(Default)]
pub(super) struct Recovery {
    /// Those that are waited for, and have not come.
    absent: HashMap<u64, Known>,
    /// Those that are about to take up what they held.
    at_it: HashMap<u64, Known>,
    /// Those that are done, and who is to be told when all are.
    done: Vec<(Arc<Outbox>, u64)>,
    /// Until when somebody is waited for, if anybody is.
    deadline: Option<Instant>,
    /// Those that have lost their locks, and may come back to hear of that.
    late: HashMap<u64, Known>,
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
        let all = |standing| {
            let these = alive.iter().filter(|k| k.standing == standing);
            these.map(|k| (k.token, *k)).collect::<HashMap<_, _>>()
        };
        let [absent, idle, late] = [Standing::Holder, Standing::Idle, Standing::Lost].map(all);
        let deadline = (!absent.is_empty()).then(|| Instant::now() + PATIENCE);
        let recovery = Recovery { absent, deadline, idle, late, is_reclaim_due: true, ..Recovery::default() };
        (recovery, dead.iter().map(|k| k.token).collect())
    }

    /// Has `patience` with those that are waited for, from now on.
    pub(super) fn has_patience(&mut self, patience: Duration) {
        self.deadline = self.deadline.map(|_| Instant::now() + patience);
    }

    /// Whether somebody is waited for.
    pub(super) fn is_on(&self) -> bool {
        self.deadline.is_some()
    }

    /// A client that may come back.
    pub(super) fn get(&self, token: u64) -> Option<&Known> {
        [&self.absent, &self.late, &self.idle].into_iter().find_map(|all| all.get(&token))
    }

    /// Client `token` has come; whether it may take up what it held.
    pub(super) fn came(&mut self, token: u64) -> bool {
        if let Some(known) = self.absent.remove(&token) {
            self.at_it.insert(token, known);
        } else if self.idle.remove(&token).is_some() {
            self.idle_at_it.insert(token);
        } else {
            self.late.remove(&token);
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

    /// A client has lost its locks, and may come back.
    pub(super) fn lost(&mut self, known: Known) {
        self.late.insert(known.token, known);
    }

    /// Looks who is still there to be waited for, or to come back.
    pub(super) fn look(&mut self) -> Look {
        let (mut lost, mut cut) = (Vec::new(), Vec::new());
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let (absent, slow) = (self.absent.len(), self.at_it.len());
            tracing::warn!(target: "clio::node", absent, slow, "clients didn't come back in time: their locks are lost");
            cut.extend(self.at_it.keys().copied());
            lost.extend(self.absent.drain().chain(self.at_it.drain()).map(|(_, k)| k.standing(Standing::Lost)));
            self.late.extend(lost.iter().map(|k| (k.token, *k)));
        }
        let mut gone = Vec::new();
        for all in [&mut self.absent, &mut self.late, &mut self.idle] {
            all.retain(|token, known| {
                let is_alive = known.is_alive();
                if !is_alive {
                    gone.push(*token);
                }
                is_alive
            });
        }
        let is_over = self.is_on() && self.absent.is_empty() && self.at_it.is_empty();
        if is_over {
            self.deadline = None;
        }
        let nobody_comes = !self.is_on() && self.late.is_empty() && self.idle.is_empty() && self.idle_at_it.is_empty();
        let reclaim = nobody_comes && std::mem::take(&mut self.is_reclaim_due);
        Look { gone, lost, cut, over: is_over.then(|| std::mem::take(&mut self.done)), reclaim }
    }
}

/// What a look at those that are waited for came to.
#[derive(Default)]
pub(super) struct Look {
    /// The tokens of those whose processes are no more.
    pub(super) gone: Vec<u64>,
    /// Those that were waited for too long.
    pub(super) lost: Vec<Known>,
    /// The tokens of those of them that are about to take up what they held: to be cut off before anybody else is served.
    pub(super) cut: Vec<u64>,
    /// Nobody is waited for any more, and these requests are to be answered.
    pub(super) over: Option<Vec<(Arc<Outbox>, u64)>>,
    /// Files without a name that nobody has open are to be reclaimed now.
    pub(super) reclaim: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(token: u64) -> Known {
        Known::of(token, std::process::id())
    }

    #[test]
    fn who_is_at_it_when_patience_ends_is_cut_off_and_comes_back_without_locks() {
        let (mut recovery, dead) = Recovery::new(vec![holder(1), holder(2), holder(3)]);
        assert!(dead.is_empty() && recovery.came(1) && recovery.came(2));
        recovery.left(2);
        let look = recovery.look();
        assert!(look.cut.is_empty() && look.lost.is_empty() && look.over.is_none(), "there is time yet");
        recovery.has_patience(Duration::ZERO);
        let mut look = recovery.look();
        look.lost.sort_by_key(|k| k.token);
        let lost: Vec<_> = look.lost.iter().map(|k| (k.token, k.standing)).collect();
        assert_eq!(lost, [(1, Standing::Lost), (3, Standing::Lost)]);
        assert_eq!(look.cut, [1], "it alone has a session");
        assert!(look.over.is_some() && !look.reclaim, "the two may come yet, and have files open");
        assert!(!recovery.is_on() && !recovery.came(1) && !recovery.came(3), "they have lost everything");
        assert!(recovery.look().reclaim);
    }
}
