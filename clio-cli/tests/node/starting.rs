//! The daemon's life.

use crate::store::{Store, signal};
use rustix::process::Signal;

#[test]
fn of_many_starters_one_serves() {
    let store = Store::new();
    assert_eq!(store.daemon(), None);
    let mut all = store.processes::<8>();
    for (i, process) in all.iter_mut().enumerate() {
        process.begin(&format!("mkdir /{i}"));
    }
    for process in &mut all {
        assert_eq!(process.answer(), "ok");
    }
    for process in &mut all {
        assert_eq!(process.ask("list /"), "0 1 2 3 4 5 6 7");
    }
    assert!(store.daemon().is_some());
}

#[test]
fn the_command_line_shares_the_store() {
    let store = Store::new();
    let mut process = store.process();
    process.tell("open /f");
    process.tell("write /f 0 5 65");
    assert_eq!(store.clio(&["cat", "/f"]).stdout, b"AAAAA", "dirty data of another process");
    let out = store.clio(&["check"]);
    assert!(!out.status.success());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("another process serves the store"), "{said}");
}

#[test]
fn a_process_that_opens_the_folder_itself_is_told_how_to_share() {
    let store = Store::new();
    store.process().tell("mkdir /a");
    let e = clio::Client::open(&format!("dir:{}", store.path().display())).expect_err("it is served");
    let node = format!("node:{}", store.path().display());
    let daemon = format!("cliod (process {})", store.daemon().expect("it runs"));
    let says = [&daemon, &format!("use it as {node},"), &format!("'clio shutdown --store {node}'")];
    assert!(e.errno() == clio::Errno::EBUSY && says.iter().all(|s| e.to_string().contains(*s)), "{e}");
    drop(store);
}

#[test]
fn a_daemon_that_was_told_to_end_leaves_a_store_that_opens() {
    for how in ["shutdown", "SIGTERM"] {
        let store = Store::new();
        let mut process = store.process();
        process.tell("open /f");
        process.tell("write /f 0 100000 7");
        process.tell("sync /f");
        let daemon = store.daemon().expect("it runs");
        match how {
            "SIGTERM" => signal(daemon, Signal::TERM),
            _ => assert!(store.clio(&["shutdown"]).status.success()),
        }
        drop(process);
        let mut next = store.process();
        next.tell("open /f");
        assert_eq!(next.ask("read /f 0 200000"), "100000x7", "{how}");
        assert_ne!(store.daemon(), Some(daemon));
    }
}

#[test]
fn to_ask_how_the_daemon_is_starts_none() {
    let store = Store::new();
    store.process().tell("open /f");
    assert!(store.daemon().is_some());
    assert!(store.clio(&["shutdown"]).status.success());
    for _ in 0..2 {
        let out = store.clio(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!((&status["state"], &status["daemon"]), (&"stopped".into(), &serde_json::Value::Null));
        assert!(out.status.success());
    }
}
