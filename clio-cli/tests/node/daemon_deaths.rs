//! Daemons that die: their clients start the next one, and take up there what they held.

use crate::store::{Process, Store, signal};
use rustix::process::Signal;
use std::time::Duration;

fn kill_daemon(store: &Store) {
    let daemon = loop {
        // The clients may be about to start it, and not need it yet.
        if let Some(daemon) = store.daemon() {
            break daemon;
        }
    };
    signal(daemon, Signal::KILL);
}

/// What was written and not yet written out is still there, for its writer and for others, and no call fails.
#[test]
fn a_killed_daemon_is_not_noticed() {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    a.tell("open /f wide");
    b.tell("open /f");
    let mut names = vec!["f".to_string()];
    for round in 1..=20u32 {
        a.tell(&format!("write /f 0 300000 {round}"));
        if round % 3 == 0 {
            a.tell("sync /f");
        }
        b.tell(&format!("mkdir /s{round}"));
        names.push(format!("s{round}"));
        names.sort();
        let daemon = store.daemon().expect("it runs");
        signal(daemon, Signal::KILL);
        assert_eq!(b.ask("read /f 0 400000"), format!("300000x{round}"), "round {round}");
        assert_eq!(b.ask("list /"), names.join(" "));
        assert_ne!(store.daemon().expect("another one runs"), daemon);
        a.tell("sync /f");
        assert_eq!(a.ask("read /f 0 400000"), format!("300000x{round}"), "round {round}");
    }
}

/// Appends of several processes to one file, none lost and none done twice.
#[test]
fn appends_go_on_over_the_death_of_daemons() {
    let store = Store::new();
    let mut all = store.processes::<3>();
    all.iter_mut().for_each(|p| p.tell("open /f append wide"));
    for round in 0..10u64 {
        for (i, process) in all.iter_mut().enumerate() {
            process.begin(&format!("append /f 3000 {} 200", i + 1));
        }
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(round * 7 % 30));
            match store.daemon() {
                Some(daemon) if round % 3 != 0 => signal(daemon, Signal::KILL),
                Some(_) => drop(store.clio(&["shutdown"])),
                None => {}
            }
        }
        for process in &mut all {
            assert_eq!(process.answer(), "ok", "round {round}");
        }
        for process in &mut all {
            let runs = process.ask("read /f 0 2000000");
            let lengths =
                runs.split(' ').map(|run| run.split_once('x').expect("a run").0.parse::<u64>().expect("a length"));
            assert!(lengths.clone().all(|n| n % 3000 == 0), "mixed: {runs}");
            assert_eq!(lengths.sum::<u64>(), 3 * 200 * 3000, "round {round}");
            process.tell("sync /f");
        }
        all[0].tell("truncate /f 0");
    }
}

/// A change of names that is done twice would fail: the second time, the name is there, or isn't.
#[test]
fn names_change_once_over_the_death_of_daemons() {
    let store = Store::new();
    let mut all = store.processes::<2>();
    for round in 0..10u64 {
        for (i, process) in all.iter_mut().enumerate() {
            process.begin(&format!("churn /{i} 300"));
        }
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(5 + round * 7 % 30));
            match store.daemon() {
                Some(daemon) if round % 2 == 0 => signal(daemon, Signal::KILL),
                Some(_) => drop(store.clio(&["shutdown"])),
                None => {}
            }
        }
        for process in &mut all {
            assert_eq!(process.answer(), "ok", "round {round}");
        }
        for process in &mut all {
            assert_eq!(process.ask("list /"), "");
        }
    }
}

#[test]
fn a_file_without_a_name_outlives_its_daemon() {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    a.tell("open /f wide");
    a.tell("write /f 0 300000 1");
    a.tell("sync /f");
    a.tell("write /f 100000 100000 2");
    a.tell("unlink /f");
    b.tell("open /other");
    for round in 0..4 {
        if round == 1 {
            let daemon = store.daemon().expect("it runs");
            assert!(store.clio(&["shutdown"]).status.success());
            Store::wait_for_end(daemon);
        } else {
            kill_daemon(&store);
        }
        b.tell("write /other 0 10 1");
        assert_eq!(a.ask("read /f 0 400000"), "100000x1 100000x2 100000x1");
    }
    a.tell("sync /f");
    assert_eq!(a.ask("read /f 0 400000"), "100000x1 100000x2 100000x1");
}

/// A client that doesn't come back is waited for, but not for ever; it is told what it has lost.
#[test]
fn a_client_that_is_stopped_loses_its_locks_to_the_others() {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    a.tell("open /f");
    a.tell("write /f 0 100000 1");
    a.tell("sync /f");
    a.tell("write /f 0 100000 2");
    b.tell("open /f");
    signal(a.pid(), Signal::STOP);
    kill_daemon(&store);
    assert_eq!(b.ask("read /f 0 200000"), "100000x1");
    b.tell("write /f 0 50000 3");
    b.tell("sync /f");
    signal(a.pid(), Signal::CONT);
    let first = told(&mut a);
    assert_eq!(first, "EIO", "what it wrote is lost");
    a.tell("sync /f");
    assert_eq!(a.ask("read /f 0 200000"), "50000x3 50000x1");
}

/// What is in the way of the next daemon for a moment costs nothing.
#[test]
fn what_a_daemon_needs_is_missing_for_a_moment() {
    let store = Store::new();
    let mut a = store.process();
    a.tell("open /f");
    let away = store.program().with_extension("away");
    for (round, missing) in [store.program(), store.runtime_folder()].iter().enumerate() {
        a.tell(&format!("write /f 0 100000 {}", round + 1));
        let daemon = store.daemon().expect("it runs");
        if missing.is_dir() {
            std::fs::remove_dir_all(missing).expect("remove");
        } else {
            std::fs::rename(missing, &away).expect("rename");
        }
        signal(daemon, Signal::KILL);
        a.begin("sync /f");
        std::thread::sleep(Duration::from_millis(300));
        if away.exists() {
            std::fs::rename(&away, store.program()).expect("rename");
        }
        // Without the folder, the client isn't known to the next daemon: it has lost its locks.
        let synced = if missing.ends_with("run") { "EIO" } else { "ok" };
        assert_eq!(a.answer(), synced, "{}", missing.display());
        a.tell("sync /f");
        a.tell("write /f 0 10 9");
        a.tell("sync /f");
    }
}

/// A client is stopped just when it is about to start the next daemon: another one does.
#[test]
fn a_starter_that_is_stopped_holds_nobody_up() {
    let store = Store::new();
    let mut a = store.process();
    a.tell("open /f");
    a.tell("write /f 0 100000 1");
    let stopped = store.start_lock();
    kill_daemon(&store);
    a.tell("mkdir /d");
    a.tell("sync /f");
    drop(stopped);
}

/// What the first sync says that isn't answered before the client knows of its loss.
fn told(process: &mut Process) -> String {
    (0..100).map(|_| process.ask("sync /f")).find(|said| said != "ok").unwrap_or_else(|| "ok".into())
}

/// Clients give their locks back to a daemon that is told to end, and it ends; what they had not written out, they have.
#[test]
fn a_daemon_that_is_told_to_end_takes_what_is_dirty_along() {
    for how in ["shutdown", "SIGTERM"] {
        let store = Store::new();
        let [mut a, mut b] = store.processes();
        a.tell("open /f wide");
        b.tell("open /g");
        a.tell("write /f 0 300000 1");
        b.tell("write /g 0 300000 2");
        let daemon = store.daemon().expect("it runs");
        match how {
            "SIGTERM" => signal(daemon, Signal::TERM),
            _ => assert!(store.clio(&["shutdown"]).status.success()),
        }
        // Nobody needs another one now.
        Store::wait_for_end(daemon);
        let status = String::from_utf8_lossy(&store.clio(&["status", "--json"]).stdout).into_owned();
        assert!(status.contains("stopped"), "{how}: {status}");
        {
            let client = clio::Client::open(&format!("dir:{}", store.path().display())).expect("open");
            for (path, byte) in [("/f", 1), ("/g", 2)] {
                let mut all = vec![0; 400_000];
                let n = client.open_file(path).expect("open").read_at(&mut all, 0).expect("read");
                assert!(n == 300_000 && all[..n].iter().all(|b| *b == byte), "{how}: {path}");
            }
        }
        assert_eq!(b.ask("read /g 0 400000"), "300000x2");
        a.tell("write /f 0 10 3");
        a.tell("sync /f");
        assert_eq!(a.ask("read /f 0 20"), "10x3 10x1");
    }
}
