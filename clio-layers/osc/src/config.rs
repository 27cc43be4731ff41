//! Settings of a transfer device.

use std::time::Duration;

/// Settings of an [`OscDevice`](crate::OscDevice). All can be changed while it works: see
/// [`OscDevice::configure`](crate::OscDevice::configure).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OscConfig {
    /// Most bytes of data in one RPC: a power of two of at least one block. Another number is rounded up.
    pub max_rpc_bytes: u64,
    /// Most RPCs with data on their way at once; at least 1. Those that a lock's cancellation waits for don't count.
    pub max_rpcs_in_flight: usize,
    /// Most bytes that are dirty, staged or being written out.
    pub max_dirty_bytes: u64,
    /// Dirty data is written out when it gets this old.
    pub writeback_age: Duration,
    /// How long the write-out of a first full RPC waits for the end of the burst that it came with: the writer has the
    /// processor and the memory for itself meanwhile. Not waited for while transfers are on their way, nor with more
    /// than 64 MiB or a quarter of the limit dirty.
    pub writeback_lag: Duration,
    /// How long a write waits for quota or grant before it goes out synchronously.
    pub quota_wait: Duration,
    /// Whether data carries a crc32c both ways.
    pub checksums: bool,
    /// Locks beyond this number are cancelled, the least recently used first, as far as they are idle.
    pub lock_limit: usize,
    /// Locks not used for this long are cancelled, if nothing dirty is under them.
    pub lock_age: Duration,
    /// How often an RPC is sent again after `EIO`, `EAGAIN`, `ENOMEM` or a bad checksum.
    pub resend_limit: u32,
    /// Delay before the first resend; doubles with each.
    pub resend_delay: Duration,
    /// Largest delay before a resend.
    pub resend_delay_max: Duration,
}

/// Bytes of the largest burst of writes.
const BURST_BYTES: u64 = 64 << 20;

impl Default for OscConfig {
    fn default() -> Self {
        Self {
            max_rpc_bytes: 4 << 20,
            max_rpcs_in_flight: 8,
            max_dirty_bytes: 256 << 20,
            writeback_age: Duration::from_secs(5),
            writeback_lag: Duration::from_millis(10),
            quota_wait: Duration::from_secs(5),
            checksums: true,
            lock_limit: 100_000,
            lock_age: Duration::from_secs(3900),
            resend_limit: 10,
            resend_delay: Duration::from_millis(20),
            resend_delay_max: Duration::from_secs(2),
        }
    }
}

impl OscConfig {
    /// The same settings with what can't work replaced by the nearest that can.
    pub(crate) fn sane(mut self) -> Self {
        self.max_rpc_bytes = self.max_rpc_bytes.max(clio_core::units::BLOCK_SIZE).next_power_of_two();
        self.max_rpcs_in_flight = self.max_rpcs_in_flight.max(1);
        self
    }

    /// More dirty data than this isn't a burst.
    pub(crate) fn burst_bytes(&self) -> u64 {
        BURST_BYTES.min(self.max_dirty_bytes / 4)
    }

    /// Delay before resend number `attempt` (from 1).
    pub(crate) fn delay(&self, attempt: u32) -> Duration {
        let factor = 1u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.resend_delay.saturating_mul(factor).min(self.resend_delay_max)
    }
}
