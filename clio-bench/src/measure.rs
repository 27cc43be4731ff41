//! Pairs of measurements, and rows of the report.

use anyhow::Result;
use serde::Serialize;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// One figure.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    value: f64,
    unit: &'a str,
    against: &'a str,
    ratio: Option<f64>,
    goal: Option<f64>,
    threads: usize,
    note: &'a str,
}

/// What a figure is called and compared with.
#[derive(Clone, Copy)]
pub struct Figure<'a> {
    pub name: &'a str,
    pub against: &'a str,
    /// The ratio to reach.
    pub goal: Option<f64>,
    pub note: &'a str,
    /// Operations in a round: the value is nanoseconds for each.
    pub ops: u64,
    /// Bytes in a round: if not zero, the value is MiB/s instead.
    pub bytes: u64,
    pub threads: usize,
}

impl<'a> Figure<'a> {
    /// A figure in nanoseconds an operation.
    pub fn ops(name: &'a str, against: &'a str, goal: Option<f64>, ops: u64) -> Self {
        Self { name, against, goal, note: "", ops, bytes: 0, threads: 1 }
    }

    /// A figure in MiB/s.
    pub fn bytes(name: &'a str, against: &'a str, goal: Option<f64>, bytes: u64) -> Self {
        Self { name, against, goal, note: "", ops: 1, bytes, threads: 1 }
    }

    pub fn note(self, note: &'a str) -> Self {
        Self { note, ..self }
    }

    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }
}

/// Where rows go.
pub struct Report {
    json: bool,
    pub quick: bool,
}

impl Report {
    pub fn new(json: bool, quick: bool) -> Self {
        if !json {
            println!("{:<46} {:>12} {:<8} {:>7} {:>6}  against", "name", "value", "unit", "ratio", "goal");
        }
        Self { json, quick }
    }

    /// `full` rounds, or `quick` ones.
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// Measures `ours` and `theirs` alternately and reports ours, with the median of the ratios (above 1: ours is
    /// faster). Each returns the time that its round took, set-up excluded.
    pub fn pair(
        &mut self,
        figure: Figure<'_>,
        mut ours: impl FnMut() -> Result<Duration>,
        mut theirs: impl FnMut() -> Result<Duration>,
    ) -> Result<()> {
        let (mut times, mut ratios) = (Vec::new(), Vec::new());
        for round in 0..=self.rounds() {
            let (a, b) = (ours()?.as_secs_f64(), theirs()?.as_secs_f64());
            // The first round warms up.
            if round > 0 {
                times.push(a);
                ratios.push(b / a);
            }
        }
        let time = median(&mut times);
        let (value, unit) = match figure.bytes {
            0 => (time * 1e9 / figure.ops as f64, "ns/op"),
            bytes => (bytes as f64 / (1 << 20) as f64 / time, "MiB/s"),
        };
        self.row(figure, value, unit, Some(median(&mut ratios)));
        Ok(())
    }

    /// Reports a figure that was measured otherwise.
    pub fn row(&mut self, f: Figure<'_>, value: f64, unit: &str, ratio: Option<f64>) {
        let row = Row {
            name: f.name,
            value: (value * 100.0).round() / 100.0,
            unit,
            against: f.against,
            ratio: ratio.map(|r| (r * 1000.0).round() / 1000.0),
            goal: f.goal,
            threads: f.threads,
            note: f.note,
        };
        if self.json {
            if let Ok(line) = serde_json::to_string(&row) {
                println!("{line}");
            }
        } else {
            let show = |n: Option<f64>| n.map_or(String::new(), |n| format!("{n:.2}"));
            println!(
                "{:<46} {:>12.1} {:<8} {:>7} {:>6}  {} {}",
                row.name,
                row.value,
                row.unit,
                show(row.ratio),
                show(row.goal),
                row.against,
                row.note
            );
        }
    }
}

/// The middle one of `values`, which it sorts.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Time of `work`.
pub fn time<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Time in which each of `threads` threads does its share of the work; it is told which of them it is.
pub fn time_threads(threads: usize, share: impl Fn(usize) -> Result<()> + Sync) -> Result<Duration> {
    let (start, share) = (Barrier::new(threads + 1), &share);
    std::thread::scope(|scope| {
        let start = &start;
        let run = |n| {
            scope.spawn(move || {
                start.wait();
                share(n)
            })
        };
        let all: Vec<_> = (0..threads).map(run).collect();
        start.wait();
        let began = Instant::now();
        for thread in all {
            thread.join().map_err(|_| anyhow::anyhow!("a thread of the benchmark panicked"))??;
        }
        Ok(began.elapsed())
    })
}

/// A cheap sequence of numbers below `limit`.
pub fn shuffled(limit: u64) -> impl FnMut() -> u64 {
    shuffled_from(0, limit)
}

/// Another such sequence for each `seed`.
pub fn shuffled_from(seed: u64, limit: u64) -> impl FnMut() -> u64 {
    let mut x = 0x2545_f491_4f6c_dd1du64 ^ seed << 17;
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % limit
    }
}
