//! Contents: what one client wrote, cut or dropped, and another reads.

use crate::{asked_back, at_once, sum, write_rpcs};
use clio::{Client, Errno, OpenOptions};
use clio_tests::{clients, content, narrow, pattern, read_write};
use std::sync::Barrier;
use std::thread;

#[test]
fn created_here_truncated_there() {
    let [a, b] = clients(3);
    let file = a.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.write_all_at(&pattern(1, 0, 300_000), 0).expect("write");
    b.open_with("/f", read_write()).expect("open").set_len(100_001).expect("truncate");
    assert_eq!(content(&a, "/f"), pattern(1, 0, 100_001));
    // Grown again, what was cut reads as zeros.
    file.set_len(200_000).expect("grow");
    let mut want = pattern(1, 0, 100_001);
    want.resize(200_000, 0);
    assert_eq!(content(&b, "/f"), want);
}

#[test]
fn two_writers_of_disjoint_areas() {
    const BLOCK: usize = 10_000;
    let [a, b] = clients(2);
    a.open_with("/f", read_write().layout(narrow(2))).expect("make");
    let start = Barrier::new(2);
    thread::scope(|s| {
        for (who, client) in [&a, &b].into_iter().enumerate() {
            let start = &start;
            s.spawn(move || {
                let file = client.open_with("/f", read_write()).expect("open");
                start.wait();
                for n in (who..60).step_by(2) {
                    file.write_all_at(&pattern(n as u64, 0, BLOCK), (n * BLOCK) as u64).expect("write");
                }
            });
        }
    });
    let got = content(&b, "/f");
    for n in 0..60 {
        assert_eq!(got[n * BLOCK..][..BLOCK], pattern(n as u64, 0, BLOCK), "block {n}");
    }
}

#[test]
fn a_reader_never_sees_half_of_a_small_write() {
    let [a, b] = clients(1);
    let file = a.create("/f").expect("create");
    file.write_all_at(&[0; 4096], 0).expect("write");
    thread::scope(|s| {
        s.spawn(|| {
            for n in 1..=200u8 {
                file.write_all_at(&[n; 4096], 0).expect("write");
            }
        });
        let reader = b.open_file("/f").expect("open");
        let mut last = 0;
        for _ in 0..200 {
            let mut buf = [0; 4096];
            reader.read_exact_at(&mut buf, 0).expect("read");
            assert!(buf.iter().all(|x| *x == buf[0]), "half of a write");
            assert!(buf[0] >= last, "an older write after a newer one");
            last = buf[0];
        }
    });
}

#[test]
fn caches_dropped_in_the_middle_change_nothing() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    thread::scope(|s| {
        let dropper = s.spawn(|| {
            for _ in 0..30 {
                a.drop_caches().expect("drop");
                b.drop_caches().expect("drop");
            }
        });
        let watch = b.open_file("/f").expect("open");
        for n in 0..300u64 {
            let at = (n * 7_001) % 200_000;
            let data = pattern(n, 0, 3_000);
            file.write_all_at(&data, at).expect("write");
            let mut got = vec![0; 3_000];
            watch.read_exact_at(&mut got, at).expect("read");
            if got != data {
                let bad: Vec<_> = (0..got.len()).filter(|i| got[*i] != data[*i]).collect();
                let again = |c: &Client, direct| {
                    let mut g = vec![0; 3000];
                    c.open_with("/f", read_write().direct(direct))
                        .expect("open")
                        .read_exact_at(&mut g, at)
                        .expect("read");
                    g == data
                };
                panic!(
                    "write {n} at {at}: {} bytes bad from {:?} to {:?}, again b {} a {} direct {}",
                    bad.len(),
                    bad.first(),
                    bad.last(),
                    again(&b, false),
                    again(&a, false),
                    again(&a, true)
                );
            }
            assert_eq!(got, data, "write {n}");
        }
        dropper.join().expect("thread");
    });
}

#[test]
fn a_failed_open_does_not_truncate() {
    let [a, b] = clients(1);
    a.create("/f").expect("create").write_all_at(b"keep", 0).expect("write");
    let bad = OpenOptions::new().read(true).truncate(true);
    assert_eq!(b.open_with("/f", bad).expect_err("refused").errno(), Errno::EINVAL);
    let taken = OpenOptions::new().write(true).truncate(true).create_new(true);
    assert_eq!(b.open_with("/f", taken).expect_err("refused").errno(), Errno::EEXIST);
    assert_eq!(content(&a, "/f"), b"keep");
}

/// Cuts a file with dirty data at `cutter`, the first or the second client, to `size`.
fn cut_dirty_data(cutter: usize, size: usize) {
    let what = format!("cut to {size} by client {cutter}");
    let all = clients::<2>(3);
    let file = all[0].open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.write_all_at(&pattern(8, 0, 400_000), 0).expect("write");
    file.write_all_at(&pattern(9, 0, 300), 65_400).expect("write");
    assert_eq!(sum(&all[0], |t| t.written_bytes), 0, "all is dirty");
    let mut want = pattern(8, 0, 400_000);
    want[65_400..65_700].copy_from_slice(&pattern(9, 0, 300));

    all[cutter].open_with("/f", read_write()).expect("open").set_len(size as u64).expect("truncate");
    want.truncate(size);
    for c in &all {
        assert_eq!(content(c, "/f"), want, "{what}");
    }
    // Nothing of what was cut comes back, neither from a cache nor from a late write-out.
    file.set_len(400_000).expect("grow");
    want.resize(400_000, 0);
    file.sync_all().expect("sync");
    for c in &all {
        assert_eq!(content(c, "/f"), want, "{what}, grown");
        c.drop_caches().expect("drop");
        assert_eq!(content(c, "/f"), want, "{what}, grown, caches dropped");
        c.check_invariants().expect("the books are in order");
    }
}

#[test]
fn a_partial_truncate_of_dirty_data() {
    for cutter in 0..2 {
        for size in [1, 4096, 65_500, 65_536, 131_073, 399_999] {
            cut_dirty_data(cutter, size);
        }
    }
}

#[test]
fn a_complete_truncate_of_dirty_data() {
    cut_dirty_data(0, 0);
    cut_dirty_data(1, 0);
}

#[test]
fn dirty_data_that_is_cut_is_not_written_out() {
    let [a, b] = clients(1);
    let file = a.create("/f").expect("create");
    file.write_all_at(&[1; 1 << 20], 0).expect("write");
    a.create("/f").expect("cut by opening");
    file.sync_all().expect("sync");
    assert_eq!(sum(&a, |t| t.written_bytes), 0, "{}", a.stats());
    assert_eq!(content(&b, "/f"), b"");
}

#[test]
fn concurrent_uncached_reads() {
    const LEN: usize = 3 << 20;
    let all = clients::<2>(3);
    let data = pattern(10, 0, LEN);
    all[0].open_with("/f", read_write().layout(narrow(3))).expect("open").write_all_at(&data, 0).expect("write");
    all[0].drop_caches().expect("drop");
    let before = all.each_ref().map(|c| (sum(c, |t| t.read_bytes), asked_back(c)));
    let start = Barrier::new(4);
    thread::scope(|s| {
        for (n, client) in all.iter().chain(&all).enumerate() {
            let (start, data) = (&start, &data);
            s.spawn(move || {
                let file = client.open_with("/f", OpenOptions::new().read(true).direct(n >= 2)).expect("open");
                start.wait();
                // Two go up, two go down, in steps that fit no block.
                let steps = LEN.div_ceil(30_001);
                for step in 0..steps {
                    let at = if n % 2 == 0 { step } else { steps - 1 - step } * 30_001;
                    let mut got = vec![0; 30_001.min(LEN - at)];
                    file.read_exact_at(&mut got, at as u64).expect("read");
                    assert_eq!(got, data[at..][..got.len()], "reader {n} at {at}");
                }
            });
        }
    });
    for (client, (read, asts)) in all.iter().zip(before) {
        let stats = client.stats();
        assert!(sum(client, |t| t.read_bytes) >= read + LEN as u64, "it came from the targets: {stats}");
        assert_eq!(asked_back(client), asts, "readers take nothing from each other: {stats}");
    }
}

#[test]
fn small_writes_go_out_together_when_another_client_reads() {
    let [a, b] = clients(1);
    let file = a.create("/f").expect("create");
    let mut want = vec![0; 2000 * 131];
    // Every record once, in an order that isn't theirs; 1237 and 2000 have no common divisor.
    for n in 0..2000u64 {
        let at = (n * 1237 % 2000) * 131;
        let data = pattern(n, at, 131);
        file.write_all_at(&data, at).expect("write");
        want[at as usize..][..131].copy_from_slice(&data);
    }
    assert_eq!(write_rpcs(&a.stats()), 0, "nothing has gone out yet");
    assert_eq!(content(&b, "/f"), want);
    let stats = a.stats();
    assert!((1..=2).contains(&write_rpcs(&stats)), "{stats}");
    assert_eq!(stats.targets[0].written_bytes, want.len() as u64, "each byte once, and no filler: {stats}");
}

#[test]
fn a_page_is_dirtied_that_was_written_before() {
    let [a, b] = clients(1);
    let file = a.create("/f").expect("create");
    let watch = b.open_file("/f").expect("open");
    let mut want = vec![0; 8192];
    for n in 1..=20u8 {
        let at = usize::from(n) * 301;
        file.write_all_at(&[n; 1500], at as u64).expect("write");
        want[at..at + 1500].fill(n);
        let before = a.stats();
        file.sync_data().expect("sync");
        let after = a.stats();
        assert_eq!(after.targets[0].written_bytes - before.targets[0].written_bytes, 1500, "what is new, once");
        assert_eq!(write_rpcs(&after) - write_rpcs(&before), 1);
        if n % 3 == 0 {
            let mut got = vec![0; at + 1500];
            watch.read_exact_at(&mut got, 0).expect("read");
            assert_eq!(got, want[..at + 1500], "round {n}");
        }
        file.sync_data().expect("sync");
        assert_eq!(write_rpcs(&a.stats()), write_rpcs(&after), "nothing is dirty now");
    }
}

#[test]
fn a_file_that_was_just_made_is_written_by_both_at_once() {
    let [a, b] = clients(2);
    for n in 0..150u64 {
        let path = format!("/fresh-{n}");
        let side = |c: &Client, at: u64| {
            let file = c.open_with(&path, read_write().layout(narrow(2))).expect("open");
            assert!(matches!(file.metadata().expect("stat").len(), 0 | 3000 | 6000));
            file.write_all_at(&pattern(n + at, at, 3000), at).expect("write");
            assert!(matches!((file.metadata().expect("stat").len(), at), (3000, 0) | (6000, _)));
        };
        at_once(|| side(&a, 0), || side(&b, 3000));
        let want = [pattern(n, 0, 3000), pattern(n + 3000, 3000, 3000)].concat();
        assert_eq!(content(&a, &path), want, "round {n}");
        assert_eq!(content(&b, &path), want, "round {n}");
    }
    assert!(a.check(false).expect("check").is_clean());
}
