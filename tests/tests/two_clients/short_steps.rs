//! A read or a write that meets a short step goes on, to the end of the file or to an error: it doesn't return early.
//! (The fault: short I/O returned early, LU-6389.)

use crate::append;
use clio::{Errno, File, OpenOptions};
use clio_core::sync::Mutex;
use clio_core::target::Op;
use clio_targets::wrap::Fault;
use clio_tests::faults::{Kind, World};
use clio_tests::{clients, narrow, pattern, read_write};
use std::collections::HashSet;
use std::io::IoSliceMut;

const UNIT: usize = 64 << 10;

/// What one call reads, of up to `len` bytes.
fn read_once(file: &File, len: usize) -> Vec<u8> {
    let mut got = vec![0xA5; len];
    let n = file.read_at(&mut got, 0).expect("read");
    got.truncate(n);
    got
}

/// Objects that end early, or that have nothing: each unit read from them is short, and in the middle of the file.
#[test]
fn a_read_goes_on_over_stripes_that_end_early() {
    let [a, b] = clients(3);
    let writer = a.open_with("/f", read_write().layout(narrow(3))).expect("open");
    let mut want = vec![0; 8 * UNIT + 40_010];
    for (at, len) in [(0, 100), (5 * UNIT + 7, 3), (8 * UNIT + 40_000, 10)] {
        writer.write_all_at(&pattern(at as u64, 0, len), at as u64).expect("write");
        want[at..at + len].copy_from_slice(&pattern(at as u64, 0, len));
    }
    for direct in [false, true] {
        let reader = b.open_with("/f", OpenOptions::new().read(true).direct(direct)).expect("open");
        for len in [want.len() - 1, want.len(), want.len() + 1, want.len() + 5 * UNIT] {
            b.drop_caches().expect("drop");
            assert!(read_once(&reader, len) == want[..len.min(want.len())], "{len} bytes, direct: {direct}");
            assert!(read_once(&reader, len) == want[..len.min(want.len())], "{len} cached bytes, direct: {direct}");
        }
        let mut got = vec![0xA5; want.len() + 10];
        let (head, tail) = got.split_at_mut(UNIT + 1);
        let n = reader.read_vectored_at(&mut [IoSliceMut::new(head), IoSliceMut::new(tail)], 0).expect("read");
        assert!(n == want.len() && got[..n] == want, "into two buffers, direct: {direct}");
    }
}

/// The reader knows an end of the file, which is the old one.
#[test]
fn a_read_goes_on_to_an_end_that_was_moved_elsewhere() {
    let [a, b] = clients(2);
    let log = a.open_with("/f", append().layout(narrow(2))).expect("open");
    let readers =
        [false, true].map(|direct| b.open_with("/f", OpenOptions::new().read(true).direct(direct)).expect("open"));
    let mut want = Vec::new();
    for n in 0..12u64 {
        let more = pattern(n, 0, 10_000 + 9_000 * n as usize);
        log.append(&more).expect("append");
        want.extend(more);
        for reader in &readers {
            assert!(read_once(reader, 2 << 20) == want, "append {n}");
        }
    }
}

/// A request that has to be made again makes no call short.
#[test]
fn a_step_that_succeeds_at_the_second_try_shortens_nothing() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let data = pattern(3, 0, 8 * UNIT + 5);
    for direct in [false, true] {
        let seen = Mutex::new(HashSet::new());
        world.rule(move |target, op| {
            let (Op::Read { bulk, .. } | Op::Write { bulk, .. }) = op else { return None };
            let first = bulk.iter().map(|part| part.offset).min();
            seen.lock().insert((Kind::of(op), target, first)).then_some(Fault::Refuse(Errno::EAGAIN))
        });
        let writer = a.open_with("/f", read_write().direct(direct).layout(narrow(2))).expect("open");
        let reader = b.open_with("/f", read_write().direct(direct)).expect("open");
        assert_eq!(writer.write_at(&data, 0).expect("write"), data.len(), "direct: {direct}");
        assert!(read_once(&reader, 1 << 20) == data, "direct: {direct}");
        writer.set_len(0).expect("truncate");
    }
    let resends = [&a, &b].map(|c| c.stats().targets.iter().map(|t| t.resends).sum::<u64>());
    assert!(resends.iter().all(|n| *n > 0), "requests were refused: {resends:?}");
    world.heal();
    world.end([a, b]);
}

/// Where a step fails, what came before it counts, if the call counts anything; who goes on from there is told why.
#[test]
fn a_step_that_fails_ends_the_call_there_and_the_next_says_why() {
    let world = World::new(2);
    let [a, b] = world.two_clients();
    let data = pattern(4, 0, 4 * UNIT);
    let writer = a.open_with("/f", read_write().layout(narrow(2).first_target(0))).expect("open");
    writer.write_all_at(&data, 0).expect("write");
    writer.sync_all().expect("fsync");
    for direct in [false, true] {
        let reader = b.open_with("/f", read_write().direct(direct)).expect("open");
        b.drop_caches().expect("drop");
        world.rule(|target, op| (Kind::of(op) == Kind::Read && target == 1).then_some(Fault::Refuse(Errno::EIO)));
        let mut got = vec![0xA5; data.len()];
        match reader.read_at(&mut got, 0).map_err(|e| e.errno()) {
            Ok(n) => assert!(n == UNIT && got[..n] == data[..n], "{n} bytes, direct: {direct}"),
            // Direct reads ask all stripes at once.
            Err(e) => assert_eq!((e, direct), (Errno::EIO, true)),
        }
        let rest = reader.read_at(&mut got, UNIT as u64).map_err(|e| e.errno());
        assert_eq!(rest, Err(Errno::EIO), "direct: {direct}");
        let all = reader.read_exact_at(&mut got, 0).map_err(|e| e.errno());
        assert_eq!(all, Err(Errno::EIO), "direct: {direct}");
        world.heal();
        assert!(read_once(&reader, 1 << 20) == data, "direct: {direct}");
    }
    drop(writer);
    world.end([a, b]);
}
