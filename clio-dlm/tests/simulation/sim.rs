//! The run itself: clients, the network between, and the lock manager.

mod troubles;

use clio_core::attr::Lvb;
use clio_core::target::{DlmHandle, EnqueueFlags, LockMode};
use clio_core::units::{BLOCK_SIZE, ClientId, Extent, Fid};
use clio_dlm::{Counts, Dlm, DlmConfig, Effect, Event};
use std::collections::{BTreeMap, BTreeSet};
pub use troubles::{Shown, Troubles};

const FID: Fid = Fid::new(3, 3);
const CLIENTS: u64 = 4;
/// The client that dies. It never writes, so that no acknowledged size dies with it.
const MORTAL: ClientId = ClientId(CLIENTS - 1);
const MAX_DELAY_MS: u64 = 40;
/// Longer than any honest client takes.
const TIMEOUT_MS: u64 = 1_000;
const ACTIONS: usize = 120;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

#[derive(Debug)]
enum Message {
    /// To the lock manager; several travel together where their order matters.
    Up(Vec<Event>),
    /// To a client.
    Down(Effect),
    /// A client decides to do something.
    Act(ClientId),
    /// A client gives a lock back, if it still holds it.
    Release(ClientId, DlmHandle),
}

#[derive(Debug)]
struct Held {
    client: ClientId,
    mode: LockMode,
    extent: Extent,
    /// Size written under the lock and not stored yet.
    dirty_size: u64,
}

struct Asked {
    event: Event,
    write: bool,
    /// Largest size that was acknowledged when it was sent.
    at_least: u64,
}

pub struct Sim {
    rng: Rng,
    troubles: Troubles,
    config: DlmConfig,
    dlm: Dlm,
    now: u64,
    sent: u64,
    delivered: u64,
    actions: usize,
    network: BTreeMap<(u64, u64), Message>,
    /// What clients believe to hold: from the receipt of a grant to the sending of a cancel.
    held: BTreeMap<DlmHandle, Held>,
    /// Sizes that were sent with a cancel and may not have arrived: a client knows them until they are stored.
    leaving: BTreeMap<DlmHandle, u64>,
    /// Blocking ASTs that overtook their grants.
    early: BTreeSet<DlmHandle>,
    /// Locks whose blocking AST was lost.
    unheard: BTreeSet<DlmHandle>,
    asked: BTreeMap<u64, Asked>,
    acknowledged_size: u64,
    /// The largest size that was ever acknowledged: more than the above if its writer was evicted.
    largest_size: u64,
    stored_size: u64,
    dead: bool,
    shown: Shown,
}

impl Sim {
    pub fn new(seed: u64, troubles: Troubles) -> Self {
        let config = DlmConfig {
            blocking_timeout_ms: TIMEOUT_MS,
            glimpse_timeout_ms: 300,
            contended_conflicts: 8,
            contention_window_ms: 200,
            limited_growth_bytes: 2 * BLOCK_SIZE,
            ..DlmConfig::default()
        };
        let mut sim = Sim {
            rng: Rng(seed),
            troubles,
            config,
            dlm: Dlm::new(config),
            now: 0,
            sent: 0,
            delivered: 0,
            actions: 0,
            network: BTreeMap::new(),
            held: BTreeMap::new(),
            leaving: BTreeMap::new(),
            early: BTreeSet::new(),
            unheard: BTreeSet::new(),
            asked: BTreeMap::new(),
            acknowledged_size: 0,
            largest_size: 0,
            stored_size: 0,
            dead: false,
            shown: Shown::default(),
        };
        for client in (0..CLIENTS).map(ClientId) {
            sim.serve(Event::Connect { client });
            sim.send(Message::Act(client));
        }
        sim
    }

    fn send(&mut self, message: Message) {
        let at = self.now + 1 + self.rng.below(MAX_DELAY_MS);
        self.sent += 1;
        self.network.insert((at, self.sent), message);
    }

    /// Runs until nothing is left to happen.
    pub fn run(mut self) -> Shown {
        loop {
            let message = self.network.first_key_value().map(|(k, _)| k.0);
            let deadline = self.dlm.next_deadline();
            match (message, deadline) {
                (None, None) => break,
                (Some(at), d) if d.is_none_or(|d| at <= d) => {
                    self.now = at;
                    if let Some((_, m)) = self.network.pop_first() {
                        self.deliver(m);
                    }
                }
                (_, Some(at)) => {
                    self.now = at;
                    self.serve(Event::Tick);
                }
                (Some(_), None) => unreachable!("the first arm takes it"),
            }
        }
        assert!(self.asked.is_empty(), "requests were never answered");
        let counts = self.dlm.counts();
        assert_eq!((counts.waiting, counts.glimpses), (0, 0));
        for client in (0..CLIENTS).map(ClientId) {
            self.serve(Event::Disconnect { client });
        }
        assert_eq!(self.dlm.counts(), Counts::default());
        self.shown
    }

    fn serve(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.dlm.step(self.now, event, &mut effects);
        self.shown.trace.push(format!("{} {event:?} {effects:?}", self.now));
        for e in effects {
            if let Effect::Evicted { client, handles } = &e {
                self.evicted(*client, handles);
                continue;
            }
            self.send(Message::Down(e));
        }
    }

    /// What a storage target does around the lock manager.
    fn store(&mut self, mut event: Event) {
        match &mut event {
            Event::LvbUpdate { lvb, .. } => self.stored_size = self.stored_size.max(lvb.size),
            Event::Enqueue { initial_lvb, .. } if !self.dlm.lvb_known(FID) => {
                *initial_lvb = Some(Lvb { size: self.stored_size, ..Lvb::default() });
            }
            _ => {}
        }
        self.serve(event);
    }

    fn deliver(&mut self, message: Message) {
        self.delivered += 1;
        if self.troubles.restart_after.is_some_and(|n| self.delivered.is_multiple_of(n)) {
            // The first of what is lost; a client's own decisions aren't.
            if let Message::Act(_) = message {
                self.send(message);
            }
            return self.restart();
        }
        match message {
            Message::Up(events) => events.into_iter().for_each(|e| self.store(e)),
            Message::Act(client) => self.act(client),
            Message::Release(client, handle) => self.release(client, handle),
            Message::Down(effect) => self.receive(effect),
        }
    }

    fn act(&mut self, client: ClientId) {
        self.actions += 1;
        if client == MORTAL && self.rng.below(8) == 0 {
            self.dead = true;
        }
        if self.actions > ACTIONS || (client == MORTAL && self.dead) {
            return;
        }
        self.send(Message::Act(client));
        let start = self.rng.below(40) * BLOCK_SIZE;
        let extent = Extent::with_len(start, (1 + self.rng.below(4)) * BLOCK_SIZE);
        let (mode, extent, glimpse) = match self.rng.below(5) {
            0 => (LockMode::Pr, Extent::WHOLE, true),
            1 => (LockMode::Pr, extent, false),
            2 => (LockMode::Group(1), extent, false),
            _ => (LockMode::Pw, extent, false),
        };
        let write = mode.can_write() && client != MORTAL;
        let request = self.sent;
        let flags = EnqueueFlags { glimpse, exact: self.rng.below(4) == 0, ..EnqueueFlags::default() };
        let event = Event::Enqueue { client, request, fid: FID, extent, mode, flags, initial_lvb: None };
        self.asked.insert(request, Asked { event, write, at_least: self.acknowledged_size });
        self.send(Message::Up(vec![event]));
    }

    fn release(&mut self, client: ClientId, handle: DlmHandle) {
        if client == MORTAL && self.dead {
            return;
        }
        if let Some(h) = self.held.remove(&handle) {
            self.leaving.insert(handle, h.dirty_size);
            let lvb = Lvb { size: h.dirty_size, ..Lvb::default() };
            let flush = Event::LvbUpdate { fid: FID, lvb, truncate: false };
            self.send(Message::Up(vec![flush, Event::Cancel { client, handle }]));
        }
    }

    fn receive(&mut self, effect: Effect) {
        if self.loses(&effect) {
            return;
        }
        match effect {
            Effect::Granted { client, request, handle, mode, extent, lvb, blocking } => {
                self.granted(client, request, handle, Held { client, mode, extent, dirty_size: 0 }, lvb);
                if blocking || self.early.remove(&handle) || self.rng.below(6) == 0 {
                    self.send(Message::Release(client, handle));
                }
            }
            Effect::GlimpseAnswer { request, lvb, .. } => {
                let asked = self.asked.remove(&request).expect("answered twice");
                assert!(lvb.size >= asked.at_least, "{} of {} at {}", lvb.size, asked.at_least, self.now);
                assert!(lvb.size <= self.largest_size);
            }
            Effect::Refused { request, .. } => {
                self.asked.remove(&request).expect("answered twice");
            }
            Effect::BlockingAst { client, handle } => {
                if self.held.contains_key(&handle) {
                    self.send(Message::Release(client, handle));
                } else {
                    self.early.insert(handle);
                }
            }
            Effect::GlimpseAst { client, handle, glimpse } => {
                if !(client == MORTAL && self.dead) {
                    let size =
                        self.held.get(&handle).map(|h| h.dirty_size).or_else(|| self.leaving.get(&handle).copied());
                    let lvb = size.map(|size| Lvb { size, ..Lvb::default() });
                    self.send(Message::Up(vec![Event::GlimpseReply { client, handle, glimpse, lvb }]));
                }
            }
            Effect::Converted { .. } | Effect::Evicted { .. } => unreachable!("not asked for, or handled at once"),
        }
    }

    fn granted(&mut self, client: ClientId, request: u64, handle: DlmHandle, mut new: Held, lvb: Lvb) {
        let asked = self.asked.remove(&request).expect("answered twice");
        for (h, o) in &self.held {
            let apart = !o.extent.overlaps(new.extent) || o.mode.compatible(new.mode);
            assert!(apart, "{:?} {new:?} clash with {h:?} {o:?}", handle);
        }
        if new.mode == LockMode::Pr && new.extent == Extent::WHOLE {
            assert!(lvb.size >= asked.at_least, "a read lock on all came with an old size");
        }
        if asked.write && client != MORTAL {
            new.dirty_size = new.extent.start + 1 + self.rng.below(BLOCK_SIZE);
            self.acknowledged_size = self.acknowledged_size.max(new.dirty_size);
            self.largest_size = self.largest_size.max(self.acknowledged_size);
        }
        self.held.insert(handle, new);
    }
}
