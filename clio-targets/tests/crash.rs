//! A process killed while it writes: what was synced is there, and nothing is called damaged.

use clio_core::target::Op;
use clio_core::units::{Extent, Fid};
use clio_targets::conformance::{Client, pattern};
use clio_targets::{DirOptions, DirTarget};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const FOLDER: &str = "CLIO_CRASH_TEST_FOLDER";
const OBJECTS: u32 = 3;
const REGION: u64 = 40_000;

fn open(path: &Path) -> (Arc<DirTarget>, Client) {
    let options = DirOptions { create: true, open_objects: 2, ..DirOptions::default() };
    let target = Arc::new(DirTarget::open(path, &options).unwrap());
    let client = Client::connect(target.clone());
    (target, client)
}

fn fid(i: u32) -> Fid {
    Fid::new(0x500, i)
}

/// The child: for each round and object, writes the region of the round, syncs, says so; and between, rewrites, cuts
/// and punches a scratch area beyond, which nobody relies on.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (_target, client) = open(Path::new(&folder));
    let scratch = 10 << 20;
    for round in 0..1000u64 {
        for object in 0..OBJECTS {
            let fid = fid(object);
            client.write(fid, scratch + round % 7 * 5000, &pattern(round, 30_000)).unwrap();
            client.write(fid, round * REGION, &pattern(round * 10 + u64::from(object), REGION as usize)).unwrap();
            client.call(Op::Sync(fid)).unwrap();
            println!("synced {round} {object}");
            client.punch(fid, Extent::with_len(scratch + 3000, 20_000), 1).unwrap();
            client.write(fid, scratch + 100, &pattern(round, 9000)).unwrap();
            client.truncate(fid, scratch + round % 5 * 1000).unwrap();
        }
    }
}

/// One run of the child, killed after it has said `after` times that something is synced. Returns what was.
fn run_and_kill(folder: &Path, after: usize) -> Vec<(u64, u32)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child_writes_until_it_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut synced = Vec::new();
    let parse = |line: &str| {
        // The test harness may have begun the line.
        let (_, rest) = line.split_once("synced ")?;
        let (round, object) = rest.split_once(' ')?;
        Some((round.parse().unwrap(), object.parse().unwrap()))
    };
    while synced.len() < after {
        synced.extend(parse(&lines.next().expect("the child ended by itself")));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    synced.extend(lines.filter_map(|l| parse(&l)));
    synced
}

#[test]
fn a_killed_process_leaves_what_it_synced() {
    for after in 1..=12 {
        let folder = tempfile::tempdir().unwrap();
        let synced = run_and_kill(folder.path(), after * 2);
        let (target, client) = open(folder.path());
        for found in target.store().objects() {
            let report = target.store().verify(found.unwrap()).unwrap();
            assert!(report.is_clean(), "killed after {after}: {report:?}");
        }
        for (round, object) in synced {
            let (got, _) = client.read(fid(object), round * REGION, REGION as usize).unwrap();
            assert!(got == pattern(round * 10 + u64::from(object), REGION as usize), "round {round} of {object}");
        }
        // And the store works on.
        client.write(fid(0), 5, b"again").unwrap();
        client.call(Op::Sync(fid(0))).unwrap();
        assert!(target.store().verify(fid(0)).unwrap().is_clean());
    }
}
