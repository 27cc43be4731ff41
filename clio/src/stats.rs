//! What a client has done so far.

use crate::client::Client;
use crate::stack::Stack;
use clio_core::{Errno, Error, Result};
use clio_osc::OscStats;
use clio_vvp::CacheStats;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Figures of a client since it connected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stats {
    /// Files and stripes in memory.
    pub objects: u64,
    /// The page cache.
    pub cache: Cache,
    /// Each target's transfers and locks.
    pub targets: Vec<TargetStats>,
}

/// The page cache.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Cache {
    /// Page memory in use, in bytes.
    pub used_bytes: u64,
    /// The limit, in bytes.
    pub limit_bytes: u64,
    /// Folios cached.
    pub folios: u64,
    /// Reads that the cache served alone (sampled).
    pub hits: u64,
    /// 4 KiB blocks that a read had to wait for.
    pub missed_blocks: u64,
    /// Folios evicted to make room.
    pub evictions: u64,
    /// Dirty folios written out to make room.
    pub pressure_writes: u64,
    /// Bytes asked for ahead of readers.
    pub readahead_issued_bytes: u64,
    /// Of these, bytes that readers came to.
    pub readahead_hit_bytes: u64,
    /// Of these, bytes whose reader turned elsewhere.
    pub readahead_wasted_bytes: u64,
}

/// Transfers to and locks at a target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TargetStats {
    /// Index of the target.
    pub target: u16,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// RPCs by size: pairs of the smallest number of 4 KiB pages in the bucket and the count.
    pub read_rpc_pages: Vec<(u64, u64)>,
    /// As `read_rpc_pages`, of writes.
    pub write_rpc_pages: Vec<(u64, u64)>,
    /// How many RPCs were in flight whenever one was sent, by buckets.
    pub rpcs_in_flight: Vec<(u64, u64)>,
    /// Bytes that are dirty now, staged or on their way.
    pub dirty_bytes: u64,
    /// Space that the target has promised, in bytes.
    pub grant_bytes: u64,
    /// Locks held now.
    pub locks_cached: u64,
    /// Locks asked for.
    pub locks_enqueued: u64,
    /// Locks given back.
    pub locks_cancelled: u64,
    /// Locks that another client wanted.
    pub blocking_asts: u64,
    /// Sizes asked for without a lock.
    pub glimpses: u64,
    /// Locks replaced by lockless IO under contention.
    pub lockless: u64,
    /// Transfers sent again.
    pub resends: u64,
    /// Checksums that did not match.
    pub checksum_errors: u64,
    /// Times that the target evicted this client.
    pub evictions: u64,
}

/// Locks at a target, of all clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LockCounts {
    /// Index of the target.
    pub target: u16,
    /// Locks held.
    pub granted: u64,
    /// Requests that wait for a lock.
    pub waiting: u64,
}

impl Client {
    /// Each target's locks, of all clients of the store; `None` if another process keeps the store, such as the parent of
    /// a forked child.
    pub fn lock_counts(&self) -> Option<Vec<LockCounts>> {
        self.check_process().ok()?;
        self.inner().store().local().ok().map(|local| local.lock_counts())
    }

    /// Figures since the client connected. In a forked child, those of a client that has done nothing and has no targets.
    pub fn stats(&self) -> Stats {
        if self.check_process().is_err() {
            return Stats { objects: 0, cache: cache(&CacheStats::default()), targets: Vec::new() };
        }
        let stack = self.inner().stack();
        Stats {
            objects: stack.objects() as u64,
            cache: cache(&stack.cache().stats()),
            targets: stack.devices().iter().map(|d| target(d.target_index().0, &d.stats())).collect(),
        }
    }

    /// Checks what must always hold: grant and dirty quota are conserved at every target, staged data doesn't overlap, and
    /// page memory is what the cached folios hold. For tests and diagnosis, while no IO is going on.
    ///
    /// # Errors
    /// `EPROTO`, saying what doesn't add up: a bug in Clio.
    pub fn check_invariants(&self) -> Result<()> {
        self.check_process()?;
        let stack = self.inner().stack();
        stack.devices().iter().try_for_each(|d| d.check_accounting())?;
        check_page_memory(stack)
    }
}

/// How often page memory is counted while it doesn't add up, a millisecond apart: a transfer that ends, or read-ahead,
/// may change it between two looks.
const COUNTS: usize = 200;

fn check_page_memory(stack: &Stack) -> Result<()> {
    let mut off = String::new();
    for _ in 0..COUNTS {
        let cache = stack.cache().stats();
        let (folios, held) = stack.folios();
        if (cache.used_bytes, cache.pages) == (held, folios) {
            return Ok(());
        }
        off = format!(
            "{} bytes in {} folios are in use, {held} bytes in {folios} are cached",
            cache.used_bytes, cache.pages
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Error::new(Errno::EPROTO, "page memory", off))
}

fn cache(c: &CacheStats) -> Cache {
    Cache {
        used_bytes: c.used_bytes,
        limit_bytes: c.limit_bytes,
        folios: c.pages,
        hits: c.hits,
        missed_blocks: c.missed_blocks,
        evictions: c.evictions,
        pressure_writes: c.pressure_writes,
        readahead_issued_bytes: c.ahead_issued_bytes,
        readahead_hit_bytes: c.ahead_hit_bytes,
        readahead_wasted_bytes: c.ahead_wasted_bytes,
    }
}

fn target(index: u16, s: &OscStats) -> TargetStats {
    TargetStats {
        target: index,
        read_bytes: s.read_bytes,
        written_bytes: s.written_bytes,
        read_rpc_pages: buckets(&s.read_pages),
        write_rpc_pages: buckets(&s.write_pages),
        rpcs_in_flight: buckets(&s.in_flight),
        dirty_bytes: s.credits.dirty(),
        grant_bytes: s.credits.available + s.credits.reserved,
        locks_cached: s.locks,
        locks_enqueued: s.locks_enqueued,
        locks_cancelled: s.locks_cancelled,
        blocking_asts: s.blocking_asts,
        glimpses: s.glimpses,
        lockless: s.lockless,
        resends: s.resends,
        checksum_errors: s.checksum_errors,
        evictions: s.evictions,
    }
}

/// The buckets in use.
fn buckets(histogram: &[u64]) -> Vec<(u64, u64)> {
    histogram.iter().enumerate().filter(|(_, n)| **n > 0).map(|(b, n)| (1 << b, *n)).collect()
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |b: u64| b as f64 / (1 << 20) as f64;
        let c = &self.cache;
        writeln!(
            f,
            "  cache: {:.0} of {:.0} MiB in {} folios, {} hits, {} blocks missed, {} evictions, {} written out for room",
            mib(c.used_bytes),
            mib(c.limit_bytes),
            c.folios,
            c.hits,
            c.missed_blocks,
            c.evictions,
            c.pressure_writes
        )?;
        writeln!(
            f,
            "  read-ahead: {:.0} MiB issued, {:.0} MiB used, {:.0} MiB wasted",
            mib(c.readahead_issued_bytes),
            mib(c.readahead_hit_bytes),
            mib(c.readahead_wasted_bytes)
        )?;
        for t in &self.targets {
            write!(
                f,
                "  target {}: {:.1} MiB read, {:.1} MiB written",
                t.target,
                mib(t.read_bytes),
                mib(t.written_bytes)
            )?;
            write!(
                f,
                "; locks: {} cached, {} enqueued, {} cancelled",
                t.locks_cached, t.locks_enqueued, t.locks_cancelled
            )?;
            write!(
                f,
                "\n    dirty {:.1} MiB, grant {:.1} MiB; {} blocking ASTs, {} glimpses, {} lockless",
                mib(t.dirty_bytes),
                mib(t.grant_bytes),
                t.blocking_asts,
                t.glimpses,
                t.lockless
            )?;
            if t.resends + t.checksum_errors + t.evictions > 0 {
                write!(f, "; {} resends, {} checksum errors, {} evictions", t.resends, t.checksum_errors, t.evictions)?;
            }
            histogram(f, "read RPCs by pages", &t.read_rpc_pages)?;
            histogram(f, "write RPCs by pages", &t.write_rpc_pages)?;
            histogram(f, "RPCs in flight", &t.rpcs_in_flight)?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn histogram(f: &mut fmt::Formatter<'_>, what: &str, buckets: &[(u64, u64)]) -> fmt::Result {
    if buckets.is_empty() {
        return Ok(());
    }
    write!(f, "\n    {what}:")?;
    buckets.iter().try_for_each(|(from, n)| write!(f, " {from}+:{n}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_folios_that_make_room_are_counted() {
        let builder = Client::builder().store("mem:").set("cache_mb", 4).set("writeback_age_ms", 3_600_000);
        let client = builder.connect().expect("client");
        let file = client.create("/f").expect("create");
        // A block of each MiB, so that no transfer's worth comes together and goes out for that.
        let write = |n: u64| file.write_all_at(&[1; 4096], n << 20).expect("write");
        (0..256).for_each(write);
        assert_eq!(client.stats().cache.pressure_writes, 0, "there is room: {}", client.stats());
        (256..2048).for_each(write);
        let stats = client.stats();
        let cache = &stats.cache;
        assert!(cache.pressure_writes > 0, "{stats}");
        assert!(stats.to_string().contains(&format!("{} written out for room", cache.pressure_writes)), "{stats}");
    }
}
