//! What one client sees of another: behaviours that a cluster file system's two-mount tests check.

mod append;
mod attributes;
mod content;
mod direct;
mod fsx;
mod layout;
mod lockless;
mod locks;
mod names;
mod order;
mod own_locks;
mod read_ahead;
mod short_steps;
mod sparse;
mod stale_pages;

use clio::{Client, OpenOptions, Stats};
use std::sync::Barrier;
use std::thread;

/// Options of a file whose every write goes to its end.
fn append() -> OpenOptions {
    OpenOptions::new().append(true).create(true)
}

/// One figure of a client, summed over its targets.
fn sum(client: &Client, figure: impl Fn(&clio::TargetStats) -> u64) -> u64 {
    client.stats().targets.iter().map(figure).sum()
}

/// Locks that others wanted of this client.
fn asked_back(client: &Client) -> u64 {
    sum(client, |t| t.blocking_asts)
}

/// Write RPCs sent.
fn write_rpcs(stats: &Stats) -> u64 {
    stats.targets.iter().flat_map(|t| &t.write_rpc_pages).map(|(_, n)| n).sum()
}

/// Runs both at the same moment.
fn at_once<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let start = Barrier::new(2);
    thread::scope(|s| {
        let other = s.spawn(|| {
            start.wait();
            b()
        });
        start.wait();
        (a(), other.join().expect("thread"))
    })
}
