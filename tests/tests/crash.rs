//! A process that uses a store is killed at a random moment, again and again. Whatever it was told to be durable must
//! be there afterwards, and the store must open and be found whole.
//!
//! The child writes records to a few files and says on its standard output what is durable: "S file records" after
//! a sync. The parent kills it, opens the store, and compares.

use clio::Client;
use clio_tests::{narrow, read_write};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const FILES: usize = 3;
const RECORD: usize = 5_000;
const CHILD: &str = "CRASH_TEST_STORE";

fn rounds() -> u64 {
    if std::env::var_os("CLIO_TEST_FULL").is_some() { 1000 } else { 200 }
}

fn uri(store: &Path) -> String {
    format!("dir:{}?targets=2", store.display())
}

fn record(file: usize, n: u64) -> Vec<u8> {
    clio_tests::pattern(file as u64 * 1_000_003 + n, 0, RECORD)
}

/// The child: appends records until it is killed.
fn child(store: &str) -> Result<(), clio::Error> {
    let client = Client::builder(&uri(Path::new(store))).set("writeback_age_ms", 10).connect()?;
    let mut out = std::io::stdout();
    let mut files = Vec::new();
    for f in 0..FILES {
        let file = client.open_with(format!("/f{f}"), read_write().layout(narrow(2)))?;
        let records = file.metadata()?.len() / RECORD as u64;
        files.push((file, records));
    }
    for step in 0u64.. {
        let f = (step % FILES as u64) as usize;
        let (file, n) = &mut files[f];
        file.write_all_at(&record(f, *n), *n * RECORD as u64)?;
        *n += 1;
        if step % 7 == 3 {
            file.sync_data()?;
            let _ = writeln!(out, "S {f} {n}");
        }
        if step % 11 == 5 {
            let name = format!("/made-{step}-{}", std::process::id());
            client.create(&name)?.write_all_at(b"x", 0)?;
            client.rename(&name, format!("/moved-{}", step % 5))?;
        }
    }
    Ok(())
}

fn check(store: &Path, durable: &[u64; FILES], round: u64) {
    // The child may have been killed before it made the store: this makes the same one.
    let client = Client::open(&uri(store)).unwrap_or_else(|e| panic!("round {round}: {e}"));
    for (f, records) in durable.iter().enumerate() {
        if *records == 0 {
            continue;
        }
        let file = client.open_file(format!("/f{f}")).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let mut got = vec![0; RECORD];
        for n in 0..*records {
            file.read_exact_at(&mut got, n * RECORD as u64)
                .unwrap_or_else(|e| panic!("round {round}, record {n}: {e}"));
            assert!(got == record(f, n), "round {round}: record {n} of file {f}, which was synced, is damaged");
        }
        // What was never synced may be there in part; the child goes on after what is durable.
        let file = client.open_with(format!("/f{f}"), read_write()).expect("open");
        file.set_len(*records * RECORD as u64).expect("truncate");
    }
    let report = client.check(true).unwrap_or_else(|e| panic!("round {round}: {e}"));
    assert!(report.is_clean(), "round {round}: {report}");
}

#[test]
fn nothing_synced_is_lost() {
    if let Ok(store) = std::env::var(CHILD) {
        if let Err(e) = child(&store) {
            println!("E {e}");
        }
        return;
    }
    let dir = tempfile::tempdir().expect("tempdir");
    let store = dir.path().join("store");
    let mut durable = [0u64; FILES];
    let mut delay = 0x2545_f491_4f6c_dd1du64;
    for round in 0..rounds() {
        delay ^= delay << 13;
        delay ^= delay >> 7;
        delay ^= delay << 17;
        let mut child = Command::new(std::env::current_exe().expect("exe"))
            .args(["--exact", "nothing_synced_is_lost", "--nocapture"])
            .env(CHILD, &store)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("spawn");
        let lines = BufReader::new(child.stdout.take().expect("stdout"));
        let reader = std::thread::spawn(move || lines.lines().map_while(Result::ok).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(delay % 120));
        let _ = child.kill();
        child.wait().expect("wait");
        for line in reader.join().expect("reader") {
            // The test runner's own words come before on the first line.
            let words: Vec<_> = line.split_whitespace().skip_while(|w| *w != "S" && *w != "E").collect();
            match words.as_slice() {
                ["S", f, n] => {
                    if let (Ok(f), Ok(n)) = (f.parse::<usize>(), n.parse()) {
                        durable[f] = n;
                    }
                }
                ["E", ..] => panic!("round {round}: the child met an error: {line}"),
                _ => {}
            }
        }
        check(&store, &durable, round);
        if durable.iter().any(|n| *n > 400) {
            // Start over, so that a round stays short.
            let client = Client::open(&store.display().to_string()).expect("open");
            for (f, n) in durable.iter_mut().enumerate() {
                *n = 0;
                let _ = client.remove_file(format!("/f{f}"));
            }
            client.sync().expect("sync");
        }
    }
    assert!(durable.iter().sum::<u64>() > 0 || rounds() < 3, "the children got nowhere");
}
