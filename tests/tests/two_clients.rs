//! What one client sees of another: behaviours that a cluster file system's two-mount tests check.

use clio::{Client, Errno, Layout, OpenOptions};
use clio_tests::{clients, content, narrow, pattern, read_write};
use std::sync::Barrier;
use std::thread;

fn append() -> OpenOptions {
    OpenOptions::new().append(true).create(true)
}

#[test]
fn attributes_changed_here_are_seen_there() {
    let [a, b] = clients(2);
    a.create("/f").expect("create").write_all_at(&[1; 5000], 0).expect("write");
    a.set_mode("/f", 0o600).expect("chmod");
    a.set_owner("/f", Some(12), Some(34)).expect("chown");
    a.set_times("/f", Some(1_000_000_000), Some(2_000_000_000)).expect("utimes");
    let m = b.metadata("/f").expect("stat");
    assert_eq!((m.len(), m.mode(), m.uid(), m.gid()), (5000, 0o600, 12, 34));
    assert_eq!(m.mtime_ns(), 2_000_000_000);
}

#[test]
fn blocks_are_seen_after_a_synchronous_write() {
    let [a, b] = clients(1);
    let file = a.create("/f").expect("create");
    file.write_all_at(&[1; 64 << 10], 0).expect("write");
    file.sync_all().expect("sync");
    assert!(b.metadata("/f").expect("stat").blocks() >= 128);
}

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
fn a_file_removed_there_stays_while_open_here() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(2, 0, 100_000), 0).expect("write");
    b.remove_file("/f").expect("remove");
    assert_eq!(a.open_file("/f").expect_err("gone").errno(), Errno::ENOENT);
    a.drop_caches().expect("drop");
    let mut got = vec![0; 100_000];
    file.read_exact_at(&mut got, 0).expect("read");
    assert_eq!(got, pattern(2, 0, 100_000));
    file.write_all_at(&[7; 10], 0).expect("write");
    file.sync_all().expect("sync");
}

#[test]
fn appends_of_less_than_a_page_take_turns() {
    let [a, b] = clients(2);
    let (fa, fb) = (a.open_with("/f", append()).expect("open"), b.open_with("/f", append()).expect("open"));
    let mut want = Vec::new();
    for n in 0..100u64 {
        let data = pattern(n, 0, 1 + (n as usize * 37) % 900);
        let file = if n % 2 == 0 { &fa } else { &fb };
        assert_eq!(file.append(&data).expect("append"), want.len() as u64);
        want.extend(data);
    }
    assert_eq!(content(&a, "/f"), want);
    assert_eq!(content(&b, "/f"), want);
}

#[test]
fn append_to_a_striped_sparse_file() {
    let [a, b] = clients(3);
    let file = a.open_with("/f", read_write().layout(narrow(3))).expect("open");
    file.set_len(1_000_000).expect("grow");
    let at = b.open_with("/f", append()).expect("open").append(b"tail").expect("append");
    assert_eq!(at, 1_000_000);
    let all = content(&a, "/f");
    assert!(all[..1_000_000].iter().all(|x| *x == 0) && &all[1_000_000..] == b"tail");
}

#[test]
fn concurrent_appenders_lose_and_mix_nothing() {
    const EACH: usize = 200;
    let all = clients::<4>(2);
    thread::scope(|s| {
        for (who, client) in all.iter().enumerate() {
            s.spawn(move || {
                let file = client.open_with("/f", append()).expect("open");
                for n in 0..EACH {
                    file.append(&[who as u8 + 1; 100].map(|b| b + (n % 2) as u8 * 100)).expect("append");
                }
            });
        }
    });
    let got = content(&all[0], "/f");
    assert_eq!(got.len(), 4 * EACH * 100);
    for record in got.chunks(100) {
        assert!(record.iter().all(|b| *b == record[0]), "a record is mixed");
    }
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
fn direct_here_buffered_there() {
    let [a, b] = clients(2);
    let direct = a.open_with("/f", read_write().direct(true).layout(narrow(2))).expect("open");
    let cached = b.open_with("/f", read_write()).expect("open");
    let mut want = vec![0; 250_000];
    for n in 0..20u64 {
        let at = (n * 12_347) as usize % 150_000;
        let data = pattern(n, 0, 90_001);
        if n % 2 == 0 { &direct } else { &cached }.write_all_at(&data, at as u64).expect("write");
        want[at..at + data.len()].copy_from_slice(&data);
        let mut got = vec![0; 1000];
        for file in [&direct, &cached] {
            file.read_exact_at(&mut got, at as u64 + 500).expect("read");
            assert_eq!(got, want[at + 500..at + 1500]);
        }
    }
    let end = content(&a, "/f").len();
    assert_eq!(content(&b, "/f"), want[..end]);
}

#[test]
fn size_after_a_direct_write_is_seen() {
    let [a, b] = clients(2);
    let direct = a.open_with("/f", read_write().direct(true).layout(narrow(2))).expect("open");
    let watch = b.open_file("/f").expect("open");
    for n in 1..10u64 {
        direct.write_all_at(&[n as u8; 50_000], (n - 1) * 50_000).expect("write");
        assert_eq!(watch.metadata().expect("stat").len(), n * 50_000);
        assert_eq!(a.metadata("/f").expect("stat").len(), n * 50_000);
    }
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

#[test]
fn largest_offsets() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let max = i64::MAX as u64;
    assert_eq!(file.write_at(b"xy", max).expect_err("beyond").errno(), Errno::EFBIG);
    assert_eq!(file.set_len(max + 1).expect_err("no size").errno(), Errno::EINVAL);
    assert_eq!(file.write_at(b"xy", max + 1).expect_err("no offset").errno(), Errno::EINVAL);
    file.write_all_at(b"far", 1 << 40).expect("write");
    assert_eq!(b.metadata("/f").expect("stat").len(), (1 << 40) + 3);
    let mut got = [1; 6];
    assert_eq!(b.open_file("/f").expect("open").read_at(&mut got, (1 << 40) - 2).expect("read"), 5);
    assert_eq!(&got[..5], b"\0\0far");
}

#[test]
fn more_stripes_than_targets_need_overstriping() {
    let [a] = clients(2);
    let e = a.open_with("/f", read_write().layout(narrow(4))).expect_err("too many");
    assert_eq!(e.errno(), Errno::EINVAL);
    assert!(e.to_string().contains("overstriping"), "{e}");
    let layout = Layout::raid0().overstripe_count(5).stripe_size(64 << 10);
    let file = a.open_with("/g", read_write().layout(layout)).expect("open");
    let data = pattern(3, 0, 1_000_000);
    file.write_all_at(&data, 0).expect("write");
    a.drop_caches().expect("drop");
    assert_eq!(content(&a, "/g"), data);
}

#[test]
fn many_stripes() {
    let [a, b] = clients(3);
    let layout = Layout::raid0().overstripe_count(300).stripe_size(64 << 10);
    let file = a.open_with("/f", read_write().layout(layout)).expect("open");
    let data = pattern(4, 0, 25 << 20);
    file.write_all_at(&data, 0).expect("write");
    assert_eq!(content(&b, "/f"), data);
}

#[test]
fn composite_files_grow_through_their_components() {
    let [a, b] = clients(3);
    let layout = Layout::composite()
        .until(256 << 10)
        .stripe_count(1)
        .stripe_size(64 << 10)
        .to_eof()
        .stripe_count(3)
        .stripe_size(128 << 10);
    let file = a.open_with("/f", read_write().layout(layout)).expect("open");
    let watch = b.open_file("/f").expect("open");
    let made = |c: &Client| c.layout("/f").expect("layout").1.stripes().count();
    file.write_all_at(&pattern(5, 0, 1000), 0).expect("write");
    assert_eq!(made(&a), 1, "only the first component has stripes");
    let mut buf = [9; 10];
    assert_eq!(watch.read_at(&mut buf, 300 << 10).expect("read"), 0, "short at a missing component");
    let data = pattern(5, 0, 1_000_000);
    file.write_all_at(&data, 0).expect("write");
    assert_eq!(made(&b), 4);
    watch.read_exact_at(&mut buf, 300 << 10).expect("the other client learns of it");
    assert_eq!(content(&b, "/f"), data);
    a.drop_caches().expect("drop");
    assert_eq!(content(&a, "/f"), data);
}

#[test]
fn sparse_files_are_mapped() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&[1; 4096], 1 << 20).expect("write");
    file.write_all_at(&[1; 4096], 3 << 20).expect("write");
    let watch = b.open_file("/f").expect("open");
    assert_eq!(watch.seek_data(0).expect("data"), 1 << 20);
    assert_eq!(watch.seek_hole(1 << 20).expect("hole"), (1 << 20) + 4096);
    assert_eq!(watch.seek_data((1 << 20) + 4096).expect("data"), 3 << 20);
    assert_eq!(watch.seek_hole(3 << 20).expect("the end is a hole"), (3 << 20) + 4096);
    assert_eq!(watch.seek_data(4 << 20).expect_err("beyond").errno(), Errno::ENXIO);
}

#[test]
fn names_made_and_removed_by_two_at_once() {
    let [a, b] = clients(1);
    a.mkdir("/d").expect("mkdir");
    let won: usize = thread::scope(|s| {
        let sides: Vec<_> = [&a, &b]
            .into_iter()
            .map(|c| {
                s.spawn(move || {
                    let mut won = 0;
                    for n in 0..200 {
                        let new = OpenOptions::new().write(true).create_new(true);
                        won += usize::from(c.open_with(format!("/d/{n}"), new).is_ok());
                        let _ = c.rename(format!("/d/{n}"), format!("/d/moved-{}", n % 10));
                    }
                    won
                })
            })
            .collect();
        sides.into_iter().map(|t| t.join().expect("thread")).sum()
    });
    assert!(won >= 200, "each name was made at least once: {won}");
    assert_eq!(a.read_dir("/d").expect("list"), b.read_dir("/d").expect("list"));
    assert!(a.check(false).expect("check").is_clean());
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
