//! The lock manager against a naive model: random events, the same effects, the same locks.
//!
//! The model knows extents as sets of blocks, widens a grant block by block, and searches its queue from the start
//! again after each grant. Contention is switched off: its thresholds have tests of their own.

mod model;

use clio_core::target::{DlmHandle, EnqueueFlags, LockMode};
use clio_core::units::{BLOCK_SIZE, ClientId, Extent, Fid};
use clio_dlm::{Counts, Dlm, DlmConfig, Effect, Event, LockInfo};
use model::{BLOCKS, Lock, Model, TIMEOUT_MS, to_mask};
use proptest::prelude::*;
use std::collections::HashMap;

/// A random step; `pick` chooses among the locks ever granted.
#[derive(Clone, Debug)]
enum Step {
    Connect(u64),
    Enqueue { client: u64, fid: usize, extent: Extent, mode: LockMode, try_lock: bool, exact: bool },
    Cancel { pick: prop::sample::Index, thief: Option<u64> },
    Convert { pick: prop::sample::Index, mode: LockMode },
    Prolong { pick: prop::sample::Index },
    Disconnect(u64),
    Pass(u64),
}

fn modes() -> impl Strategy<Value = LockMode> {
    prop_oneof![
        3 => Just(LockMode::Pr),
        3 => Just(LockMode::Pw),
        1 => Just(LockMode::Group(1)),
        1 => Just(LockMode::Group(2)),
        1 => Just(LockMode::Ex),
    ]
}

fn extents() -> impl Strategy<Value = Extent> {
    let top = u64::from(BLOCKS) * BLOCK_SIZE;
    prop_oneof![
        4 => (0..top, 1..=3 * BLOCK_SIZE).prop_map(move |(s, n)| Extent::new(s, (s + n).min(top))),
        1 => (0..top).prop_map(|s| Extent::new(s, Extent::EOF)),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let pick = any::<prop::sample::Index>;
    prop_oneof![
        1 => (0..5u64).prop_map(Step::Connect),
        12 => (0..4u64, 0..2usize, extents(), modes(), prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(client, fid, extent, mode, try_lock, exact)| Step::Enqueue {
                client, fid, extent, mode, try_lock, exact
            }),
        8 => (pick(), prop::option::weighted(0.1, 0..4u64)).prop_map(|(pick, thief)| Step::Cancel { pick, thief }),
        2 => (pick(), modes()).prop_map(|(pick, mode)| Step::Convert { pick, mode }),
        1 => pick().prop_map(|pick| Step::Prolong { pick }),
        1 => (0..4u64).prop_map(Step::Disconnect),
        2 => (0..60u64).prop_map(Step::Pass),
    ]
}

/// Both, and the names that they have for the same lock.
struct Pair {
    dlm: Dlm,
    model: Model,
    requests: u64,
    /// Handles and their requests and clients, in the order of grants.
    names: Vec<(DlmHandle, u64, ClientId)>,
    by_handle: HashMap<DlmHandle, u64>,
}

fn fid(i: usize) -> Fid {
    Fid::new(1, i as u32)
}

impl Pair {
    fn new() -> Self {
        let config = DlmConfig {
            blocking_timeout_ms: TIMEOUT_MS,
            contention_enabled: false,
            contended_locks: usize::MAX,
            contended_conflicts: u32::MAX,
            ..DlmConfig::default()
        };
        let mut pair = Pair {
            dlm: Dlm::new(config),
            model: Model::default(),
            requests: 0,
            names: Vec::new(),
            by_handle: HashMap::new(),
        };
        for client in 0..3 {
            pair.apply(Step::Connect(client));
        }
        pair
    }

    fn apply(&mut self, step: Step) {
        let event = match step {
            Step::Connect(c) => {
                self.model.clients.insert(c);
                Event::Connect { client: ClientId(c) }
            }
            Step::Enqueue { client, fid: f, extent, mode, try_lock, exact } => {
                self.requests += 1;
                let client = ClientId(client);
                let lock = Lock { id: self.requests, client, mode, mask: to_mask(extent), exact, seq: 0, asked: None };
                self.model.enqueue(f, lock, try_lock);
                let flags = EnqueueFlags { try_lock, exact, ..EnqueueFlags::default() };
                Event::Enqueue { client, request: self.requests, fid: fid(f), extent, mode, flags, initial_lvb: None }
            }
            Step::Cancel { pick, thief } => {
                let Some((handle, id, owner)) = self.pick(pick) else { return };
                let client = thief.map_or(owner, ClientId);
                self.model.cancel(client, id);
                Event::Cancel { client, handle }
            }
            Step::Convert { pick, mode } => {
                let Some((handle, id, client)) = self.pick(pick) else { return };
                self.model.convert(client, id, mode);
                Event::Convert { client, handle, mode }
            }
            Step::Prolong { pick } => {
                let Some((handle, id, client)) = self.pick(pick) else { return };
                if let Some((f, i)) = self.model.find(client, id) {
                    let asked = &mut self.model.resources[f].granted[i].asked;
                    *asked = asked.map(|_| self.model.now + TIMEOUT_MS);
                }
                Event::Prolong { client, handle }
            }
            Step::Disconnect(c) => {
                if self.model.clients.remove(&c) {
                    self.model.lose(ClientId(c), false);
                }
                Event::Disconnect { client: ClientId(c) }
            }
            Step::Pass(ms) => {
                self.model.now += ms;
                self.model.tick();
                Event::Tick
            }
        };
        let mut effects = Vec::new();
        self.dlm.step(self.model.now, event, &mut effects);
        self.compare(&event, effects);
        self.check();
    }

    /// Prefers the locks granted last: they are still held more often.
    fn pick(&self, pick: prop::sample::Index) -> Option<(DlmHandle, u64, ClientId)> {
        let recent = &self.names[self.names.len().saturating_sub(8)..];
        (!recent.is_empty()).then(|| recent[pick.index(recent.len())])
    }

    fn compare(&mut self, event: &Event, effects: Vec<Effect>) {
        let expected = std::mem::take(&mut self.model.out);
        let actual: Vec<Effect> = effects.into_iter().map(|e| self.translate(e)).collect();
        assert_eq!(actual, expected, "{event:?}");
    }

    fn translate(&mut self, mut e: Effect) -> Effect {
        match &mut e {
            Effect::Granted { client, request, handle, .. } => {
                assert!(self.names.last().is_none_or(|n| n.0 < *handle), "a handle was used again");
                self.names.push((*handle, *request, *client));
                self.by_handle.insert(*handle, *request);
                *handle = DlmHandle(*request);
            }
            Effect::BlockingAst { handle, .. } | Effect::Converted { handle, .. } => {
                *handle = DlmHandle(self.by_handle[handle]);
            }
            Effect::Evicted { handles, .. } => {
                assert!(handles.is_sorted());
                handles.iter_mut().for_each(|h| *h = DlmHandle(self.by_handle[h]));
            }
            _ => {}
        }
        e
    }

    fn check(&self) {
        let mut counts = Counts { clients: self.model.clients.len(), ..Counts::default() };
        for f in 0..2 {
            let mut infos: Vec<LockInfo> = self.dlm.locks(fid(f)).collect();
            let held: Vec<LockInfo> = infos.iter().copied().filter(|l| l.handle.is_some()).collect();
            for (i, a) in held.iter().enumerate() {
                assert!(self.model.clients.contains(&a.client.0), "a lock without a client");
                let covers = self.dlm.covers(a.client, a.handle.unwrap(), fid(f), a.extent);
                assert_eq!(covers, a.mode != LockMode::Pr);
                for b in &held[..i] {
                    assert!(!a.extent.overlaps(b.extent) || a.mode.compatible(b.mode), "{a:?} {b:?}");
                }
            }
            for l in &mut infos {
                l.handle = l.handle.map(|h| DlmHandle(self.by_handle[&h]));
            }
            assert_eq!(infos, self.model.infos(f));
            counts.resources += usize::from(!infos.is_empty());
            counts.granted += held.len();
            counts.waiting += infos.len() - held.len();
            assert_eq!(self.dlm.lvb_known(fid(f)), !infos.is_empty());
        }
        assert_eq!(self.dlm.counts(), counts);
        assert_eq!(self.dlm.next_deadline(), self.model.asked().map(|a| a.0).min());
    }

    /// Holders that were asked cancel, round by round, until nobody waits.
    fn drain(&mut self) {
        while self.dlm.counts().waiting > 0 {
            let asked: Vec<_> = self.model.asked().map(|(_, l)| l).collect();
            assert!(!asked.is_empty(), "requests wait, but nobody was asked to make room");
            for l in asked {
                let handle = self.names.iter().find(|n| n.1 == l.id).unwrap().0;
                self.model.cancel(l.client, l.id);
                let event = Event::Cancel { client: l.client, handle };
                let mut effects = Vec::new();
                self.dlm.step(self.model.now, event, &mut effects);
                self.compare(&event, effects);
                self.check();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_lock_manager_does_what_the_model_does(steps in prop::collection::vec(steps(), 1..80)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.apply(step);
        }
        pair.drain();
        for client in 0..5 {
            pair.apply(Step::Disconnect(client));
        }
        prop_assert_eq!(pair.dlm.counts(), Counts::default());
    }
}
