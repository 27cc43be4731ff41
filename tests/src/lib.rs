//! What the end-to-end tests share: stores to test on, and data that tells where it was written.

pub mod faults;
pub mod page_cache;
pub mod stacked;
pub mod stored;

use clio::{Client, Layout, OpenOptions};

/// Options that make or open a file for everything.
pub fn read_write() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true)
}

/// A layout of `count` stripes of 64 KiB: small, so that small files cross many stripe units.
pub fn narrow(count: u16) -> Layout {
    Layout::raid0().stripe_count(count).stripe_size(64 << 10)
}

/// `len` bytes that depend on `seed` and on their offset.
pub fn pattern(seed: u64, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64)
        .map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(0x9e37) ^ (at >> 8)) as u8)
        .collect()
}

/// The whole content of a file, as `client` sees it.
pub fn content(client: &Client, path: &str) -> Vec<u8> {
    let file = client.open_file(path).expect("open");
    let len = file.metadata().expect("metadata").len() as usize;
    let mut all = vec![0xAA; len + 10];
    let n = file.read_at(&mut all, 0).expect("read");
    all.truncate(n);
    assert_eq!(n, len, "read and stat agree on the size");
    all
}

/// Clients of one new store in memory.
pub fn clients<const N: usize>(targets: u16) -> [Client; N] {
    let first = Client::open(&format!("mem:?targets={targets}")).expect("client");
    std::array::from_fn(|n| if n == 0 { first.clone() } else { first.second_client().expect("client") })
}

/// Says that a test is left out, since this machine lacks what it needs. In CI, where it has to be there, that is a failure.
pub fn left_out(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}, and this test needs it");
    eprintln!("left out: {why}");
}

/// How many cases a property test runs: `normal`, or twenty times that where `TEST_FULL` is set.
pub fn cases(normal: u32) -> u32 {
    if full() { normal * 20 } else { normal }
}

/// Whether `TEST_FULL` asks for the long forms. It has no `CLIO_` in front: the client refuses such variables if they
/// are no settings of its own.
pub fn full() -> bool {
    std::env::var_os("TEST_FULL").is_some()
}
