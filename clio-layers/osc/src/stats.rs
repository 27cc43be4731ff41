//! What a device tells of itself.

use crate::credit::Credits;
use clio_core::page::Rw;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::units::BLOCK_SIZE;

/// Buckets of a histogram: bucket b counts values from 2^b up to 2^(b+1) - 1; the last one also all above.
pub const BUCKETS: usize = 16;

/// A histogram by powers of two.
pub type Histogram = [u64; BUCKETS];

/// A snapshot of a device's figures. Counts are since the device was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OscStats {
    /// Read RPCs by their number of 4 KiB pages.
    pub read_pages: Histogram,
    /// Write RPCs by their number of 4 KiB pages.
    pub write_pages: Histogram,
    /// RPCs with data on their way, this one included, whenever one was sent.
    pub in_flight: Histogram,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// RPCs with data on their way now.
    pub rpcs_in_flight: u64,
    /// RPCs that wait for a slot now.
    pub rpcs_waiting: u64,
    /// Dirty quota and grant.
    pub credits: Credits,
    /// Locks cached now.
    pub locks: u64,
    /// Locks asked for.
    pub locks_enqueued: u64,
    /// Locks given back.
    pub locks_cancelled: u64,
    /// Locks that somebody asked back.
    pub blocking_asts: u64,
    /// Glimpses asked of this client.
    pub glimpse_asts: u64,
    /// Glimpses asked by this client.
    pub glimpses: u64,
    /// Locks replaced by lockless ones.
    pub lockless: u64,
    /// RPCs sent again.
    pub resends: u64,
    /// Checksums that didn't match, either way.
    pub checksum_errors: u64,
    /// Blocks that found no quota or grant, and went out synchronously.
    pub without_quota: u64,
    /// Evictions.
    pub evictions: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            read_pages: [AtomicU64; BUCKETS],
            write_pages: [AtomicU64; BUCKETS],
            in_flight: [AtomicU64; BUCKETS],
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> OscStats {
                OscStats {
                    read_pages: load(&self.read_pages),
                    write_pages: load(&self.write_pages),
                    in_flight: load(&self.in_flight),
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    ..OscStats::default()
                }
            }
        }
    };
}

counters!(
    read_bytes,
    written_bytes,
    locks_enqueued,
    locks_cancelled,
    blocking_asts,
    glimpse_asts,
    glimpses,
    lockless,
    resends,
    checksum_errors,
    without_quota,
    evictions
);

fn load(h: &[AtomicU64; BUCKETS]) -> Histogram {
    std::array::from_fn(|i| h[i].load(Ordering::Relaxed))
}

fn count(h: &[AtomicU64; BUCKETS], value: u64) {
    let bucket = value.max(1).ilog2() as usize;
    h[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
}

/// Adds one.
pub(crate) fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    /// An RPC with `bytes` of data goes, as the `in_flight`th.
    pub(crate) fn sent(&self, rw: Rw, bytes: u64, in_flight: usize) {
        let (pages, total) = match rw {
            Rw::Read => (&self.read_pages, &self.read_bytes),
            Rw::Write => (&self.write_pages, &self.written_bytes),
        };
        count(pages, bytes.div_ceil(BLOCK_SIZE));
        count(&self.in_flight, in_flight as u64);
        total.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let c = Counters::default();
        c.sent(Rw::Write, 4 << 20, 1);
        c.sent(Rw::Write, 4096 * 3, 8);
        c.sent(Rw::Read, 1, 300_000);
        let s = c.snapshot();
        assert_eq!((s.write_pages[10], s.write_pages[1], s.read_pages[0]), (1, 1, 1));
        assert_eq!((s.in_flight[0], s.in_flight[3], s.in_flight[BUCKETS - 1]), (1, 1, 1));
        assert_eq!((s.written_bytes, s.read_bytes), ((4 << 20) + 3 * 4096, 1));
    }
}
