//! A write within one stripe unit is seen whole or not at all, however many folios of the cache it touches.

use clio::{Client, File, Layout};
use clio_tests::{clients, full, read_write};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the readers when dropped: on a panic too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

/// A place within one stripe unit.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Stripe size, and what follows from it: the size of a folio.
    unit: u64,
    folio: u64,
    offset: u64,
    len: usize,
}

/// Units of several folios: 4 MiB of 1 MiB each, and 192 KiB of 64 KiB; the largest power of two that divides them.
const PLACES: [Place; 5] = [
    // Over a folio's end, with little on both sides.
    Place { unit: 4 * MIB, folio: MIB, offset: 4 * MIB + MIB - 3000, len: 9000 },
    Place { unit: 192 * KIB, folio: 64 * KIB, offset: 192 * KIB + 64 * KIB - 4096, len: 8192 },
    // Over three folios, unaligned.
    Place { unit: 192 * KIB, folio: 64 * KIB, offset: 60 * KIB + 1, len: 70 << 10 },
    // A whole unit.
    Place { unit: 192 * KIB, folio: 64 * KIB, offset: 192 * KIB, len: 192 << 10 },
    Place { unit: 4 * MIB, folio: MIB, offset: 0, len: 4 << 20 },
];

impl Place {
    /// Enough to catch a torn one, in about as much time at every place.
    fn rounds(self) -> u32 {
        let few = (3_000_000 / self.len as u32).clamp(12, 250);
        if full() { 10 * few } else { few }
    }

    fn open(self, client: &Client) -> File {
        self.open_with(client, false)
    }

    /// Past the cache, if `direct`.
    fn open_with(self, client: &Client, direct: bool) -> File {
        assert_eq!(self.offset / self.unit, (self.offset + self.len as u64 - 1) / self.unit, "one unit");
        assert!(self.folio < self.unit && self.unit.is_multiple_of(self.folio));
        let layout = Layout::raid0().stripe_count(2).stripe_size(self.unit);
        client.open_with("/f", read_write().layout(layout).direct(direct)).expect("open")
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Plain,
    /// From and into three buffers.
    Vectored,
}

fn write(file: &File, place: Place, how: How, value: u8) {
    let bytes = vec![value; place.len];
    let n = match how {
        How::Plain => file.write_at(&bytes, place.offset),
        How::Vectored => {
            let (a, rest) = bytes.split_at(place.len / 5);
            let (b, c) = rest.split_at(place.len / 3);
            file.write_vectored_at(&[IoSlice::new(a), IoSlice::new(b), IoSlice::new(c)], place.offset)
        }
    };
    assert_eq!(n.expect("write"), place.len);
}

/// What round `n` of writer `w` writes.
fn value(n: u32, w: usize) -> u8 {
    (n as u8) << 1 | w as u8
}

/// Reads the place and asserts that all of it is of one write: of which value.
fn read_one(file: &File, place: Place, how: How) -> u8 {
    let mut bytes = vec![0; place.len];
    let n = match how {
        How::Plain => file.read_at(&mut bytes, place.offset),
        How::Vectored => {
            let (a, b) = bytes.split_at_mut(place.len / 2 + 7);
            file.read_vectored_at(&mut [IoSliceMut::new(a), IoSliceMut::new(b)], place.offset)
        }
    };
    assert_eq!(n.expect("read"), place.len);
    let torn = bytes.iter().position(|b| *b != bytes[0]);
    let whats = torn.map(|at| (at, bytes[0], bytes[at]));
    assert_eq!(whats, None, "(byte, value before, value there) of {} bytes at {}, {how:?}", place.len, place.offset);
    bytes[0]
}

/// Writers and readers at once, until each writer has done its rounds.
fn run(place: Place, writers: &[File], readers: &[File], how: How) {
    write(&writers[0], place, How::Plain, 0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading: Vec<_> = readers
            .iter()
            .map(|file| {
                let over = &over;
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        read_one(file, place, How::Plain);
                        read_one(file, place, How::Vectored);
                    }
                })
            })
            .collect();
        let writing: Vec<_> = writers
            .iter()
            .enumerate()
            .map(|(w, file)| {
                scope.spawn(move || {
                    (0..place.rounds()).for_each(|n| write(file, place, how, value(n, w)));
                })
            })
            .collect();
        let written: Vec<_> = writing.into_iter().map(|w| w.join()).collect();
        over.store(true, Ordering::Relaxed);
        written.into_iter().for_each(|w| w.expect("writer"));
        reading.into_iter().for_each(|r| r.join().expect("reader"));
    });
    let last: Vec<_> = (0..writers.len()).map(|w| value(place.rounds() - 1, w)).collect();
    assert!(last.contains(&read_one(&readers[0], place, How::Plain)), "an older write than the last: {place:?}");
}

#[test]
fn threads_of_one_client_see_a_write_whole() {
    for place in PLACES {
        for how in [How::Plain, How::Vectored] {
            let [a] = clients(2);
            let files: Vec<_> = (0..2).map(|_| place.open(&a)).collect();
            run(place, &files, &files, how);
        }
    }
}

#[test]
fn another_client_sees_a_write_whole() {
    for place in PLACES {
        for how in [How::Plain, How::Vectored] {
            let [a, b] = clients(2);
            let files = [place.open(&a), place.open(&b)];
            run(place, &files[..1], &files[1..], how);
        }
    }
}

/// One side goes past the cache, the other doesn't; one place lies within one folio, where a write is one stroke.
fn past_the_cache(direct_writer: bool, same_client: bool) {
    let within = Place { unit: 192 * KIB, folio: 64 * KIB, offset: 3000, len: 10_000 };
    for place in PLACES.into_iter().chain([within]) {
        for how in [How::Plain, How::Vectored] {
            let [a, b] = clients(2);
            let writer = place.open_with(&a, direct_writer);
            let reader = place.open_with(if same_client { &a } else { &b }, !direct_writer);
            run(place, &[writer], &[reader], how);
        }
    }
}

#[test]
fn a_direct_read_sees_a_cached_write_of_its_own_client_whole() {
    past_the_cache(false, true);
}

#[test]
fn a_direct_read_sees_a_cached_write_of_another_client_whole() {
    past_the_cache(false, false);
}

#[test]
fn a_direct_write_is_seen_whole_by_cached_reads_of_its_own_client() {
    past_the_cache(true, true);
}

#[test]
fn a_direct_write_is_seen_whole_by_cached_reads_of_another_client() {
    past_the_cache(true, false);
}

#[test]
fn writers_of_two_clients_do_not_mix() {
    for place in PLACES {
        let [a, b] = clients(2);
        let files = [place.open(&a), place.open(&b)];
        run(place, &files, &files, How::Plain);
    }
}

#[test]
fn a_cache_smaller_than_the_unit_tears_nothing() {
    let small = |uri: &str| Client::builder().store(uri).set("cache_mb", 4).connect().expect("client");
    let a = small("mem:?targets=2");
    let b = a.second_client().expect("client");
    let place = PLACES[4];
    let files = [place.open(&a), place.open(&b)];
    run(Place { len: 4 << 20, ..place }, &files[..1], &files[1..], How::Plain);
}

/// Single-folio parts of one buffer list: several buffers, but one write.
#[test]
fn buffers_within_a_folio_are_one_write() {
    for (offset, len) in [(100, 3000), (4000, 9000)] {
        let place = Place { unit: 192 * KIB, folio: 64 * KIB, offset, len };
        let [a] = clients(2);
        let files: Vec<_> = (0..2).map(|_| place.open(&a)).collect();
        run(place, &files[..1], &files, How::Vectored);
    }
}

/// Records that a reader of the same client, or of another, meets at the end of the file.
#[test]
fn an_append_over_folios_is_seen_whole() {
    const RECORD: usize = 100_000;
    for unit in [192 * KIB, 4 * MIB] {
        let [a, b] = clients(2);
        let layout = Layout::raid0().stripe_count(2).stripe_size(unit);
        let log = a.open_with("/f", read_write().layout(layout)).expect("open");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading: Vec<_> = [&a, &b]
                .map(|client| {
                    let file = client.open_file("/f").expect("open");
                    let over = &over;
                    scope.spawn(move || {
                        let (mut at, mut bytes) = (0, vec![0; RECORD]);
                        while !over.load(Ordering::Relaxed) {
                            match file.read_at(&mut bytes, at).expect("read") {
                                0 => std::thread::yield_now(),
                                n => {
                                    assert_eq!(n, RECORD, "a part of a record, at {at}");
                                    assert!(bytes.iter().all(|b| *b == bytes[0]), "a record is whole, at {at}");
                                    at += RECORD as u64;
                                }
                            }
                        }
                    })
                })
                .into_iter()
                .collect();
            let ends = Over(&over);
            for n in 0..40 {
                log.append(&vec![n + 1; RECORD]).expect("append");
            }
            drop(ends);
            reading.into_iter().for_each(|r| r.join().expect("reader"));
        });
    }
}

/// Growing writes across the old end of the file: the new end and the new bytes come together.
#[test]
fn a_write_across_the_end_is_seen_whole() {
    let [a] = clients(1);
    let file = a.open_with("/f", read_write()).expect("open");
    let rounds = if full() { 20_000 } else { 2000 };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = vec![0; 64 << 10];
            while !over.load(Ordering::Relaxed) {
                let n = file.read_at(&mut bytes, 0).expect("read");
                // Every write is of four bytes, two of them over the last write's.
                if n > 0 {
                    assert_eq!(bytes[n - 1], bytes[n - 2], "{n}: {:?}", &bytes[n.saturating_sub(6)..n]);
                    assert!(n < 4 || bytes[n - 4] == bytes[n - 1], "{n}: {:?}", &bytes[n - 4..n]);
                }
            }
        });
        let ends = Over(&over);
        for n in 0..rounds {
            file.write_at(&[(n % 250) as u8 + 1; 4], n * 2).expect("write");
        }
        drop(ends);
        reader.join().expect("reader");
    });
}
