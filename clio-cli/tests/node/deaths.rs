//! Processes that die.

use crate::store::{Store, signal};
use rustix::process::Signal;

#[test]
fn what_a_killed_process_had_synced_is_there_and_its_locks_are_not() {
    let store = Store::new();
    let [mut dies, mut lives] = store.processes();
    dies.tell("open /f wide");
    lives.tell("open /f");
    for round in 1..=20u32 {
        dies.tell(&format!("write /f 0 300000 {round}"));
        dies.tell("sync /f");
        // It holds a write lock on all of it, in the middle of more.
        dies.begin("append /f 1000 99 1000000");
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round % 7)));
        dies.kill();
        assert_eq!(lives.ask("read /f 0 300000"), format!("300000x{round}"));
        lives.tell("truncate /f 300000");
        dies = store.process();
        dies.tell("open /f wide");
    }
}

/// Nothing is synced here. What a write has returned for is there, to the byte, whoever reads it next; of a write that was
/// under way, any part may be.
#[test]
fn what_a_killed_process_had_written_is_there() {
    let store = Store::new();
    let [mut dies, mut lives] = store.processes();
    dies.tell("open /f wide");
    lives.tell("open /f");
    let mut random = Random(0x5eed);
    let mut model: Vec<u8> = Vec::new();
    for round in 1..=40u8 {
        for _ in 0..random.below(60) {
            let (at, len) = match random.below(4) {
                // In parts of blocks, some of which touch.
                0 => (random.below(40) * 100, 100 + random.below(200)),
                1 => (random.below(300_000), 1 + random.below(20)),
                2 => (random.below(70) * 4096, 4096),
                _ => (random.below(200_000), 1 + random.below(150_000)),
            };
            if random.below(12) == 0 {
                let size = random.below(300_000);
                dies.tell(&format!("truncate /f {size}"));
                model.resize(size, 0);
                continue;
            }
            dies.tell(&format!("write /f {at} {len} {round}"));
            model.resize(model.len().max(at + len), 0);
            model[at..at + len].fill(round);
        }
        let last = (random.below(200_000), 1 + random.below(100_000), 200 + round % 50);
        let is_torn = random.below(2) == 0;
        if is_torn {
            dies.begin(&format!("write /f {} {} {}", last.0, last.1, last.2));
            std::thread::sleep(std::time::Duration::from_micros(random.below(600) as u64));
        }
        dies.kill();
        let size: usize = lives.ask("size /f").parse().expect("a size");
        let found = expand(&lives.ask(&format!("read /f 0 {size}")));
        assert_eq!(found.len(), size);
        assert!(size >= model.len() && (is_torn || size == model.len()), "round {round}: {size}, not {}", model.len());
        for (i, byte) in found.iter().enumerate() {
            let before = model.get(i).copied().unwrap_or(0);
            let in_last = is_torn && (last.0..last.0 + last.1).contains(&i);
            assert!(*byte == before || (in_last && *byte == last.2), "round {round}: byte {i} is {byte}, not {before}");
        }
        model = found;
        dies = store.process();
        dies.tell("open /f wide");
    }
}

/// A process that dies with a lot of small files that it has not closed: more than there are records of what is dirty.
#[test]
fn what_a_killed_process_had_written_to_many_files_is_there() {
    let store = Store::new();
    let [mut dies, mut lives] = store.processes();
    for n in 0..4200 {
        dies.tell(&format!("open /{n}"));
        dies.tell(&format!("write /{n} {} 5000 {}", n * 10, n % 200 + 1));
    }
    dies.tell("unlink /4199");
    dies.kill();
    for n in 0..4199 {
        lives.tell(&format!("open /{n}"));
        assert_eq!(lives.ask(&format!("read /{n} {} 6000", n * 10)), format!("5000x{}", n % 200 + 1));
    }
    drop(lives);
    assert!(store.clio(&["shutdown"]).status.success());
    let client = store.open_folder();
    let report = client.check(false).expect("check");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.objects, 4199, "the one without a name is gone");
}

/// A small generator, so that a failure can be had again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// The bytes that a process has read, from the runs that it tells.
fn expand(runs: &str) -> Vec<u8> {
    let run = |run: &str| {
        let (count, value) = run.split_once('x').expect("a run");
        std::iter::repeat_n(value.parse().expect("a byte"), count.parse().expect("a count"))
    };
    runs.split(' ').filter(|run| !run.is_empty()).flat_map(run).collect()
}

#[test]
fn a_file_that_only_a_killed_process_had_open_goes_with_it() {
    let store = Store::new();
    let [mut dies, mut lives] = store.processes();
    dies.tell("open /f");
    dies.tell("write /f 0 1000000 1");
    dies.tell("sync /f");
    dies.tell("unlink /f");
    assert_eq!(dies.ask("read /f 0 10"), "10x1");
    dies.kill();
    lives.tell("mkdir /d");
    assert!(store.clio(&["shutdown"]).status.success());
    drop(lives);
    let client = store.open_folder();
    let report = client.check(false).expect("check");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.objects, 0, "its objects are gone");
}

/// A client's sync of all reaches the daemon's targets, and what others have written there: after a reboot of the machine
/// that met the daemon, nothing is in doubt.
#[test]
fn a_sync_of_all_leaves_nothing_in_doubt() {
    for synced in [true, false] {
        let store = Store::new();
        let [mut writer, mut other] = store.processes();
        writer.tell("open /f wide");
        writer.tell("write /f 0 300000 7");
        // Written out, and no more.
        writer.tell("drop");
        if synced {
            other.tell("syncall");
        }
        let daemon = store.daemon().expect("it runs");
        // Clients that live would start another one.
        drop((writer, other));
        signal(daemon, Signal::KILL);
        drop(store.open_folder());
        for n in 0..2 {
            let target = store.path().join(format!("target-{n:04}"));
            clio_targets::conformance::pretend_reboot(&target).expect("state");
        }
        let report = store.open_folder().check(false).expect("check");
        assert!(report.is_clean() && (report.unjudged == 0) == synced, "synced: {synced}: {report}");
    }
}
