//! Read-ahead stays within what the lock covers, and goes with it.

use crate::{asked_back, sum};
use clio::{Client, File};
use clio_tests::{clients, pattern, read_write};

const LEN: usize = 4 << 20;
const SEAM: u64 = 2 << 20;
const STEP: usize = 64 << 10;

fn read(file: &File, at: u64, want: &[u8]) {
    let mut got = vec![0; STEP];
    file.read_exact_at(&mut got, at).expect("read");
    let bad = (0..STEP).find(|i| got[*i] != want[at as usize + i]);
    assert_eq!(bad, None, "stale offset in a read at {at}");
}

fn prepare(a: &Client, b: &Client) -> (File, File, Vec<u8>) {
    let data = pattern(1, 0, LEN);
    let writer = a.open_with("/f", read_write()).expect("open");
    writer.write_all_at(&data, 0).expect("write");
    a.drop_caches().expect("drop");
    (writer, b.open_file("/f").expect("open"), data)
}

#[test]
fn what_was_read_ahead_goes_with_the_lock() {
    let [a, b] = clients(1);
    let (writer, reader, mut want) = prepare(&a, &b);
    for at in (0..SEAM).step_by(STEP) {
        read(&reader, at, &want);
    }
    let stats = b.stats();
    assert!(stats.targets[0].read_bytes > SEAM, "something was read ahead: {stats}");
    assert!(stats.cache.used_bytes > SEAM, "{stats}");
    for at in (SEAM..LEN as u64).step_by(STEP) {
        let data = pattern(at, at, 100);
        writer.write_all_at(&data, at).expect("write");
        want[at as usize..][..100].copy_from_slice(&data);
    }
    assert_eq!(asked_back(&b), 1);
    assert_eq!(b.stats().cache.used_bytes, 0, "no page outlives its lock: {}", b.stats());
    for at in (0..LEN as u64).step_by(STEP) {
        read(&reader, at, &want);
    }
}

#[test]
fn nothing_is_read_ahead_beyond_the_lock() {
    let [a, b] = clients(1);
    let (writer, reader, mut want) = prepare(&a, &b);
    // A few conflicts, until the target grants no more than what lies between the others.
    for n in 0..6u64 {
        let data = pattern(n, SEAM, 1000);
        writer.write_all_at(&data, SEAM).expect("write");
        want[SEAM as usize..][..1000].copy_from_slice(&data);
        read(&reader, 0, &want);
    }
    b.drop_caches().expect("drop");
    writer.write_all_at(&[7; 1000], SEAM).expect("write");
    want[SEAM as usize..][..1000].fill(7);
    let (asts, bytes) = (asked_back(&a), sum(&b, |t| t.read_bytes));
    for at in (0..SEAM).step_by(STEP) {
        read(&reader, at, &want);
        // Under the lock that the writer still has.
        writer.write_all_at(&at.to_le_bytes(), SEAM + at).expect("write");
        want[(SEAM + at) as usize..][..8].copy_from_slice(&at.to_le_bytes());
    }
    let stats = b.stats();
    assert_eq!(asked_back(&a), asts, "read-ahead has taken the writer's lock away: {}", a.stats());
    assert_eq!(sum(&b, |t| t.read_bytes) - bytes, SEAM, "each byte once, and none beyond the lock: {stats}");
    assert!(stats.cache.readahead_issued_bytes > 0, "it did read ahead: {stats}");
    for at in (SEAM..LEN as u64).step_by(STEP) {
        read(&reader, at, &want);
    }
    assert!(asked_back(&a) > asts, "the read itself does ask for it");
}
