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

/// The programs go on with the files that they have open, on a daemon that one of them starts. What had not been synced is
/// lost, and told once.
#[test]
fn a_killed_daemon_loses_nothing_that_was_synced_and_files_stay_usable() {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    a.tell("open /f wide");
    b.tell("open /f");
    let mut names = vec!["f".to_string()];
    for round in 1..=20u32 {
        a.tell(&format!("write /f 0 300000 {round}"));
        a.tell("sync /f");
        b.tell(&format!("mkdir /s{round}"));
        names.push(format!("s{round}"));
        names.sort();
        let dirty = round % 2 == 0;
        if dirty {
            a.tell("write /f 0 300000 255");
        }
        let daemon = store.daemon().expect("it runs");
        signal(daemon, Signal::KILL);
        // What is under way at that moment may fail, read-ahead that a read waits for too.
        let read = (0..10).map(|_| b.ask("read /f 0 400000")).find(|read| read != "EIO");
        assert_eq!(read, Some(format!("300000x{round}")), "round {round}");
        assert_eq!(b.ask("list /"), names.join(" "));
        assert_ne!(store.daemon().expect("another one runs"), daemon);
        if dirty {
            assert_eq!(a.ask("sync /f"), "EIO", "round {round}: what it wrote is lost, and it is told");
        }
        a.tell("sync /f");
        assert_eq!(a.ask("read /f 0 400000"), format!("300000x{round}"), "round {round}");
    }
}

/// Under load, nothing hangs, and what a sync has acknowledged stays.
#[test]
fn daemons_killed_under_load() {
    let store = Store::new();
    let mut all = store.processes::<3>();
    all.iter_mut().enumerate().for_each(|(i, p)| p.tell(&format!("open /f{i}")));
    for round in 0..10u64 {
        for (i, process) in all.iter_mut().enumerate() {
            process.tell(&format!("write /f{i} 0 100000 {}", round + 1));
            process.tell(&format!("sync /f{i}"));
            process.begin(&format!("append /f{i} 5000 99 2000"));
        }
        std::thread::sleep(std::time::Duration::from_millis(round * 7 % 30));
        if let Some(daemon) = store.daemon() {
            signal(daemon, Signal::KILL);
        }
        for (i, process) in all.iter_mut().enumerate() {
            let done = process.answer();
            assert!(done == "ok" || done == "EIO", "{done}");
            let synced = process.ask(&format!("sync /f{i}"));
            assert!(synced == "ok" || synced == "EIO", "{synced}");
            process.tell(&format!("sync /f{i}"));
            assert_eq!(process.ask(&format!("read /f{i} 0 100000")), format!("100000x{}", round + 1));
            process.tell(&format!("truncate /f{i} 100000"));
        }
    }
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
        signal(store.daemon().expect("it runs"), Signal::KILL);
        drop((writer, other));
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
