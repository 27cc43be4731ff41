//! Attributes: sizes, times, modes and owners of one client as another sees them.

use clio::{Client, Metadata, OpenOptions};
use clio_targets::wrap::Fault;
use clio_tests::faults::{Kind, World, eventually};
use clio_tests::{clients, content, narrow, pattern, read_write};
use std::thread;
use std::time::Duration;

/// Lets the kernel's clock, with which data is stamped, tick.
fn tick() {
    thread::sleep(Duration::from_millis(15));
}

fn times(m: &Metadata) -> (u64, u64) {
    (m.mtime_ns(), m.ctime_ns())
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

/// What was written before the times are set goes out before that, so as not to be stamped later; nothing else happens.
#[test]
fn setting_times_writes_out_that_file_alone_and_drops_nothing() {
    let [a] = clients(2);
    let (set, other) = (pattern(1, 0, 200_000), pattern(2, 0, 50_000));
    let file = a.open_with("/set", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&set, 0).expect("write");
    a.create("/other").expect("create").write_all_at(&other, 0).expect("write");
    let sums = || {
        let stats = a.stats();
        let sum = |of: fn(&clio::TargetStats) -> u64| stats.targets.iter().map(of).sum::<u64>();
        (sum(|t| t.written_bytes), sum(|t| t.read_bytes), sum(|t| t.locks_cached), stats.cache.folios)
    };
    let (written, read, locks, folios) = sums();
    a.set_times("/set", None, Some(1_000_000_000)).expect("utimes");
    assert_eq!(sums(), (written + 200_000, read, locks, folios), "the other file stays dirty, and all stays cached");
    assert!(content(&a, "/set") == set && content(&a, "/other") == other);
    assert_eq!(sums().1, read, "read from the cache");
    a.drop_caches().expect("drop");
    assert_eq!(a.metadata("/set").expect("stat").mtime_ns(), 1_000_000_000, "the write-out is not stamped later");
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
fn every_change_of_size_is_seen_there() {
    let [a, b] = clients(3);
    let file = a.open_with("/f", read_write().layout(narrow(3))).expect("open");
    let appender = a.open_with("/f", OpenOptions::new().append(true)).expect("open");
    let watch = b.open_file("/f").expect("open");
    let seen = |size: u64, what: &str| {
        assert_eq!(watch.metadata().expect("stat").len(), size, "{what}: by the open file");
        assert_eq!(b.metadata("/f").expect("stat").len(), size, "{what}: by name");
        let mut all = vec![0; size as usize + 100];
        assert_eq!(watch.read_at(&mut all, 0).expect("read"), size as usize, "{what}: by reading");
    };
    seen(0, "made");
    for drops in [false, true] {
        let drop_caches = || {
            if drops {
                a.drop_caches().expect("drop")
            }
        };
        file.write_all_at(&[1; 100], 70_000).expect("write");
        drop_caches();
        seen(70_100, "write");
        appender.append(&[2; 70_000]).expect("append");
        drop_caches();
        seen(140_100, "append");
        file.set_len(5).expect("truncate");
        drop_caches();
        seen(5, "cut");
        file.set_len(300_000).expect("grow");
        drop_caches();
        seen(300_000, "grown");
        file.punch_hole(200_000, 200_000).expect("punch");
        drop_caches();
        seen(300_000, "a hole beyond the end");
        a.create("/f").expect("cut by opening");
        drop_caches();
        seen(0, "cut by opening");
    }
}

#[test]
fn owner_and_mode_are_seen_through_open_files_and_links() {
    let [a, b] = clients(1);
    a.create("/f").expect("create");
    a.hard_link("/f", "/g").expect("link");
    let watch = b.open_file("/g").expect("open");
    let ctime = watch.metadata().expect("stat").ctime_ns();
    tick();
    a.set_mode("/f", 0o640).expect("chmod");
    a.set_owner("/f", Some(7), None).expect("chown");
    a.set_owner("/f", None, Some(9)).expect("chown");
    for m in [watch.metadata().expect("stat"), b.metadata("/f").expect("stat"), b.metadata("/g").expect("stat")] {
        assert_eq!((m.mode(), m.uid(), m.gid(), m.nlink()), (0o640, 7, 9, 2));
        assert!(m.ctime_ns() > ctime, "the change of attributes is dated");
    }
}

/// The times that a change made at `a` leaves at `b`, where `a` holds locks and dirty data before it, and where not.
fn check_times(what: &str, moves_mtime: bool, change: impl Fn(&Client)) {
    for held in [true, false] {
        let what = format!("{what}, lock held: {held}");
        let [a, b] = clients(2);
        let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
        file.write_all_at(&pattern(1, 0, 200_000), 0).expect("write");
        if !held {
            a.drop_caches().expect("drop");
            assert_eq!(sum_locks(&a), 0);
        }
        let before = times(&b.metadata("/f").expect("stat"));
        tick();
        change(&a);
        let name = if b.exists("/f") { "/f" } else { "/moved" };
        let after = times(&b.metadata(name).expect("stat"));
        assert!(after.1 > before.1, "{what}: ctime {before:?} {after:?}");
        assert_eq!(after.0 > before.0, moves_mtime, "{what}: mtime {before:?} {after:?}");
        assert_eq!(times(&a.metadata(name).expect("stat")), after, "{what}: both see the same");
        // What is written out, or looked at, later moves nothing any more.
        tick();
        a.drop_caches().expect("drop");
        assert_eq!(times(&b.metadata(name).expect("stat")), after, "{what}: after the write-out");
        b.drop_caches().expect("drop");
        assert_eq!(times(&b.metadata(name).expect("stat")), after, "{what}: asked anew");
    }
}

fn sum_locks(client: &Client) -> u64 {
    crate::sum(client, |t| t.locks_cached)
}

#[test]
fn a_rename_dates_the_change_but_not_the_data() {
    check_times("rename", false, |a| a.rename("/f", "/moved").expect("rename"));
}

#[test]
fn a_truncate_dates_change_and_data() {
    check_times("cut", true, |a| {
        a.open_with("/f", read_write()).expect("open").set_len(70_000).expect("truncate");
    });
    check_times("grown", true, |a| {
        a.open_with("/f", read_write()).expect("open").set_len(700_000).expect("truncate");
    });
}

#[test]
fn a_synchronous_write_dates_change_and_data() {
    check_times("O_DSYNC", true, |a| {
        a.open_with("/f", read_write().dsync(true)).expect("open").write_all_at(&[3; 10], 5).expect("write");
    });
    check_times("direct", true, |a| {
        a.open_with("/f", read_write().direct(true)).expect("open").write_all_at(&[3; 9_000], 65_000).expect("write");
    });
}

#[test]
fn a_cached_write_dates_change_and_data() {
    check_times("write", true, |a| {
        a.open_with("/f", read_write()).expect("open").write_all_at(&[3; 10], 66_000).expect("write");
    });
}

#[test]
fn times_that_were_set_stay_until_the_next_write_here_or_there() {
    const SET: u64 = 1_000_000_000;
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&[1; 100_000], 0).expect("write");
    tick();
    b.set_times("/f", Some(SET), Some(SET)).expect("utimes");
    let mtimes = || [&a, &b].map(|c| c.metadata("/f").expect("stat").mtime_ns());
    assert_eq!(mtimes(), [SET; 2], "dirty data of before is older");
    file.sync_all().expect("sync");
    a.drop_caches().expect("drop");
    assert_eq!(mtimes(), [SET; 2], "so is its write-out");
    tick();
    file.write_all_at(&[2; 10], 0).expect("write");
    let written = mtimes();
    assert!(written[0] > SET && written[0] == written[1], "{written:?}");
}

#[test]
fn a_read_here_is_dated_there() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&[1; 1000], 0).expect("write");
    let atime = |c: &Client| c.metadata("/f").expect("stat").atime_ns();
    let made = atime(&a);
    tick();
    let reader = b.open_file("/f").expect("open");
    assert_eq!(atime(&a), made, "opening is no reading");
    let changed = times(&a.metadata("/f").expect("stat"));
    reader.read_exact_at(&mut [0; 10], 0).expect("read");
    let read = atime(&a);
    assert!(read > made, "{made} {read}");
    assert_eq!(atime(&b), read);
    assert_eq!(times(&a.metadata("/f").expect("stat")), changed, "nothing else is dated by it");
    // As with relatime, later reads are not worth a mention, until the file is written again.
    tick();
    let again = b.open_file("/f").expect("open");
    again.read_exact_at(&mut [0; 10], 0).expect("read");
    again.close().expect("close");
    assert_eq!(atime(&a), read);
    tick();
    file.write_all_at(&[2; 10], 0).expect("write");
    assert_eq!(atime(&a), read, "writing is no reading");
    reader.read_exact_at(&mut [0; 10], 0).expect("read");
    reader.close().expect("close");
    assert!(atime(&a) > read, "told at close at the latest");
}

/// A write that waits for its lock says nothing about the size.
#[test]
fn a_truncate_is_seen_while_a_write_waits() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let mine = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let theirs = b.open_with("/f", read_write()).expect("open");
    mine.write_all_at(&pattern(1, 0, 200_000), 0).expect("write");
    theirs.set_len(100_000).expect("truncate");
    theirs.write_all_at(&[7; 10], 0).expect("write");
    world.fail(Kind::Write, Fault::HoldRequest);
    thread::scope(|s| {
        let _healed = world.heal_at_end();
        s.spawn(|| mine.write_all_at(&[8; 10], 5).expect("write"));
        eventually("the holder writes out", || world.held() == 1);
        assert_eq!(mine.metadata().expect("stat").len(), 100_000);
        assert_eq!(mine.read_at(&mut [0; 10], 110_000).expect("read"), 0, "beyond the end");
    });
    let mut want = pattern(1, 0, 100_000);
    want[..15].copy_from_slice(&[[7; 5], [8; 5], [8; 5]].concat());
    assert_eq!((content(&a, "/f"), content(&b, "/f")), (want.clone(), want));
    drop((mine, theirs));
    world.end([a, b]);
}
