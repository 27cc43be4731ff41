//! Times, in the local time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Date and time to the minute, of nanoseconds since 1970.
pub(crate) fn short(ns: u64) -> String {
    format(ns, "%Y-%m-%d %H:%M", TimeZone::system())
}

/// Date and time to the nanosecond, with the zone's offset.
pub(crate) fn full(ns: u64) -> String {
    format(ns, "%Y-%m-%d %H:%M:%S%.9f %z", TimeZone::system())
}

fn format(ns: u64, how: &str, zone: TimeZone) -> String {
    match Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(t) => t.to_zoned(zone).strftime(how).to_string(),
        Err(_) => ns.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let show = |how| format(1_700_000_000_000_000_001, how, TimeZone::UTC);
        assert_eq!(show("%Y-%m-%d %H:%M"), "2023-11-14 22:13");
        assert_eq!(show("%Y-%m-%d %H:%M:%S%.9f %z"), "2023-11-14 22:13:20.000000001 +0000");
        assert!(!short(u64::MAX).is_empty() && !full(0).is_empty());
    }
}
