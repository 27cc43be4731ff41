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
    let client = loop {
        // The daemon is just going.
        match clio::Client::open(&format!("dir:{}", store.path().display())) {
            Err(e) if e.errno() == clio::Errno::EBUSY => std::thread::yield_now(),
            client => break client.expect("open"),
        }
    };
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
        let uri = format!("dir:{}", store.path().display());
        let open = || loop {
            match clio::Client::open(&uri) {
                // It isn't quite gone.
                Err(e) if e.errno() == clio::Errno::EBUSY => std::thread::yield_now(),
                opened => break opened.expect("open"),
            }
        };
        drop(open());
        for n in 0..2 {
            let target = store.path().join(format!("target-{n:04}"));
            clio_targets::conformance::pretend_reboot(&target).expect("state");
        }
        let report = open().check(false).expect("check");
        assert!(report.is_clean() && (report.unjudged == 0) == synced, "synced: {synced}: {report}");
    }
}
