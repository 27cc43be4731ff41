//! The steady path allocates nothing: reads of what is cached, and overwrites of what is to be written out.
#![expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]

use clio::{Client, File};
use clio_tests::{narrow, pattern, read_write};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Passes everything on to the system's allocator, and counts what this thread asks for: other threads of the client, and
/// other tests, are none of its business.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    COUNT.with(|count| count.set(count.get() + 1));
}

// SAFETY: every method passes its arguments on to `System`, under the same contract; what it does besides neither allocates
// nor unwinds, since the counter is made and dropped without code.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as the caller's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SMALL: usize = 4096;
/// In all stripes, and less than what fills an RPC of any.
const BLOCKS: u64 = 96;

/// How many allocations a round of `op` on every block makes, once it has been done before.
fn allocations(mut op: impl FnMut(u64)) -> u64 {
    let mut round = || (0..BLOCKS).for_each(|block| op(block * SMALL as u64));
    round();
    let before = COUNT.get();
    for _ in 0..20 {
        round();
    }
    COUNT.get() - before
}

fn striped(client: &Client) -> File {
    let file = client.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(1, 0, BLOCKS as usize * SMALL), 0).expect("write");
    file
}

/// A client that writes out only when it is told to.
fn client() -> Client {
    let builder = Client::builder().store("mem:?targets=2").set("writeback_age_ms", 3_600_000);
    builder.connect().expect("client")
}

#[test]
fn allocations_are_counted() {
    let mut kept = Vec::new();
    assert_eq!(allocations(|at| kept = vec![at as u8; SMALL]), 20 * BLOCKS);
    assert_eq!(kept.len(), SMALL);
}

#[test]
fn cached_reads_allocate_nothing() {
    let client = client();
    let file = striped(&client);
    let mut buf = [0; SMALL];
    let mut read = |at| assert_eq!(file.read_at(&mut buf, at).expect("read"), SMALL);
    assert_eq!(allocations(&mut read), 0, "of what is dirty");
    file.sync_all().expect("sync");
    assert_eq!(allocations(&mut read), 0, "of what is clean");
    client.drop_caches().expect("drop");
    assert_eq!(allocations(&mut read), 0, "of what was read");
}

#[test]
fn overwrites_of_what_is_dirty_allocate_nothing() {
    let client = client();
    let file = striped(&client);
    let buf = [7; SMALL];
    assert_eq!(allocations(|at| assert_eq!(file.write_at(&buf, at).expect("write"), SMALL)), 0);
    let written: u64 = client.stats().targets.iter().map(|t| t.written_bytes).sum();
    assert_eq!(written, 0, "all of it was write-behind");
}
