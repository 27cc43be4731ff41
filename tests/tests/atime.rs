//! The time of the last read, as `relatime` keeps it.

use clio::Client;
use clio_tests::{clients, narrow, read_write};
use std::time::Duration;

/// Longer than the tick that data is stamped with.
fn tick() {
    std::thread::sleep(Duration::from_millis(20));
}

fn times(client: &Client) -> (u64, u64, u64) {
    let of = client.metadata("/f").expect("stat");
    (of.atime_ns(), of.mtime_ns(), of.ctime_ns())
}

/// Two clients and a file that the first wrote.
fn world() -> [Client; 2] {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&[1; 200_000], 0).expect("write");
    file.sync_all().expect("sync");
    tick();
    [a, b]
}

fn read(client: &Client) {
    let file = client.open_file("/f").expect("open");
    file.read_exact_at(&mut [0; 100], 10).expect("read");
    file.close().expect("close");
}

#[test]
fn a_read_is_dated_for_all_clients() {
    let [a, b] = world();
    let before = times(&a);
    read(&b);
    let after = times(&a);
    assert!(after.0 > before.1, "read after it was written: {before:?} {after:?}");
    assert_eq!((after.1, after.2), (before.1, before.2), "nothing else is dated by it");
    assert_eq!(times(&b), after);
}

#[test]
fn a_read_from_the_cache_of_the_writer_is_dated_too() {
    let [a, b] = world();
    let before = times(&b);
    read(&a);
    assert!(times(&b).0 > before.0.max(before.1));
}

#[test]
fn only_the_first_read_after_a_change_is_dated() {
    let [a, b] = world();
    read(&b);
    let first = times(&a);
    tick();
    read(&b);
    read(&a);
    assert_eq!(times(&a), first, "no change since");
    tick();
    let file = a.open_with("/f", read_write()).expect("open");
    let reader = b.open_file("/f").expect("open");
    file.write_all_at(&[2; 10], 0).expect("write");
    assert_eq!(times(&b).0, first.0, "a write is no read");
    tick();
    reader.read_exact_at(&mut [0; 10], 0).expect("read");
    assert!(times(&a).0 > times(&a).1, "the change has been read");
}

#[test]
fn a_read_after_times_were_set_is_dated() {
    let [a, b] = world();
    read(&b);
    a.set_times("/f", Some(1_000_000_001), Some(1_000_000_000)).expect("utimes");
    let set = times(&a);
    assert_eq!((set.0, set.1), (1_000_000_001, 1_000_000_000));
    tick();
    read(&b);
    let after = times(&a);
    assert!(after.0 > set.2 && (after.1, after.2) == (set.1, set.2), "{set:?} {after:?}");
}

#[test]
fn reads_of_nothing_are_not_dated() {
    let [a, b] = world();
    let before = times(&a);
    let file = b.open_file("/f").expect("open");
    assert_eq!(file.read_at(&mut [], 0).expect("nothing"), 0);
    assert_eq!(file.read_at(&mut [0; 10], 1 << 30).expect("beyond the end"), 0);
    drop(file);
    assert_eq!(times(&a), before);
}
