//! Clients and daemons that are killed at any moment while they work, again and again: what was acknowledged is there.
//!
//! Each client writes a file of its own, appends to a file that all share, and changes names of its own. It says what it is
//! about to do, and that it is done. A client that is there throughout looks at all of it after each round.

use crate::history::{Event, What};
use crate::rng::{self, Rng};
use crate::store::{Process, Store, signal};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Clients that work, and are killed.
const CLIENTS: usize = 3;
/// What a client is about to do in a round.
const OPERATIONS: u64 = 100;
/// Rounds with one store; then it is checked as a whole.
const ROUNDS_PER_STORE: u64 = 50;
/// Rounds with one shared file.
const ROUNDS_PER_LOG: u64 = 10;
/// Kills come up to so many microseconds after the work began.
const LIFE_US: u64 = 40_000;

fn rounds() -> u64 {
    match std::env::var("TEST_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("TEST_ROUNDS is a number"),
        Err(_) if std::env::var_os("TEST_FULL").is_some() => 3000,
        Err(_) => 300,
    }
}

/// What is known of one client.
#[derive(Default)]
struct Known {
    /// What each slot may hold if its writer dies: the first is settled, or synced. True where the write has returned.
    slots: BTreeMap<u64, Vec<(u64, bool)>>,
    /// Names, and those there are if what was under way has been done.
    names: [BTreeSet<String>; 2],
    /// Appends that have returned in this round, by their stamps, with their slots, and whether they are synced.
    appended: BTreeMap<u64, (u64, bool)>,
    /// The append under way.
    appending: Option<u64>,
}

impl Known {
    /// Follows a line of what the client said.
    fn follow(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match (words[0], words[1]) {
            ("try", "write") => {
                self.slots.entry(number(2)).or_insert_with(|| vec![(0, true)]).push((number(3), false));
            }
            ("ack", "write") => self.slots.get_mut(&number(2)).expect("it was tried").last_mut().expect("one").1 = true,
            ("ack", "sync") => {
                self.slots.values_mut().for_each(|held| drop(held.drain(..held.len() - 1)));
                self.appended.values_mut().for_each(|(_, synced)| *synced = true);
            }
            ("try", "append") => self.appending = Some(number(2)),
            ("ack", "append") => {
                self.appending = None;
                self.appended.insert(number(3), (number(2), false));
            }
            ("try", "make") => _ = self.names[1].insert(words[2].into()),
            ("try", "rename") => {
                self.names[1].remove(words[2]);
                self.names[1].insert(words[3].into());
            }
            ("try", "remove") => _ = self.names[1].remove(words[2]),
            ("ack", "names") => self.names[0] = self.names[1].clone(),
            _ => panic!("{line}"),
        }
    }
}

/// A store with its clients, and one that looks.
struct World {
    store: Store,
    clients: Vec<Process>,
    looker: Process,
    known: Vec<Known>,
    /// What the shared file has held at the end of a round.
    log: BTreeMap<u64, u64>,
    /// Clients that were killed, and those of them that were at work.
    killed: [u64; 2],
}

fn slots(look: &str, what: &str) -> BTreeMap<u64, u64> {
    let events = look.strip_prefix("events").unwrap_or_else(|| panic!("{what}: {look}")).split_whitespace();
    let read = |event: Event| match event.what {
        What::Read { slot, stamp: Some(stamp) } => Some((slot, stamp)),
        _ => None,
    };
    events.map(Event::parse).filter_map(read).collect()
}

impl World {
    fn new() -> World {
        let store = Store::new();
        let mut looker = store.process();
        (0..CLIENTS).for_each(|c| looker.tell(&format!("mkdir /n{c}")));
        let clients = (0..CLIENTS).map(|_| store.process()).collect();
        let known = (0..CLIENTS).map(|_| Known::default()).collect();
        World { store, clients, looker, known, log: BTreeMap::new(), killed: [0; 2] }
    }

    fn round(&mut self, round: u64, seed: u64) {
        let mut rng = Rng::new(seed);
        let (kills_daemon, kills_client) = [(true, false), (false, true), (true, true)][rng.below(3) as usize];
        let victim = rng.below(CLIENTS as u64) as usize;
        let client_first = rng.below(2) == 0;
        let what = format!("daemon: {kills_daemon}, client {victim}: {kills_client}, TEST_SEED={seed}");
        let log = format!("/log{}", round / ROUNDS_PER_LOG);
        if round.is_multiple_of(ROUNDS_PER_LOG) {
            self.log.clear();
        }
        let daemon = loop {
            if let Some(daemon) = self.store.daemon() {
                break daemon;
            }
        };
        for (c, client) in self.clients.iter_mut().enumerate() {
            client.tell(&format!("open /w{c} wide"));
            client.tell(&format!("open {log} append wide"));
            let stamps = ((c as u64 + 1) << 40) + (round << 8);
            client.begin(&format!("work {c} {log} {} {OPERATIONS} {stamps}", seed ^ stamps));
        }
        std::thread::sleep(Duration::from_micros(rng.below(LIFE_US)));
        for client in [client_first, !client_first] {
            if client && kills_client {
                signal(self.clients[victim].pid(), Signal::KILL);
            } else if !client && kills_daemon {
                signal(daemon, Signal::KILL);
            }
        }
        for (c, client) in self.clients.iter_mut().enumerate() {
            let (lines, answer) = client.lines();
            lines.iter().for_each(|line| self.known[c].follow(line));
            let killed = kills_client && c == victim;
            self.killed[0] += u64::from(killed);
            self.killed[1] += u64::from(answer.is_none());
            // It may have been done before it was killed.
            assert!(answer.as_deref() == Some("ok") || (killed && answer.is_none()), "{what}: client {c}: {answer:?}");
        }
        // The memory of a client that dies with its daemon is nobody's: what it had synced is there.
        self.look((kills_client && kills_daemon).then_some(victim), &log, &what);
        if kills_client {
            self.clients[victim] = self.store.process();
        }
    }

    /// Looks at all; client `lost` may have lost what it had not synced.
    fn look(&mut self, lost: Option<usize>, log: &str, what: &str) {
        self.looker.tell(&format!("open {log} wide"));
        let found_log = slots(&self.looker.ask(&format!("look {log}")), what);
        for (c, known) in self.known.iter_mut().enumerate() {
            let keeps = lost != Some(c);
            self.looker.tell(&format!("open /w{c} wide"));
            let found = slots(&self.looker.ask(&format!("look /w{c}")), what);
            for (slot, held) in &mut known.slots {
                let from = if keeps { held.iter().rposition(|(_, acked)| *acked).expect("one is settled") } else { 0 };
                let is = found.get(slot).copied().unwrap_or(0);
                let may = &held[from..];
                assert!(
                    may.iter().any(|(stamp, _)| *stamp == is),
                    "{what}: /w{c}, slot {slot}: {is:x}, not of {may:x?}"
                );
                *held = vec![(is, true)];
            }
            let listed = self.looker.ask(&format!("list /n{c}"));
            let names: BTreeSet<_> = listed.split_whitespace().map(String::from).collect();
            assert!(known.names.contains(&names), "{what}: /n{c}: {names:?}, not of {:?}", known.names);
            known.names = [names.clone(), names];
            for (stamp, (slot, synced)) in &known.appended {
                if keeps || *synced {
                    assert_eq!(found_log.get(slot), Some(stamp), "{what}: {log}, client {c}, slot {slot}");
                }
            }
        }
        for (slot, stamp) in &self.log {
            assert_eq!(found_log.get(slot), Some(stamp), "{what}: {log}, slot {slot} was seen before");
        }
        let mut once = BTreeSet::new();
        for (slot, stamp) in found_log.into_iter().filter(|(_, stamp)| *stamp != 0) {
            assert!(once.insert(stamp), "{what}: {log}: {stamp:x} is there twice");
            let is_new = self.known.iter().any(|k| k.appending == Some(stamp) || k.appended.contains_key(&stamp));
            assert!(is_new || self.log.contains_key(&slot), "{what}: {log}, slot {slot}: nobody wrote {stamp:x}");
            self.log.insert(slot, stamp);
        }
        for known in &mut self.known {
            known.appended.clear();
            known.appending = None;
        }
    }

    /// The store as a whole, when nobody has it open any more.
    fn check(self) {
        drop((self.clients, self.looker));
        self.store.clio(&["shutdown"]);
        let client = loop {
            match clio::Client::open(&format!("dir:{}", self.store.path().display())) {
                // The daemon is just going.
                Err(e) if e.errno() == clio::Errno::EBUSY => std::thread::yield_now(),
                client => break client.expect("open"),
            }
        };
        for repair in [false, true] {
            let report = client.check(repair).expect("check");
            // A kill between two steps leaves objects that no file owns, or not yet.
            let bad: Vec<_> = report.findings.iter().filter(|f| !f.ends_with("belongs to no file")).collect();
            assert!(bad.is_empty(), "{bad:?}");
        }
        assert!(client.check(false).expect("check").is_clean());
    }
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let (first, rounds) = (rng::seed(1), rounds());
    let (mut done, mut killed) = (0, [0; 2]);
    while done < rounds {
        let mut world = World::new();
        let here = ROUNDS_PER_STORE.min(rounds - done);
        (0..here).for_each(|round| world.round(round, first + done + round));
        killed = [killed[0] + world.killed[0], killed[1] + world.killed[1]];
        world.check();
        done += here;
    }
    println!("{rounds} rounds from seed {first}: {} clients killed, {} of them at work", killed[0], killed[1]);
    assert!(killed[1] * 2 >= killed[0], "clients were done too soon: {killed:?}");
}
