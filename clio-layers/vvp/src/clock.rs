#![expect(unsafe_code, reason = "a clock that the standard library has no name for")]
//! The time of modification, cheap enough to be asked for at every cached write.

#[cfg(target_os = "linux")]
const CLOCK: libc::clockid_t = libc::CLOCK_REALTIME_COARSE;
#[cfg(not(target_os = "linux"))]
const CLOCK: libc::clockid_t = libc::CLOCK_REALTIME;

/// Nanoseconds since 1970, to the granularity of the kernel's tick: what the kernel stamps inodes with, too.
pub(crate) fn coarse_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result.
    let failed = unsafe { libc::clock_gettime(CLOCK, &mut now) } != 0;
    if failed {
        return 0;
    }
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_system_clock() {
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        let coarse = super::coarse_ns() / 1_000_000_000;
        assert!(coarse.abs_diff(system) <= 2, "{coarse} {system}");
    }
}
