//! Pages of mappings (Fault I/O) of a striped file: what clients that map it see of each other, and what happens to a page
//! whose lock is lost.

use clio_core::Errno;
use clio_core::target::Op;
use clio_core::units::{BLOCK_SIZE, Extent};
use clio_lov::layout::Layout;
use clio_targets::wrap::Fault;
use clio_tests::faults::eventually;
use clio_tests::stacked::{OneFile, StackedClient};
use clio_tests::{narrow, pattern};
use clio_vvp::{FileFlags, VvpFile};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const BLOCK: usize = BLOCK_SIZE as usize;
const UNIT: u64 = 64 << 10;

/// A file of three stripes with `content`, two clients, and the file open at each.
fn mapped_by_two(content: &[u8], lock_timeout: Duration) -> (OneFile, [StackedClient; 2], [VvpFile; 2]) {
    let one = OneFile::new(&narrow(3), 3, lock_timeout);
    let clients = [one.client(), one.client()];
    let files = clients.each_ref().map(|c| c.open(FileFlags::default()));
    assert_eq!(files[0].write_at(content, 0).expect("write"), content.len());
    (one, clients, files)
}

fn end(clients: [StackedClient; 2], files: [VvpFile; 2]) {
    drop(files);
    clients.into_iter().for_each(StackedClient::end);
}

/// As [`end`], where nothing may have gone wrong on the way.
fn end_of_clean(clients: [StackedClient; 2], files: [VvpFile; 2]) {
    files.iter().for_each(|f| f.fsync().expect("fsync"));
    assert_eq!(clients.each_ref().map(StackedClient::evictions), [0, 0]);
    end(clients, files);
}

/// What a program that maps the file loads: the page is faulted in until the load finds it there.
fn load(file: &VvpFile, offset: u64, buf: &mut [u8]) {
    let at = (offset % BLOCK_SIZE) as usize;
    while !file.fault(offset, false).expect("fault").load(at, buf) {}
}

/// What a program that maps the file stores.
fn store(file: &VvpFile, offset: u64, bytes: &[u8]) {
    let at = (offset % BLOCK_SIZE) as usize;
    while !file.fault(offset, true).expect("fault").store(at, bytes) {}
}

fn content(file: &VvpFile) -> Vec<u8> {
    let mut all = vec![0xAA; file.attr().expect("attr").size as usize + 10];
    let n = file.read_at(&mut all, 0).expect("read");
    all.truncate(n);
    all
}

#[test]
fn pages_of_all_stripes_and_the_last_one() {
    let mut want = pattern(1, 0, 7 * UNIT as usize + 5000);
    let (_, clients, files) = mapped_by_two(&want, Duration::ZERO);
    let [_, theirs] = &files;
    for start in (0..want.len()).step_by(BLOCK) {
        let page = theirs.fault(start as u64 + 17, false).expect("fault");
        let has = BLOCK.min(want.len() - start);
        assert_eq!((page.extent(), page.is_hole()), (Extent::with_len(start as u64, has as u64), false));
        let mut bytes = [0xA5; BLOCK];
        assert!(page.load(0, &mut bytes), "at {start}");
        assert_eq!(bytes[..has], want[start..start + has], "at {start}");
        assert_eq!(bytes[has..], [0; BLOCK][has..], "zeros beyond the end");
    }
    for write in [false, true] {
        let beyond = want.len().next_multiple_of(BLOCK) as u64;
        assert_eq!(theirs.fault(beyond, write).expect_err("beyond the end").errno(), Errno::EFAULT);
    }
    // A store into each stripe unit, and one into the last page, across the end of the file.
    for unit in 0..7 {
        let at = unit * UNIT + 4000;
        store(theirs, at, &[0xEE; 96]);
        want[at as usize..][..96].fill(0xEE);
    }
    let end = want.len();
    store(theirs, end as u64 - 10, &[0xEE; 20]);
    want[end - 10..].fill(0xEE);
    for file in &files {
        assert!(content(file) == want, "the stores are seen, and the file has its size");
    }
    end_of_clean(clients, files);
}

#[test]
fn a_page_goes_when_another_client_writes_and_stores_are_seen_there() {
    let mut want = pattern(2, 0, 3 * UNIT as usize);
    let (_, clients, files) = mapped_by_two(&want, Duration::ZERO);
    let [ours, theirs] = &files;
    for start in [0, UNIT + BLOCK_SIZE, 3 * UNIT - BLOCK_SIZE] {
        let at = start as usize;
        let (mut mine, mut other) = ([0; BLOCK], [0; BLOCK]);
        load(theirs, start, &mut other);
        let page = ours.fault(start, false).expect("fault");
        load(theirs, start, &mut other);
        assert!(page.load(0, &mut mine), "a reader takes nothing away from another");
        assert!(mine == want[at..][..BLOCK] && other == mine);

        theirs.write_at(b"written", start + 9).expect("write");
        want[at + 9..][..7].copy_from_slice(b"written");
        assert!(!page.load(0, &mut mine), "the page is gone");
        load(ours, start, &mut mine);
        assert!(mine == want[at..][..BLOCK], "at {start}");

        let page = ours.fault(start, true).expect("fault");
        assert!(page.store(12, b"stored"));
        want[at + 12..][..6].copy_from_slice(b"stored");
        load(theirs, start, &mut other);
        assert!(other == want[at..][..BLOCK], "at {start}");
        assert!(!page.store(12, b"lost"), "the other client would not see it");
    }
    assert!(content(theirs) == want);
    end_of_clean(clients, files);
}

#[test]
fn a_page_that_another_client_cuts_off() {
    let (_, clients, files) = mapped_by_two(&pattern(3, 0, 3 * UNIT as usize), Duration::ZERO);
    let [ours, theirs] = &files;
    let (cut, kept) = (2 * UNIT + BLOCK_SIZE, 2 * UNIT);
    let pages = [ours.fault(cut, true).expect("fault"), ours.fault(kept, true).expect("fault")];
    assert!(pages.iter().all(|p| p.store(0, &[0xEE; BLOCK])));
    theirs.truncate(cut - 100).expect("truncate");
    for page in &pages {
        assert!(!page.store(0, &[0xDD; BLOCK]) && !page.load(0, &mut [0; BLOCK]));
    }
    assert_eq!(ours.fault(cut, true).expect_err("cut off").errno(), Errno::EFAULT);
    assert_eq!(ours.fault(kept, false).expect("fault").extent(), Extent::new(kept, cut - 100));
    theirs.truncate(3 * UNIT).expect("grow");
    let mut want = pattern(3, 0, kept as usize);
    want.resize(cut as usize - 100, 0xEE);
    want.resize(3 * UNIT as usize, 0);
    let mut bytes = [0xA5; BLOCK];
    load(ours, cut, &mut bytes);
    assert_eq!(bytes, [0; BLOCK], "nothing that was cut comes back");
    assert!(content(ours) == want && content(theirs) == want);
    end_of_clean(clients, files);
}

#[test]
fn a_page_of_a_hole_that_another_client_fills() {
    let layout =
        Layout::composite().until(UNIT).stripe_size(UNIT).until(3 * UNIT).stripe_count(2).stripe_size(UNIT).to_eof();
    let one = OneFile::new(&layout, 3, Duration::ZERO);
    let clients = [one.client(), one.client()];
    let files = clients.each_ref().map(|c| c.open(FileFlags::default()));
    let [ours, theirs] = &files;
    ours.write_at(&[1; 100], 0).expect("write");
    ours.truncate(4 * UNIT).expect("grow");
    let at = 2 * UNIT + 5000;
    let page = ours.fault(at, false).expect("fault");
    let mut bytes = [0xA5; 10];
    assert!(page.is_hole() && page.load(0, &mut bytes) && bytes == [0; 10]);
    // Filled by a store of the other client: seen by whoever faults the page in from then on.
    store(theirs, at, &[7; 10]);
    let page = ours.fault(at, false).expect("fault");
    assert!(!page.is_hole() && page.load((at % BLOCK_SIZE) as usize, &mut bytes));
    assert_eq!(bytes, [7; 10]);
    store(ours, at + 10, &[8; 10]);
    let all = content(theirs);
    assert_eq!(all.len() as u64, 4 * UNIT);
    assert_eq!(all[at as usize - 1..][..22], [&[0][..], &[7; 10], &[8; 10], &[0]].concat());
    end_of_clean(clients, files);
}

/// The other client wants the lock while the page is on its way here: it gets it once the page has come, and nothing that
/// either has stored is lost.
#[test]
fn a_lock_that_is_wanted_during_the_fault() {
    for write in [false, true] {
        let (one, clients, files) = mapped_by_two(&pattern(4, 0, 3 * UNIT as usize), Duration::ZERO);
        clients[0].drop_caches();
        let [ours, theirs] = &files;
        let at = UNIT + 3 * BLOCK_SIZE;
        let has_written = AtomicBool::new(false);
        one.fail(Fault::HoldRequest, |op| matches!(op, Op::Read { .. }));
        thread::scope(|s| {
            let _released = one.heal_at_end();
            let faults = s.spawn(|| {
                let page = ours.fault(at, write).expect("fault");
                let mut got = [0; 4];
                // Whether it is still there is up to the scheduler.
                let was_there = page.load(0, &mut got);
                assert!(!was_there || got == pattern(4, at, 4)[..] || got == *b"them");
                page.store(8, b"us") && write
            });
            eventually("the page is on its way", || one.held() == 1);
            let writes = s.spawn(|| {
                theirs.write_at(b"them", at).expect("write");
                has_written.store(true, Ordering::SeqCst);
            });
            eventually("the lock is wanted", || clients[0].wanted() == 1);
            assert!(!has_written.load(Ordering::SeqCst), "not before the page has come");
            one.heal();
            let stored = faults.join().expect("fault");
            writes.join().expect("write");
            let mut got = [0; 10];
            load(ours, at, &mut got);
            let tail = if stored { b"us" } else { &pattern(4, at + 8, 2)[..] };
            assert_eq!(got[..], [b"them", &pattern(4, at + 4, 4)[..], tail].concat());
        });
        end_of_clean(clients, files);
    }
}

/// A page that was read before the client lost its locks says nothing about the file as it is.
#[test]
fn a_client_that_is_evicted_during_the_fault() {
    for write in [false, true] {
        let (one, clients, files) = mapped_by_two(&pattern(5, 0, 3 * UNIT as usize), Duration::from_millis(50));
        clients[0].drop_caches();
        let [ours, theirs] = &files;
        let at = UNIT + 3 * BLOCK_SIZE;
        one.fail(Fault::HoldReply, |op| matches!(op, Op::Read { .. }));
        thread::scope(|s| {
            let _released = one.heal_at_end();
            let faults = s.spawn(|| {
                let mut got = [0; 4];
                let page = ours.fault(at, write);
                (page.map(|page| page.load(0, &mut got)), got)
            });
            eventually("the page is on its way", || one.held() == 1);
            theirs.write_at(b"them", at).expect("write");
            assert_eq!(clients[0].evictions(), 1);
            one.heal();
            match faults.join().expect("fault") {
                (Ok(is_there), got) => assert!(!is_there || got == *b"them", "stale: {got:?}"),
                (Err(e), _) => assert_eq!(e.errno(), Errno::EIO),
            }
        });
        let mut got = [0; 4];
        load(ours, at, &mut got);
        assert_eq!(got, *b"them");
        store(ours, at + 4, b"us");
        assert_eq!(content(theirs)[at as usize..][..6], *b"themus");
        end(clients, files);
    }
}

#[test]
fn stores_of_a_client_that_is_evicted_are_lost_and_that_is_told_once() {
    let (one, clients, files) = mapped_by_two(&pattern(6, 0, 3 * UNIT as usize), Duration::from_millis(50));
    let [ours, theirs] = &files;
    ours.fsync().expect("fsync");
    let at = UNIT + 3 * BLOCK_SIZE;
    let page = ours.fault(at, true).expect("fault");
    assert!(page.store(0, b"ours"));
    // It doesn't come to write out what the other client waits for.
    let healed = one.heal_at_end();
    one.fail(Fault::HoldRequest, |op| matches!(op, Op::Write { .. }));
    theirs.write_at(b"them", at + 4).expect("write");
    assert_eq!((clients[0].evictions(), clients[1].evictions()), (1, 0));
    drop(healed);
    eventually("nothing is dirty", || clients[0].dirty() == 0);
    assert!(!page.store(0, b"more") && !page.load(0, &mut [0; 4]), "the page is gone");
    assert_eq!(ours.fsync().expect_err("lost").errno(), Errno::EIO);
    ours.fsync().expect("told once");
    let want = [&pattern(6, at, 4)[..], b"them"].concat();
    let mut got = [0; 8];
    load(ours, at, &mut got);
    assert_eq!(got[..], want);
    store(ours, at, b"anew");
    assert_eq!(content(theirs)[at as usize..][..8], *b"anewthem");
    end(clients, files);
}

/// A counter in a mapped page, counted up by one client and looked at by both, while the caches of both are dropped: what
/// was seen, or has been stored, stays seen.
#[test]
fn a_counter_in_a_mapped_page_never_goes_backwards_while_caches_are_dropped() {
    const STORES: u64 = 300;
    const LOOKS: u64 = 50;
    let (_, clients, files) = mapped_by_two(&vec![0; 3 * UNIT as usize], Duration::ZERO);
    let at = UNIT + 3 * BLOCK_SIZE + 64;
    let value = |file: &VvpFile| {
        let mut bytes = [0; 8];
        load(file, at, &mut bytes);
        u64::from_le_bytes(bytes)
    };
    // The last store that has returned: no load that begins later may give an older value.
    let (stored, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let looked = [const { AtomicU64::new(0) }; 2];
    thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                clients.iter().for_each(StackedClient::drop_caches);
            }
        });
        let looks = [0, 1].map(|who: usize| {
            let (file, looked) = (&files[who], &looked[who]);
            let (stored, done, value) = (&stored, &done, &value);
            s.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::SeqCst) {
                    let floor = stored.load(Ordering::SeqCst);
                    let seen = value(file);
                    assert!(seen >= floor && seen >= last, "{who} sees {seen} after {last} and the store of {floor}");
                    last = seen;
                    looked.fetch_add(1, Ordering::SeqCst);
                }
                assert_eq!(value(file), stored.load(Ordering::SeqCst));
            })
        });
        let (file, stored, seen) = (&files[0], &stored, &looked);
        let counts = s.spawn(move || {
            let mut n = 0;
            // Until both have looked often enough, too, or have failed.
            let enough = |l: &AtomicU64| l.load(Ordering::SeqCst) >= LOOKS;
            while n < STORES || (!seen.iter().all(enough) && !looks.iter().any(|l| l.is_finished())) {
                n += 1;
                store(file, at, &n.to_le_bytes());
                stored.store(n, Ordering::SeqCst);
            }
        });
        let counted = counts.join();
        done.store(true, Ordering::SeqCst);
        counted.expect("no panic");
    });
    end_of_clean(clients, files);
}

/// Two clients store into bytes of their own of the same pages, and a third takes the pages away all the time.
#[test]
fn stores_of_two_clients_into_the_same_pages_all_arrive() {
    const PAGES: [u64; 4] = [0, UNIT, 2 * UNIT + BLOCK_SIZE, 3 * UNIT - BLOCK_SIZE];
    const ROUNDS: u64 = 300;
    let (_, clients, files) = mapped_by_two(&pattern(7, 0, 3 * UNIT as usize), Duration::ZERO);
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        let sides = [0, 1].map(|who: u64| {
            let file = &files[who as usize];
            s.spawn(move || {
                for n in 1..=ROUNDS {
                    let page = PAGES[(n % 4) as usize];
                    store(file, page + who * 8, &n.to_le_bytes());
                    let (mut mine, mut other) = ([0; 8], [0; 8]);
                    load(file, page + who * 8, &mut mine);
                    assert_eq!(u64::from_le_bytes(mine), n, "client {who} sees its own");
                    load(file, page + (1 - who) * 8, &mut other);
                }
            })
        });
        s.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                clients.iter().for_each(StackedClient::drop_caches);
            }
        });
        let ended = sides.map(|side| side.join());
        done.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|e| e.expect("no panic"));
    });
    let mut want = pattern(7, 0, 3 * UNIT as usize);
    for n in ROUNDS - 3..=ROUNDS {
        let at = PAGES[(n % 4) as usize] as usize;
        want[at..][..16].copy_from_slice(&[n.to_le_bytes(), n.to_le_bytes()].concat());
    }
    for file in &files {
        assert!(content(file) == want);
    }
    end_of_clean(clients, files);
}
