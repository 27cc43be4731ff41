//! A process that uses a store is killed at a random moment, again and again. All that it was told to be done must be
//! there afterwards: every name, and every byte that was synced; and the store must open and be found whole.
//!
//! The child carries out a script that follows from a seed, and acknowledges each operation on its standard output once
//! it has returned. The parent kills it some time after the second or a later one, and follows the same script on a model as far as it
//! was acknowledged. One operation at most was under way: it may have happened, in part, or not at all.

mod check;
mod child;
mod model;
mod script;

use model::Tree;
use script::Script;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The child is told by these which store to use, and in which round it is.
const STORE: &str = "CRASH_TEST_STORE";
const ROUND: &str = "CRASH_TEST_ROUND";
/// The word before the number of an operation that is done.
const ACK: &str = "ack ";
/// The child lives until it has acknowledged two to so many operations…
const OPERATIONS: u64 = 13;
/// …for up to so many microseconds: more than most operations take.
const LIFE_US: u64 = 10_000;
/// With so many operations acknowledged, a round has been worth it.
const WORTH: u64 = 3;

fn rounds() -> u64 {
    if clio_tests::full() { 2000 } else { 200 }
}

fn uri(store: &Path) -> String {
    format!("dir:{}?targets=3", store.display())
}

/// In memory where the system has a folder for that: it is the process that dies, not the machine.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("tempdir")
}

/// Runs a child and kills it. Returns how many operations it has acknowledged.
fn run_and_kill(store: &Path, round: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("exe"))
        .args(["--exact", "nothing_acknowledged_is_lost", "--nocapture"])
        .env(STORE, store)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("spawn");
    let lines = BufReader::new(child.stdout.take().expect("stdout"));
    let (tell, acks) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            // The test runner's own words may come before on the line.
            if let Some((_, n)) = line.split_once(ACK) {
                let _ = tell.send(Ok(n.parse::<u64>().expect("a number")));
            } else if line.contains(child::FAILED) {
                let _ = tell.send(Err(line));
            }
        }
    });
    let (operations, life) = (2 + script::mix(round) % (OPERATIONS - 1), script::mix(!round) % LIFE_US);
    let mut told = Vec::new();
    while (told.len() as u64) < operations && told.iter().all(Result::is_ok) {
        told.push(acks.recv_timeout(Duration::from_secs(60)).expect("the child does something"));
    }
    std::thread::sleep(Duration::from_micros(life));
    let _ = child.kill();
    child.wait().expect("wait");
    reader.join().expect("reader");
    let mut done = 0;
    for ack in told.into_iter().chain(acks.try_iter()) {
        let n = ack.unwrap_or_else(|e| panic!("round {round}: the child met an error: {e}"));
        assert_eq!(n, done, "operations are acknowledged in order");
        done += 1;
    }
    done
}

/// What the script's first `done` operations make, without the next one and with it; and all of them, for messages.
fn expected(round: u64, done: u64) -> (Tree, Tree, String) {
    let (mut script, mut tree) = (Script::new(round), Tree::new(round));
    let mut story = format!("round {round}");
    for _ in 0..done {
        let op = script.next(&tree);
        story += &format!("\n  {op:?}");
        tree.apply(&op);
    }
    let under_way = script.next(&tree);
    story += &format!("\n  then, killed in {under_way:?}");
    let (before, after) = tree.begin(&under_way);
    (before, after, story)
}

#[test]
fn nothing_acknowledged_is_lost() {
    if let (Ok(store), Ok(round)) = (std::env::var(STORE), std::env::var(ROUND)) {
        return child::run(&uri(Path::new(&store)), round.parse().expect("a number"));
    }
    let dir = scratch();
    let store = dir.path().join("store");
    let (mut worth, mut acknowledged) = (0, 0);
    let mut settled = None;
    for round in 0..rounds() {
        let done = run_and_kill(&store, round);
        worth += u64::from(done >= WORTH);
        acknowledged += done;
        let (before, after, story) = expected(round, done);
        settled = Some(check::check(&uri(&store), &before, &after, settled, &story));
    }
    println!("{acknowledged} operations acknowledged, {worth} of {} rounds with {WORTH} or more", rounds());
    assert!(worth * 10 >= rounds() * 8, "the children got too little done: {worth} of {} rounds", rounds());
}
