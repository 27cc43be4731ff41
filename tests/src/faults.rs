//! Clients over targets in memory that fail as told.

use clio::config::{Config, Source};
use clio::{Client, Stats};
use clio_core::target::{Op, Target};
use clio_core::units::TargetIndex;
use clio_targets::wrap::{Fault, Faulty};
use clio_targets::{MemOptions, MemTarget};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "as in `Op`")]
pub enum Kind {
    Create,
    Destroy,
    Read,
    Write,
    Punch,
    GetAttr,
    SetAttr,
    Sync,
    Seek,
    StatFs,
    Enqueue,
    Glimpse,
    Cancel,
    ReturnGrant,
    Disconnect,
}

impl Kind {
    /// The kind of `op`.
    pub fn of(op: &Op) -> Kind {
        match op {
            Op::Create(_) => Kind::Create,
            Op::Destroy(_) => Kind::Destroy,
            Op::Read { .. } => Kind::Read,
            Op::Write { .. } => Kind::Write,
            Op::Punch { .. } => Kind::Punch,
            Op::GetAttr(_) => Kind::GetAttr,
            Op::SetAttr { .. } => Kind::SetAttr,
            Op::Sync(_) => Kind::Sync,
            Op::Seek { .. } => Kind::Seek,
            Op::StatFs => Kind::StatFs,
            Op::Enqueue { flags, .. } if flags.glimpse => Kind::Glimpse,
            Op::Enqueue { .. } => Kind::Enqueue,
            Op::Cancel(_) => Kind::Cancel,
            Op::ReturnGrant { .. } => Kind::ReturnGrant,
            Op::Disconnect => Kind::Disconnect,
        }
    }
}

/// Targets in memory behind [`Faulty`], and settings for quick tests: short resends, small transfers, write-out only
/// when somebody asks.
pub struct World {
    targets: Vec<Arc<MemTarget>>,
    faulty: Vec<Arc<Faulty>>,
    config: Config,
}

impl World {
    /// One target for each capacity, in bytes.
    pub fn with_capacities(capacities: &[u64]) -> World {
        let make = |(i, capacity): (usize, &u64)| {
            let options = MemOptions { index: TargetIndex(i as u16), capacity: *capacity, ..MemOptions::default() };
            Arc::new(MemTarget::in_memory(options))
        };
        let targets: Vec<_> = capacities.iter().enumerate().map(make).collect();
        let faulty = targets.iter().map(|t| Arc::new(Faulty::new(t.clone()))).collect();
        let mut config = Config::default();
        let quick = [("resends", 2), ("resend_ms", 1), ("max_pages_per_rpc", 16), ("writeback_age_ms", 3_600_000)];
        let small = [("cache_mb", 64), ("max_dirty_mb", 32), ("writeback_lag_ms", 0)];
        for (name, value) in quick.into_iter().chain(small) {
            config.set(name, &value.to_string(), Source::Given).expect("setting");
        }
        World { targets, faulty, config }
    }

    /// `count` targets with room for everything.
    pub fn new(count: usize) -> World {
        Self::with_capacities(&vec![1 << 40; count])
    }

    /// The first client, which makes the store's names; others are its [`Client::second_client`].
    pub fn client(&self) -> Client {
        let targets = self.faulty.iter().map(|t| t.clone() as Arc<dyn Target>).collect();
        Client::over_targets(targets, self.config.clone()).expect("client")
    }

    /// Two clients of one store.
    pub fn two_clients(&self) -> [Client; 2] {
        let first = self.client();
        let second = first.second_client().expect("client");
        [first, second]
    }

    /// From now on `rule` decides about the requests to all targets. It must not take ranked locks.
    pub fn rule(&self, rule: impl Fn(usize, &Op) -> Option<Fault> + Send + Sync + 'static) {
        let rule = Arc::new(rule);
        for (i, target) in self.faulty.iter().enumerate() {
            let rule = rule.clone();
            target.set_rule(move |op| rule(i, op));
        }
    }

    /// From now on `fault` happens to every request of `kind`.
    pub fn fail(&self, kind: Kind, fault: Fault) {
        self.rule(move |_, op| (Kind::of(op) == kind).then_some(fault));
    }

    /// No more faults, and nothing is held any longer.
    pub fn heal(&self) {
        self.rule(|_, _| None);
        self.release();
    }

    /// Lets go of what is held at all targets; returns how much that was.
    pub fn release(&self) -> usize {
        self.faulty.iter().map(|t| t.release()).sum()
    }

    /// Requests and replies held.
    pub fn held(&self) -> usize {
        self.faulty.iter().map(|t| t.held()).sum()
    }

    /// Heals when dropped: so that no thread waits forever for what a test that failed has held.
    pub fn heal_at_end(&self) -> HealAtEnd<'_> {
        HealAtEnd(self)
    }

    /// Releases what is held, and what is being held meanwhile, until `done`.
    pub fn release_until(&self, done: impl Fn() -> bool) {
        eventually("all is released", || {
            self.release();
            done()
        });
    }

    /// A target itself, past the faults.
    pub fn target(&self, i: usize) -> &MemTarget {
        &self.targets[i]
    }

    /// Asserts that the clients have the grant that the targets have promised, and no more.
    fn grants_agree(&self, clients: &[Client]) {
        for (i, target) in self.targets.iter().enumerate() {
            let had: u64 = clients.iter().map(|c| c.stats().targets[i].grant_bytes).sum();
            assert_eq!(had, target.grants().given, "grant at target {i}: what clients have, and what was promised");
        }
    }

    /// Ends the clients, whose files must be closed, and checks that the targets are left with nothing of theirs.
    pub fn end<const N: usize>(self, clients: [Client; N]) {
        for client in &clients {
            client.sync().expect("sync");
            idle(client);
        }
        self.grants_agree(&clients);
        drop(clients);
        for target in &self.targets {
            let (grants, locks) = (target.grants(), target.lock_counts());
            assert_eq!((grants.given, grants.held.len()), (0, 0), "grant of clients that went");
            assert_eq!((locks.granted, locks.waiting, locks.glimpses), (0, 0, 0), "locks of clients that went");
        }
    }
}

/// See [`World::heal_at_end`].
pub struct HealAtEnd<'a>(&'a World);

impl Drop for HealAtEnd<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

/// Asserts that the client's books are in order and nothing of it is dirty.
pub fn idle(client: &Client) {
    client.check_invariants().expect("the books are in order");
    assert_eq!(dirty(&client.stats()), 0, "dirty bytes are left");
}

/// Bytes dirty at all targets.
pub fn dirty(stats: &Stats) -> u64 {
    stats.targets.iter().map(|t| t.dirty_bytes).sum()
}

/// Waits for something that is bound to happen.
pub fn eventually(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
