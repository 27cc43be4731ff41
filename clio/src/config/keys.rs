//! The settings that are numbers.

/// A setting that exists.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in `clio.toml`; the variable is `CLIO_` and the name in capitals.
    pub name: &'static str,
    /// Built-in value.
    pub default: u64,
    /// Smallest and largest value.
    pub range: (u64, u64),
    /// What it means, with its unit.
    pub help: &'static str,
}

/// All settings. Switches are 0 or 1.
pub const KEYS: &[Key] = &[
    key("cache_mb", 512, (4, 1 << 20), "page cache limit in MiB"),
    key("max_dirty_mb", 256, (1, 1 << 20), "dirty data limit in MiB, for each target"),
    key("max_pages_per_rpc", 1024, (16, 16384), "largest transfer in pages of 4 KiB, a power of two"),
    key("max_rpcs_in_flight", 8, (1, 256), "transfers in flight, for each target"),
    key("writeback_age_ms", 5000, (10, 3_600_000), "age in ms at which dirty data is written out"),
    key("writeback_lag_ms", 10, (0, 60_000), "time in ms that full transfers wait for the end of a burst of writes"),
    key("readahead_mb", 64, (0, 1 << 20), "read-ahead limit in MiB, for each file; 0 turns it off"),
    key("checksums", 1, (0, 1), "crc32c of all transferred data"),
    key("resends", 10, (0, 1000), "how often a transfer or lock request is sent again after a passing error"),
    key("resend_ms", 20, (1, 60_000), "time in ms before the first resend; doubles with each, up to 2 s"),
    key("lock_lru", 100_000, (16, 10_000_000), "idle locks kept, for each target"),
    key("force_lazyio", 0, (0, 1), "LazyIO for all files: programs see to coherence themselves"),
    key("stripe_count", 0, (0, 2000), "stripes of new files; 0: all targets"),
    key("stripe_kb", 1024, (64, 1 << 22), "stripe size of new files in KiB, a multiple of 64"),
    key("idle_exit_s", 0, (0, 1 << 30), "seconds without a client after which a daemon ends; 0: never"),
    key(
        "lock_timeout_ms",
        0,
        (0, 3_600_000),
        "time in ms after which a client that keeps a wanted lock is evicted; 0: never",
    ),
    key(
        "contended_locks",
        32,
        (0, 1_000_000),
        "a request that conflicts with more locks than this at once goes without",
    ),
    key(
        "lockless_conflicts",
        0,
        (0, 1_000_000),
        "so many requests for an object's locks that had to wait of late make the next go without; 0: never",
    ),
    key("contention_window_ms", 2000, (1, 3_600_000), "time in ms over which requests that had to wait are counted"),
];

const fn key(name: &'static str, default: u64, range: (u64, u64), help: &'static str) -> Key {
    Key { name, default, range, help }
}
