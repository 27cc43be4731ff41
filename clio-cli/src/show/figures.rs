//! A daemon's figures, as text.

use super::human;
use clio::node::{Figures, TargetFigures};
use std::fmt::Write;
use std::time::Duration;

/// Above the lines of [`line`].
pub(crate) const HEADING: &str = "clients   files   locks waiting  requests/s      read/s   written/s";
/// Lines after which the heading is shown again.
pub(crate) const LINES_A_HEADING: u64 = 20;

/// One line: what is now, and what happened since `before`, `every` ago, for each second.
pub(crate) fn line(now: &Figures, before: Option<&Figures>, every: Duration) -> String {
    let rate = |of: fn(&Figures) -> u64| match before {
        Some(before) => per_second(of(now), of(before), every),
        None => 0,
    };
    format!(
        "{:>7} {:>7} {:>7} {:>7} {:>11} {:>11} {:>11}",
        clients(now),
        now.open_files,
        sum(now, |t| t.locks_granted),
        sum(now, |t| t.locks_waiting),
        rate(requests),
        human(rate(|f| sum(f, |t| t.read_bytes))),
        human(rate(|f| sum(f, |t| t.written_bytes))),
    )
}

/// A page: the daemon, its requests by kind, its targets. With `before`, and how long ago that was, requests and bytes are
/// those of a second.
pub(crate) fn page(now: &Figures, before: Option<(&Figures, Duration)>) -> String {
    let rate = |of: &dyn Fn(&Figures) -> u64| match before {
        Some((before, every)) => per_second(of(now), of(before), every),
        None => of(now),
    };
    let per = if before.is_some() { "/s" } else { "" };
    let status = &now.status;
    let mut text = format!(
        "daemon {}, release {}, up {} s; {} clients, {} open files\n",
        status.pid,
        status.release,
        status.uptime_seconds,
        clients(now),
        now.open_files
    );
    let _ = write!(text, "requests{per}:");
    for (i, (name, _)) in now.requests.iter().enumerate() {
        let _ = write!(text, " {name} {}", rate(&|f| f.requests.get(i).map_or(0, |r| r.1)));
    }
    let (read, written) = (format!("read{per}"), format!("written{per}"));
    let _ = writeln!(text, "\n\ntarget   locks waiting {read:>11} {written:>11}    promised        free");
    for (i, t) in now.targets.iter().enumerate() {
        let bytes = |of: fn(&TargetFigures) -> u64| human(rate(&|f| f.targets.get(i).map_or(0, of)));
        let _ = writeln!(
            text,
            "{:>6} {:>7} {:>7} {:>11} {:>11} {:>11} {:>11}",
            t.target,
            t.locks_granted,
            t.locks_waiting,
            bytes(|t| t.read_bytes),
            bytes(|t| t.written_bytes),
            human(t.promised_bytes),
            human(t.free_bytes)
        );
    }
    text
}

/// The text format of Prometheus.
pub(crate) fn prometheus(now: &Figures) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: Vec<(String, u64)>| {
        let _ = writeln!(text, "# HELP clio_{name} {help}\n# TYPE clio_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "clio_{name}{labels} {value}");
        }
    };
    let one = |value| vec![(String::new(), value)];
    let each = |of: fn(&TargetFigures) -> u64| {
        now.targets.iter().map(|t| (format!("{{target=\"{}\"}}", t.target), of(t))).collect::<Vec<_>>()
    };
    metric("uptime_seconds", "gauge", "Time since the daemon started.", one(now.status.uptime_seconds));
    metric("clients", "gauge", "Clients connected.", one(clients(now)));
    metric("open_files", "gauge", "Files open, by whichever client.", one(now.open_files));
    let kinds = now.requests.iter().map(|(name, n)| (format!("{{kind=\"{name}\"}}"), *n)).collect();
    metric("requests_total", "counter", "Requests taken.", kinds);
    metric("read_bytes_total", "counter", "Bytes that clients asked to read.", each(|t| t.read_bytes));
    metric("written_bytes_total", "counter", "Bytes that clients asked to write.", each(|t| t.written_bytes));
    metric("locks_granted", "gauge", "Locks held.", each(|t| t.locks_granted));
    metric("locks_waiting", "gauge", "Requests that wait for a lock.", each(|t| t.locks_waiting));
    metric("promised_bytes", "gauge", "Space promised to clients.", each(|t| t.promised_bytes));
    metric("size_bytes", "gauge", "Size of the target.", each(|t| t.total_bytes));
    metric("free_bytes", "gauge", "Space free on the target.", each(|t| t.free_bytes));
    text
}

/// Without the one that asks.
fn clients(f: &Figures) -> u64 {
    u64::from(f.status.clients.saturating_sub(1))
}

fn requests(f: &Figures) -> u64 {
    f.requests.iter().map(|(_, n)| n).sum()
}

fn sum(f: &Figures, of: fn(&TargetFigures) -> u64) -> u64 {
    f.targets.iter().map(of).sum()
}

/// Counted anew by another daemon, it may have become less.
fn per_second(now: u64, before: u64, every: Duration) -> u64 {
    (now.saturating_sub(before) as f64 / every.as_secs_f64()).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio::node::Status;

    fn figures(n: u64) -> Figures {
        let status = Status { pid: 7, release: "1".into(), uptime_seconds: n, clients: 3 };
        let target = |target| TargetFigures {
            target,
            read_bytes: n << 20,
            written_bytes: n << 21,
            locks_granted: n,
            locks_waiting: 1,
            ..TargetFigures::default()
        };
        let requests = vec![("read".into(), n), ("write".into(), 2 * n)];
        Figures { status, open_files: 4, requests, targets: vec![target(0), target(1)] }
    }

    #[test]
    fn a_line_has_what_happened_in_a_second() {
        let (before, now) = (figures(10), figures(14));
        let columns = |line: String| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let two = Duration::from_secs(2);
        assert_eq!(columns(line(&now, None, two))[..5], ["2", "4", "28", "2", "0"]);
        assert_eq!(columns(line(&now, Some(&before), two)), ["2", "4", "28", "2", "6", "4.0M", "8.0M"]);
        assert_eq!(columns(line(&before, Some(&now), two))[4], "0", "another daemon counts anew");
        assert_eq!(HEADING.len(), line(&now, None, two).len(), "the columns stand under their names");
    }

    #[test]
    fn pages_name_kinds_and_targets() {
        let now = figures(10);
        assert!(page(&now, None).contains("requests: read 10 write 20\n"), "{}", page(&now, None));
        let rates = page(&now, Some((&figures(5), Duration::from_millis(500))));
        assert!(rates.contains("requests/s: read 10 write 20\n") && rates.contains("read/s"), "{rates}");
    }

    #[test]
    fn prometheus_has_a_type_for_each_name() {
        let text = prometheus(&figures(10));
        for line in ["clio_clients 2", "clio_requests_total{kind=\"write\"} 20", "clio_locks_granted{target=\"1\"} 10"]
        {
            assert!(text.lines().any(|l| l == line), "{text}");
        }
        for sample in text.lines().filter(|l| !l.starts_with('#')) {
            let name = sample.split(['{', ' ']).next().expect("a name");
            assert!(text.contains(&format!("# TYPE {name} ")), "{sample}");
        }
    }
}
