#![expect(unsafe_code, reason = "fork")]
//! A process that has the store open forks.

use crate::child::run;
use crate::store::{STORE, Store, signal};
use clio::{Client, File};
use rustix::process::Signal;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Bytes of an append, and how often parent and child append.
const PART: usize = 1000;
const ROUNDS: usize = 200;

/// Forks a child that does `body` and leaves; its number.
fn begin(body: impl FnOnce()) -> i32 {
    // SAFETY: the child goes on with this thread alone, with an allocator that the C library has made usable there, and
    // leaves without what is done at exit.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork");
        if pid == 0 {
            let done = catch_unwind(AssertUnwindSafe(body));
            libc::_exit(if done.is_ok() { 0 } else { 1 });
        }
        pid
    }
}

/// A child that does what [`child`] does.
pub fn begin_client(client: &Client, files: &mut HashMap<String, File>) -> i32 {
    begin(|| child(client, files))
}

/// A child that does nothing, for some seconds.
pub fn begin_idle() -> i32 {
    begin(|| std::thread::sleep(Duration::from_secs(20)))
}

/// Waits for a child; its exit status.
pub fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status is this function's own.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    status
}

fn child(client: &Client, files: &mut HashMap<String, File>) {
    let does = |client: &Client, files: &mut HashMap<String, File>, command: &str| {
        let words: Vec<&str> = command.split(' ').collect();
        run(client, files, &words).unwrap_or_else(|e| e)
    };
    for command in ["read /dirty 0 1", "write /log 0 1 9", "append /log 1 9 1", "size /log", "sync /log", "mkdir /d"] {
        assert_eq!(does(client, files, command), "ESTALE", "{command}");
    }
    for command in ["syncall", "drop", "twin /log", "list /", "close /unlinked"] {
        assert_eq!(does(client, files, command), "ESTALE", "{command}");
    }
    files.clear();
    // The last one.
    // SAFETY: the caller leaves without using it again.
    unsafe { drop(std::ptr::read(client)) };

    let own = Client::open(&std::env::var(STORE).expect("a store")).expect("open");
    let mut files = HashMap::new();
    let mut tell = |command: &str| assert_eq!(does(&own, &mut files, command), "ok", "{command}");
    tell("open /dirty");
    tell("open /log");
    tell(&format!("append /log {PART} 2 {ROUNDS}"));
    tell("mkdir /childs");
    assert_eq!(does(&own, &mut files, "read /dirty 0 100"), "10x7", "what the parent has yet to write out");
    assert_eq!(does(&own, &mut files, "close /log"), "ok");
}

#[test]
fn a_child_is_a_client_of_its_own_and_takes_nothing_of_its_parents() {
    let store = Store::new();
    let [mut parent, mut other] = store.processes();
    for file in ["/log", "/dirty", "/unlinked"] {
        parent.tell(&format!("open {file}"));
    }
    parent.tell("write /dirty 0 10 7");
    parent.tell("write /unlinked 0 10 8");
    parent.tell("unlink /unlinked");
    let child = parent.ask("fork");
    // Both at once.
    parent.tell(&format!("append /log {PART} 1 {ROUNDS}"));
    assert_eq!(parent.ask(&format!("wait {child}")), "0");
    assert_eq!(parent.ask("size /log"), (2 * ROUNDS * PART).to_string());
    other.tell("open /log");
    for process in [&mut parent, &mut other] {
        let runs = process.ask(&format!("read /log 0 {}", 3 * ROUNDS * PART));
        let mut sums = [0, 0, 0];
        for run in runs.split(' ') {
            let (len, byte) = run.split_once('x').expect("a run");
            let (len, byte): (usize, usize) = (len.parse().expect("bytes"), byte.parse().expect("a byte"));
            assert_eq!(len % PART, 0, "each append is whole: {runs}");
            sums[byte] += len;
        }
        assert_eq!(sums, [0, ROUNDS * PART, ROUNDS * PART], "{runs}");
    }
    // What the child had inherited and dropped is open and locked as before.
    assert_eq!(parent.ask("read /unlinked 0 100"), "10x8");
    parent.tell("write /dirty 5 10 6");
    other.tell("open /dirty");
    assert_eq!(other.ask("read /dirty 0 100"), "5x7 10x6");
    assert_eq!(parent.ask("list /"), "childs dirty log");
    parent.tell("close /unlinked");
}

#[test]
fn a_client_that_is_killed_is_gone_though_a_child_has_its_connection() {
    let store = Store::new();
    let [mut parent, mut other] = store.processes();
    parent.tell("open /f");
    parent.tell("write /f 0 10 1");
    parent.tell("sync /f");
    let child: i32 = parent.ask("fork idle").parse().expect("a number");
    parent.kill();
    other.tell("open /f");
    other.tell("write /f 5 10 2");
    assert_eq!(other.ask("read /f 0 100"), "5x1 10x2");
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).expect("the child is there");
    assert!(!stat.contains(") Z "), "it still lives: {stat}");
    signal(child, Signal::KILL);
}
