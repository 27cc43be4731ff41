//! The process is killed in the middle of a stream of operations. Afterwards the store holds exactly what was
//! acknowledged, or that and the one operation that was under way; and that one, sent again, runs once in all.

use crate::ops::{Op, stored_op};
use crate::real::Real;
use crate::reference::Model;
use clio_core::units::ClientId;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const FOLDER: &str = "CLIO_TEST_CRASH_FOLDER";
const START: &str = "CLIO_TEST_CRASH_START";
const ROUNDS: &str = "CLIO_TEST_CRASH_ROUNDS";
const ACK: &str = "acknowledged ";
const CLIENT: ClientId = ClientId(7);

/// The same stream of operations in every process.
fn stream() -> impl Iterator<Item = Op> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[42; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    std::iter::from_fn(move || stored_op().new_tree(&mut runner).ok().map(|tree| tree.current()))
}

/// Not a test of its own: the process that gets killed.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let start: usize = std::env::var(START).unwrap().parse().unwrap();
    let mut real = Real::on_disk(Path::new(&folder), Some(CLIENT));
    let mut out = std::io::stdout();
    for (n, op) in stream().enumerate().skip(start) {
        let _ = real.apply(&op, n as u64 + 1);
        writeln!(out, "{ACK}{n}").and_then(|()| out.flush()).unwrap();
    }
}

/// Runs the child from operation `start` until it has acknowledged `count` more, kills it; gives the number of
/// operations acknowledged in all.
fn run_and_kill(folder: &Path, start: usize, count: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(START, start.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut done = start;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The first line may share its line with what the test harness prints.
        let line = line.unwrap();
        let Some((_, n)) = line.split_once(ACK) else { continue };
        // A line that the kill cut short is no acknowledgement.
        let Ok(n) = n.parse::<usize>() else { continue };
        if n == done {
            done += 1;
        }
        if done == start + count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    done
}

#[test]
fn killed_at_any_point() {
    if std::env::var(FOLDER).is_ok() {
        return;
    }
    let rounds = std::env::var(ROUNDS).map_or(12, |r| r.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let mut ops = stream();
    let mut done = 0;
    for round in 0..rounds {
        let acknowledged = run_and_kill(folder.path(), done, 1 + round * 37 % 211);
        let mut last = None;
        for n in done..acknowledged {
            let op = ops.next().unwrap();
            let answer = model.apply(&op, n as u64 + 1);
            last = Some((op, answer));
        }
        let mut real = Real::on_disk(folder.path(), Some(CLIENT));
        let under_way = ops.next().unwrap();
        let before = model.dump();
        let answer = model.apply(&under_way, acknowledged as u64 + 1);
        let found = real.dump();
        assert!(found == before || found == model.dump(), "round {round}, {acknowledged}:\n{found}\nnot\n{before}");
        if let Some((op, answer)) = last.filter(|_| found == before) {
            assert_eq!(real.apply(&op, acknowledged as u64), answer, "round {round}, {op:?} again");
            assert_eq!(real.dump(), before, "round {round}: {op:?} sent again");
        }
        let report = real.ns().check().unwrap();
        assert!(report.is_clean(), "round {round}: {report:?}");
        assert_eq!(real.apply(&under_way, acknowledged as u64 + 1), answer, "round {round}, {under_way:?}");
        assert_eq!(real.dump(), model.dump(), "round {round}: {under_way:?} sent again");
        done = acknowledged + 1;
    }
}
