//! The time that names and data are stamped with, cheap enough to be asked for at every cached write, and when a time is
//! worth keeping.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

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

/// After this, a read is worth noting again.
const RELATIME_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether a read at `now` has to be noted, where `atime` was the last one noted, and `changed` the last change of data
/// or attributes; all in nanoseconds since 1970. As `relatime` of Linux has it.
pub fn is_read_worth_noting(atime: u64, changed: u64, now: u64) -> bool {
    atime <= changed || now.saturating_sub(atime) >= RELATIME_PERIOD.as_nanos() as u64
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    #[test]
    fn agrees_with_the_system_clock() {
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        let coarse = super::now_ns() / 1_000_000_000;
        assert!(coarse.abs_diff(system) <= 2, "{coarse} {system}");
    }

    #[test]
    fn reads_are_noted_after_a_change_or_a_day() {
        use super::is_read_worth_noting as is_worth;
        let day = super::RELATIME_PERIOD.as_nanos() as u64;
        assert!(is_worth(10, 10, 11), "changed at the same tick: who knows what came first");
        assert!(!is_worth(11, 10, 12) && !is_worth(11, 10, 10 + day));
        assert!(is_worth(11, 10, 11 + day));
        assert!(!is_worth(11, 10, 0), "a clock that was set back");
    }
}
