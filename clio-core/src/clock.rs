//! The time that names and data are stamped with, cheap enough to be asked for at every cached write.

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::RealtimeCoarse;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Realtime;

/// Nanoseconds since 1970, to the granularity of the kernel's tick: what the kernel stamps inodes with, too.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(CLOCK);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    #[test]
    fn agrees_with_the_system_clock() {
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        let coarse = super::now_ns() / 1_000_000_000;
        assert!(coarse.abs_diff(system) <= 2, "{coarse} {system}");
    }
}
