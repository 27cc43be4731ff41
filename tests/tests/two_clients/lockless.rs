//! Contended files: the target refuses locks, and I/O goes without.

use crate::{at_once, sum};
use clio::{Client, Config};
use clio_core::target::Target;
use clio_core::units::TargetIndex;
use clio_targets::{MemOptions, MemTarget};
use clio_tests::{content, pattern, read_write};
use std::sync::Arc;

/// Two clients of one target that refuses locks on an object after `conflicts` requests that had to wait.
fn quarrelsome(conflicts: u32) -> [Client; 2] {
    let mut options = MemOptions { index: TargetIndex(0), ..MemOptions::default() };
    options.service.dlm.lockless_conflicts = Some(conflicts);
    // A contended file stays contended for as long as the test runs.
    options.service.dlm.contention_window_ms = 3_600_000;
    let target: Arc<dyn Target> = Arc::new(MemTarget::in_memory(options));
    let first = Client::over_targets(vec![target], Config::default()).expect("client");
    let second = first.second_client().expect("client");
    [first, second]
}

fn lockless(client: &Client) -> u64 {
    sum(client, |t| t.lockless)
}

#[test]
fn a_contended_file_goes_lockless() {
    let [a, b] = quarrelsome(6);
    let (fa, fb) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    let mut want = vec![0; 20_000];
    for n in 0..60u64 {
        let at = (n * 211) % 15_000;
        let data = pattern(n, at, 3_000);
        let (writer, reader) = if n % 2 == 0 { (&fa, &fb) } else { (&fb, &fa) };
        writer.write_all_at(&data, at).expect("write");
        want[at as usize..][..3_000].copy_from_slice(&data);
        let mut got = vec![0; 3_000];
        reader.read_exact_at(&mut got, at).expect("read");
        assert_eq!(got, data, "write {n}");
    }
    let (la, lb) = (lockless(&a), lockless(&b));
    // The target forgets the quarrel with the last lock, so that it starts anew now and then.
    assert!(la + lb >= 5, "some of it goes without locks: {}\n{}", a.stats(), b.stats());
    let size = b.metadata("/f").expect("stat").len() as usize;
    assert_eq!(content(&a, "/f"), want[..size]);
    assert_eq!(content(&b, "/f"), want[..size]);
    for c in [&a, &b] {
        c.check_invariants().expect("the books are in order");
    }
    // Another file is not concerned, and what can't do without a lock gets one.
    let quiet = a.create("/quiet").expect("create");
    quiet.write_all_at(&[1; 100], 0).expect("write");
    assert_eq!(lockless(&a), la + (lockless(&a) - la).min(1), "at most the read of the contended file");
    fa.set_len(10_000).expect("truncate");
    assert_eq!(content(&b, "/f"), want[..10_000]);
}

/// To find data or holes takes the file's size, of which KMS tells only under a lock.
#[test]
fn seeks_in_a_contended_file() {
    let [a, b] = quarrelsome(1);
    let files = [&a, &b].map(|c| c.open_with("/f", read_write()).expect("open"));
    for n in 0..20u8 {
        files.iter().for_each(|f| f.write_all_at(&[n; 100], 0).expect("write"));
    }
    assert!(lockless(&a) + lockless(&b) > 0, "some of it goes without locks");
    files[0].write_all_at(&[1; 4096], 1 << 20).expect("write");
    let end = (1 << 20) + 4096;
    for file in [&files[1], &files[0]] {
        for (at, data, hole) in [(0, 0, 4096), (50, 50, 4096), (4096, 1 << 20, 4096), (1 << 20, 1 << 20, end)] {
            assert_eq!(file.seek_data(at).expect("data"), data, "data after {at}");
            assert_eq!(file.seek_hole(at).expect("hole"), hole, "hole after {at}");
        }
        assert_eq!(file.seek_data(end).expect_err("beyond").errno(), clio::Errno::ENXIO);
    }
}

/// What another client has cached, or has yet to write out, must go with a punch too.
#[test]
fn punches_of_a_contended_file() {
    let [a, b] = quarrelsome(1);
    let files = [&a, &b].map(|c| c.open_with("/f", read_write()).expect("open"));
    let mut want = vec![0; 200_000];
    for n in 0..60usize {
        let (writer, other) = if n % 2 == 0 { (&files[0], &files[1]) } else { (&files[1], &files[0]) };
        let at = n * 3001;
        writer.write_all_at(&[n as u8 + 1; 3001], at as u64).expect("write");
        want[at..at + 3001].fill(n as u8 + 1);
        other.punch_hole(at as u64 + 100, 2000).expect("punch");
        want[at + 100..at + 2100].fill(0);
        for (name, client) in [("a", &a), ("b", &b)] {
            assert!(content(client, "/f")[..] == want[..at + 3001], "{name}, after {n}");
        }
    }
    assert!(lockless(&a) + lockless(&b) > 0, "some of it goes without locks");
}

/// A file that is open without locks takes them where it must.
#[test]
fn a_file_without_locks_cuts_and_seeks_under_them() {
    let [a, b] = quarrelsome(1000);
    let free = a.open_with("/f", read_write().lock_demand(clio::LockDemand::Never)).expect("open");
    let cached = b.open_with("/f", read_write()).expect("open");
    cached.write_all_at(&[1; 100_000], 0).expect("write");
    assert_eq!(free.seek_hole(0).expect("hole"), 100_000, "dirty there");
    cached.write_all_at(&[2; 100_000], 0).expect("write");
    free.punch_hole(5000, 10_000).expect("punch");
    let mut want = vec![2; 100_000];
    want[5000..15_000].fill(0);
    assert!(content(&b, "/f") == want);
    cached.write_all_at(&[3; 10], 0).expect("write");
    free.set_len(20_000).expect("truncate");
    want.truncate(20_000);
    want[..10].fill(3);
    assert!(content(&b, "/f") == want && content(&a, "/f") == want);
    cached.write_all_at(&[4; 10], 19_995).expect("write");
    assert_eq!(free.append(&[5; 10]).expect("append"), 20_005);
    assert_eq!(content(&b, "/f")[19_990..], [&[2; 5][..], &[4; 10], &[5; 10]].concat());
}

#[test]
fn lockless_writers_and_readers_at_once() {
    const RECORD: u64 = 700;
    let [a, b] = quarrelsome(4);
    let (fa, fb) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    fa.write_all_at(&vec![0; 200 * RECORD as usize], 0).expect("write");
    let side = |file: &clio::File, mine: u64| {
        let mut got = vec![0; RECORD as usize];
        for n in 0..200 {
            let at = n * RECORD;
            if n % 2 == mine {
                file.write_all_at(&pattern(n, at, RECORD as usize), at).expect("write");
            } else {
                file.read_exact_at(&mut got, at).expect("read");
                let whole = got == pattern(n, at, RECORD as usize) || got.iter().all(|x| *x == 0);
                assert!(whole, "half of record {n}");
            }
        }
    };
    at_once(|| side(&fa, 0), || side(&fb, 1));
    // Whether they met often enough is up to the scheduler; from here on they do.
    let before = lockless(&a) + lockless(&b);
    for n in 0..20u64 {
        if n % 2 == 0 { &fa } else { &fb }
            .write_all_at(&pattern(n, n * RECORD, RECORD as usize), n * RECORD)
            .expect("write");
    }
    assert!(lockless(&a) + lockless(&b) > before, "{}\n{}", a.stats(), b.stats());
    let want: Vec<u8> = (0..200).flat_map(|n| pattern(n, n * RECORD, RECORD as usize)).collect();
    assert_eq!(content(&a, "/f"), want);
    assert_eq!(content(&b, "/f"), want);
}

/// Two clients with `settings` that write one record in turn: how often they went without a lock.
fn in_turn(settings: &[(&str, u64)]) -> u64 {
    let builder = Client::builder().store("mem:").config(Config::default());
    let a = settings.iter().fold(builder, |b, (name, value)| b.set(name, value)).connect().expect("client");
    let b = a.second_client().expect("client");
    let (fa, fb) = (a.create("/f").expect("create"), b.open_with("/f", read_write()).expect("open"));
    for n in 0..20u64 {
        let (file, data) = (if n % 2 == 0 { &fa } else { &fb }, pattern(n, 0, 700));
        file.write_all_at(&data, 0).expect("write");
        assert_eq!(content(if n % 2 == 0 { &b } else { &a }, "/f"), data, "{settings:?}, write {n}");
    }
    lockless(&a) + lockless(&b)
}

#[test]
fn the_settings_say_when_clients_go_lockless() {
    let long = ("contention_window_ms", 3_600_000);
    assert_eq!(in_turn(&[long]), 0, "two clients that pass a lock to and fro keep their locks");
    assert_eq!(in_turn(&[("lockless_conflicts", 1000), long]), 0);
    assert!(in_turn(&[("lockless_conflicts", 3), long]) > 0);
    assert!(in_turn(&[("contended_locks", 0), long]) > 0, "one conflicting lock is too many");
}
