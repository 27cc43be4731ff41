//! Targets without space: in the middle of write-behind, for several writers at once, for one stripe of many.

mod disk;

use clio::{Client, Errno, File};
use clio_core::target::Op;
use clio_targets::wrap::Fault;
use clio_tests::faults::{Kind, World, dirty, eventually, idle};
use clio_tests::{content, narrow, pattern, read_write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const KB: u64 = 1 << 10;
const FULL: Fault = Fault::Refuse(Errno::ENOSPC);

fn errno<T: std::fmt::Debug>(result: clio::Result<T>) -> Option<Errno> {
    result.err().map(|e| e.errno())
}

/// Writes pieces of 8 KiB from `at` on, until one is refused. Returns where the accepted data ends.
fn fill(file: &File, seed: u64, mut at: u64, most: u64) -> u64 {
    while at < most {
        match file.write_at(&pattern(seed, at, 8 << 10), at) {
            Ok(n) => at += n as u64,
            Err(e) => {
                assert_eq!(e.errno(), Errno::ENOSPC, "{e}");
                break;
            }
        }
    }
    at
}

/// As [`fill`], with every piece made durable before the next: nothing waits for space that another piece takes.
fn fill_durably(file: &File, seed: u64, mut at: u64, most: u64) -> u64 {
    while at < most {
        let end = fill(file, seed, at, at + (8 << 10));
        if end == at {
            break;
        }
        file.sync_all().expect("what was accepted has its space");
        at = end;
    }
    at
}

/// Drops what the client knows: a size that a refused write raised in its cache is taken back a moment after the refusal.
fn forget(client: &Client) {
    client.drop_caches().expect("nothing is left to write");
    idle(client);
}

/// Bytes in use at the targets, and bytes that the files use.
fn in_use(client: &Client, files: &[String]) -> (u64, u64) {
    let (total, free) = client.space();
    let blocks = |path: &String| client.metadata(path).expect("stat").blocks() * 512;
    (total - free, files.iter().map(blocks).sum())
}

/// A part of a synchronous write that goes out before the rest, and fails, makes the write fail: it isn't left to a later
/// fsync to tell.
#[test]
fn a_synchronous_write_tells_what_failed_on_its_way() {
    let world = World::new(2);
    let [a, _] = world.two_clients();
    let file = a.open_with("/f", read_write().dsync(true).layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(1, 0, 1000), 0).expect("write");
    let failed = AtomicBool::new(false);
    world.rule(move |_, op| (Kind::of(op) == Kind::Write && !failed.swap(true, Ordering::Relaxed)).then_some(FULL));
    assert_eq!(errno(file.write_at(&pattern(2, 0, 32 << 20), 0)), Some(Errno::ENOSPC));
    file.sync_all().expect("told once");
    world.heal();
}

/// What a synchronous write returns for is there, to the last byte that fits; what is refused owes nothing.
#[test]
fn synchronous_writers_fill_a_store_to_its_end() {
    let world = World::with_capacities(&[4096 * KB, 4096 * KB]);
    let [a, b] = world.two_clients();
    let dsync = || read_write().dsync(true).layout(narrow(2));
    let (files, log) = ([&a, &b].map(|c| c.open_with("/f", dsync()).expect("open")), dsync().append(true));
    let end = fill(&files[0], 1, 0, 40 * KB);
    let sent: u64 = a.stats().targets.iter().map(|t| t.written_bytes).sum();
    assert_eq!(sent, 40 * KB, "less than a request's worth, and all of it is at its target");
    assert_eq!(fill(&files[1], 1, end, 256 * KB), 256 * KB);
    let log = b.open_with("/log", log).expect("open");
    let mut logged = 0;
    let e = loop {
        match log.append(&pattern(2, logged, 50_000)) {
            Ok(at) => assert_eq!(at, logged),
            Err(e) => break e,
        }
        logged += 50_000;
        assert!(logged <= 8192 * KB, "more than there is");
    };
    assert_eq!(e.errno(), Errno::ENOSPC, "{e}");
    assert!(logged > 4096 * KB, "a good part of what was left: {logged}");
    // Of each, what goes over what is there needs no room.
    files[0].write_all_at(&pattern(3, 0, 8 << 10), 0).expect("write");
    for file in files.iter().chain([&log]) {
        file.sync_all().expect("told already");
    }
    for c in [&a, &b] {
        forget(c);
        let f = content(c, "/f");
        assert!(f[..8 << 10] == pattern(3, 0, 8 << 10) && f[8 << 10..] == pattern(1, 8 << 10, 248 << 10));
        let got = content(c, "/log");
        let whole: Vec<u8> = (0..logged).step_by(50_000).flat_map(|at| pattern(2, at, 50_000)).collect();
        assert!(got.len() >= whole.len() && got[..whole.len()] == whole, "what was acknowledged is there");
    }
    files.into_iter().chain([log]).for_each(|f| f.close().expect("nothing is owed"));
    world.end([a, b]);
}

#[test]
fn write_behind_that_meets_a_full_target_is_told_once() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let second = a.open_with("/f", read_write()).expect("open");
    let safe = pattern(1, 0, 200_000);
    file.write_all_at(&safe, 0).expect("write");
    file.sync_all().expect("fsync");
    // The promised space is gone, by whatever happened to the disk.
    world.fail(Kind::Write, FULL);
    file.write_all_at(&[9; 100], 300_000).expect("accepted");
    file.flush_data().expect_err("written out in vain");
    // Until it is told, writes go out at once and tell themselves.
    assert_eq!(errno(file.write_at(&[8; 100], 310_000)), Some(Errno::ENOSPC));
    eventually("nothing is dirty", || dirty(&a.stats()) == 0);
    let e = file.sync_all().expect_err("told");
    assert_eq!(e.errno(), Errno::ENOSPC);
    file.sync_all().expect("told once");
    file.sync_data().expect("told once");
    file.close().expect("told once");
    assert_eq!(errno(second.close()), Some(Errno::ENOSPC), "the other one that was open");
    world.heal();
    forget(&a);
    assert!(content(&b, "/f")[..200_000] == safe, "what fsync has acknowledged is there");
    let file = a.open_with("/f", read_write()).expect("open");
    file.write_all_at(&[7; 100], 300_000).expect("write");
    assert!(dirty(&a.stats()) > 0, "write-behind again");
    file.sync_all().expect("fsync");
    assert_eq!(content(&b, "/f")[300_000..], [7; 100]);
    file.close().expect("close");
    world.end([a, b]);
}

#[test]
fn all_space_is_used_and_what_returns_is_used_again() {
    let world = World::with_capacities(&[512 * KB, 512 * KB]);
    let client = world.client();
    let other = client.open_with("/other", read_write().layout(narrow(2))).expect("open");
    assert_eq!(fill_durably(&other, 1, 0, 256 * KB), 256 * KB);
    other.close().expect("close");
    let file = client.open_with("/f", read_write().layout(narrow(2))).expect("open");
    let end = fill_durably(&file, 2, 0, 4 << 20);
    assert_eq!(end, 768 * KB, "all that is left");
    file.sync_all().expect("a refused write owes nothing");
    assert_eq!(in_use(&client, &["/f".into(), "/other".into()]), (1024 * KB, 1024 * KB));
    assert_eq!(errno(file.write_at(&[1; 8192], end)), Some(Errno::ENOSPC), "still full");
    file.write_all_at(&pattern(2, 4096, 8192), 4096).expect("in place it needs no space");
    client.remove_file("/other").expect("unlink");
    let more = fill_durably(&file, 2, end, 4 << 20);
    assert_eq!(more, 1024 * KB);
    file.sync_all().expect("fsync");
    assert_eq!(errno(file.write_at(&[1; 8192], more)), Some(Errno::ENOSPC));
    file.set_len(100_000).expect("a full target can be cut");
    let cut = fill_durably(&file, 2, 100_000, 400_000);
    assert!(cut >= 400_000);
    file.close().expect("close");
    client.drop_caches().expect("drop");
    assert!(content(&client, "/f") == pattern(2, 0, cut as usize));
    world.end([client]);
}

#[test]
fn several_writers_at_once_all_learn_of_it() {
    let world = World::with_capacities(&[1024 * KB, 1024 * KB]);
    let clients = world.two_clients();
    let files: Vec<_> = (0..4).map(|n| format!("/{n}")).collect();
    // What each was told to be durable.
    let durable: Vec<u64> = thread::scope(|s| {
        let writers: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(n, path)| {
                let client = &clients[n % 2];
                s.spawn(move || {
                    let file = client.open_with(path, read_write().layout(narrow(2))).expect("open");
                    let (mut safe, mut learnt) = (0, false);
                    while !learnt {
                        let end = fill(&file, n as u64, safe, safe + 64 * KB);
                        learnt = end < safe + 64 * KB;
                        match file.sync_all() {
                            Ok(()) => safe = end,
                            Err(e) => {
                                assert_eq!(e.errno(), Errno::ENOSPC, "{e}");
                                learnt = true;
                            }
                        }
                        assert!(safe <= 2048 * KB, "more than there is");
                    }
                    file.sync_all().expect("told once");
                    file.close().expect("told once");
                    safe
                })
            })
            .collect();
        writers.into_iter().map(|w| w.join().expect("writer")).collect()
    });
    clients.iter().for_each(forget);
    for (n, path) in files.iter().enumerate() {
        let safe = durable[n] as usize;
        for client in &clients {
            assert!(content(client, path)[..safe] == pattern(n as u64, 0, safe), "{path}: acknowledged data is lost");
        }
    }
    let (used, sum) = in_use(&clients[0], &files);
    assert_eq!(used, sum, "space that no file has");
    assert!(durable.iter().sum::<u64>() <= used);
    for path in &files {
        clients[0].remove_file(path).expect("unlink");
    }
    assert_eq!(in_use(&clients[1], &[]), (0, 0));
    let file = clients[1].open_with("/new", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(7, 0, 1 << 20), 0).expect("write");
    file.sync_all().expect("there is room again");
    file.close().expect("close");
    world.end(clients);
}

#[test]
fn two_clients_on_one_file_both_learn_of_it() {
    let world = World::new(1);
    let clients = world.two_clients();
    clients[0].open_with("/f", read_write().layout(narrow(1))).expect("open").close().expect("close");
    world.fail(Kind::Write, FULL);
    thread::scope(|s| {
        for (n, client) in clients.iter().enumerate() {
            s.spawn(move || {
                let file = client.open_with("/f", read_write()).expect("open");
                let wrote = file.write_all_at(&[1; 4096], n as u64 * 4096).map_err(|e| e.errno());
                let synced = file.sync_all().map_err(|e| e.errno());
                let told = [wrote, synced].into_iter().filter(|r| *r == Err(Errno::ENOSPC)).count();
                assert!(told >= 1, "client {n}: {wrote:?}, {synced:?}");
                file.sync_all().expect("told once");
                file.close().expect("told once");
            });
        }
    });
    world.heal();
    clients.iter().for_each(forget);
    world.end(clients);
}

#[test]
fn append_with_one_stripe_full() {
    let world = World::with_capacities(&[1 << 30, 64 * KB, 1 << 30]);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().append(true).layout(narrow(3))).expect("open");
    let mut want = Vec::new();
    let end = loop {
        let data = pattern(want.len() as u64, 0, 30_000);
        match file.append(&data).and_then(|at| file.sync_all().map(|()| at)) {
            Ok(at) => {
                assert_eq!(at, want.len() as u64);
                want.extend(data);
            }
            Err(e) => break e,
        }
        assert!(want.len() < 1 << 20, "the second stripe has room for one unit only");
    };
    assert!(end.errno() == Errno::ENOSPC && end.detail().contains("were appended"), "{end}");
    forget(&a);
    assert_eq!(file.sync_all().map_err(|e| e.errno()), Ok(()), "told");
    let got = content(&b, "/f");
    assert!(got.len() >= want.len() && got[..want.len()] == want, "what was acknowledged is there");
    assert!(content(&a, "/f") == got, "both see the same");
    // Room on the other stripes is no help to the second, but they can be written.
    let elsewhere = a.open_with("/g", read_write().layout(narrow(1).first_target(2))).expect("open");
    elsewhere.write_all_at(&[1; 200_000], 0).expect("write");
    elsewhere.sync_all().expect("fsync");
    elsewhere.close().expect("close");
    file.set_len(100_000).expect("truncate");
    assert_eq!(file.append(b"tail").expect("append"), 100_000);
    file.sync_all().expect("fsync");
    want.truncate(100_000);
    want.extend(b"tail");
    assert!(content(&b, "/f") == want);
    file.close().expect("close");
    world.end([a, b]);
}

#[test]
fn append_with_all_stripes_full() {
    let world = World::with_capacities(&[64 * KB, 64 * KB]);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().append(true).layout(narrow(2))).expect("open");
    let data = pattern(1, 0, 128 << 10);
    file.append(&data).expect("append");
    file.sync_all().expect("fsync");
    for _ in 0..3 {
        assert_eq!(errno(file.append(&[1; 5000])), Some(Errno::ENOSPC));
    }
    file.sync_all().expect("nothing is owed");
    forget(&a);
    assert!(content(&a, "/f") == data, "a refused append leaves nothing");
    assert!(content(&b, "/f") == data);
    let new = b.open_with("/g", read_write().layout(narrow(2))).expect("names need no target");
    assert_eq!(errno(new.write_at(&[1; 10], 0)), Some(Errno::ENOSPC));
    new.close().expect("nothing is owed");
    file.close().expect("close");
    world.end([a, b]);
}

#[test]
fn requests_that_take_no_space_work_on_a_full_target() {
    let world = World::with_capacities(&[256 * KB]);
    let [a, b] = world.two_clients();
    let file = a.open_with("/f", read_write().layout(narrow(1))).expect("open");
    let end = fill_durably(&file, 1, 0, 1 << 20);
    file.sync_all().expect("fsync");
    forget(&a);
    world.rule(|_, op| {
        assert!(!matches!(op, Op::Write { .. }), "nothing is written");
        None
    });
    assert!(content(&b, "/f") == pattern(1, 0, end as usize));
    file.punch_hole(0, 64 << 10).expect("punch");
    file.set_len(end - 100).expect("truncate");
    b.rename("/f", "/g").expect("rename");
    assert_eq!(b.metadata("/g").expect("stat").len(), end - 100);
    world.heal();
    file.write_all_at(&[5; 64 << 10], 0).expect("the hole made room");
    file.sync_all().expect("fsync");
    file.close().expect("close");
    world.end([a, b]);
}
