//! A failure at each request of the script in turn.

use crate::script::Script;
use clio::Errno;
use clio_core::target::Op;
use clio_targets::wrap::Fault;
use clio_tests::faults::{Kind, World};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

/// What happens from some request on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    /// The request, counted from 0.
    at: usize,
    fault: Fault,
    /// It happens to all later requests of that kind as well, until it is lifted.
    lasts: bool,
}

#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    hit: OnceLock<Kind>,
}

impl Plan {
    fn errno(self) -> Errno {
        match self.fault {
            Fault::Refuse(errno) | Fault::LoseReply(errno) => errno,
            other => unreachable!("{other:?} gives no error"),
        }
    }

    /// Targets say ENOSPC only to what takes space. A client whose cancels or goodbye are never heard would be evicted,
    /// in time: that is another test's matter.
    fn fits(self, kind: Kind) -> bool {
        let takes_space = matches!(kind, Kind::Write | Kind::Punch | Kind::Sync);
        (self.errno() != Errno::ENOSPC || takes_space)
            && !(self.lasts && matches!(kind, Kind::Cancel | Kind::Disconnect))
    }

    fn decide(self, seen: &Seen, op: &Op) -> Option<Fault> {
        let (kind, number) = (Kind::of(op), seen.requests.fetch_add(1, Ordering::SeqCst));
        if number == self.at && self.fits(kind) {
            let _ = seen.hit.set(kind);
            return Some(self.fault);
        }
        (self.lasts && seen.hit.get() == Some(&kind)).then_some(self.fault)
    }

    /// Whether callers may hear of it: not of trouble that passes, unless a disk failed to sync, which is never asked
    /// twice.
    fn is_heard(self, hit: Kind) -> bool {
        self.lasts || self.errno() == Errno::ENOSPC || (hit == Kind::Sync && self.errno() == Errno::EIO)
    }

    /// Whether this errno may come of it.
    fn explains(self, hit: Kind, errno: Errno) -> bool {
        // Targets that don't answer get no stripes.
        errno == self.errno() || (hit == Kind::StatFs && errno == Errno::ENOSPC)
    }
}

/// Runs the script; says which requests it sent, and which kind was hit.
fn run(plan: Plan) -> (Vec<Kind>, Option<Kind>) {
    let world = World::new(3);
    let clients = world.two_clients();
    let seen = Arc::new(Seen::default());
    let counted = seen.clone();
    let (tx, sent) = mpsc::channel();
    world.rule(move |_, op| {
        let _ = tx.send(Kind::of(op));
        plan.decide(&counted, op)
    });
    let failing = || seen.hit.get().is_some_and(|kind| plan.is_heard(*kind));
    let excuse = |errno| seen.hit.get().is_some_and(|kind| plan.explains(*kind, errno));
    let mut script = Script::new(clients, &failing, &excuse);
    script.run();
    world.heal();
    world.end(script.finish());
    (sent.try_iter().collect(), seen.hit.get().copied())
}

/// Runs the script with a failure at each request that it suits in turn, and checks that all of `kinds` were met.
fn sweep(fault: Fault, lasts: bool, kinds: &[Kind]) {
    let (requests, _) = run(Plan { at: usize::MAX, fault, lasts });
    let mut hit = BTreeSet::new();
    let plans = (0..requests.len()).map(|at| Plan { at, fault, lasts });
    for plan in plans.filter(|plan| plan.fits(requests[plan.at])) {
        match std::panic::catch_unwind(|| run(plan)) {
            Ok((_, kind)) => hit.extend(kind.map(|k| format!("{k:?}"))),
            Err(_) => panic!("of {} requests: {plan:?}", requests.len()),
        }
    }
    for kind in kinds {
        assert!(hit.contains(&format!("{kind:?}")), "no {kind:?} was made to fail, but only {hit:?}");
    }
}

/// What the script sends.
const ALL: [Kind; 9] = [
    Kind::Destroy,
    Kind::Read,
    Kind::Write,
    Kind::Punch,
    Kind::Sync,
    Kind::Seek,
    Kind::Enqueue,
    Kind::Glimpse,
    Kind::Cancel,
];

#[test]
fn trouble_that_passes_is_not_noticed() {
    sweep(Fault::Refuse(Errno::EAGAIN), false, &ALL);
}

#[test]
fn one_refusal_is_not_noticed() {
    sweep(Fault::Refuse(Errno::EIO), false, &ALL);
}

#[test]
fn one_lost_reply_is_not_noticed() {
    sweep(Fault::LoseReply(Errno::EIO), false, &ALL);
}

#[test]
fn a_lasting_error_is_told_and_ends() {
    sweep(Fault::Refuse(Errno::EIO), true, &ALL[..8]);
}

#[test]
fn replies_that_stay_away_are_told_of_and_end() {
    sweep(Fault::LoseReply(Errno::EIO), true, &ALL[..8]);
}

#[test]
fn a_full_target_is_told_of() {
    sweep(Fault::Refuse(Errno::ENOSPC), false, &[Kind::Write, Kind::Punch, Kind::Sync]);
}
