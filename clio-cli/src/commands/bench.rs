//! `clio bench`.

use crate::app::App;
use crate::report::Stop;
use crate::size;
use clap::Args;
use clio::{Client, OpenOptions, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measure the store: throughput of large and small writes and reads, and operations on small files
///
/// Works in a folder of its own, which is removed afterwards.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Bytes of the file that is written and read
    #[arg(long, default_value = "64M", value_parser = size::parse)]
    size: u64,
    /// Small files that are made and removed
    #[arg(long, default_value_t = 200)]
    files: u32,
}

/// One figure.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    value: f64,
    unit: &'static str,
    threads: u32,
    note: &'static str,
}

const LARGE: usize = 1 << 20;
const SMALL: usize = 4 << 10;

impl Bench {
    pub(crate) fn run(self, app: &App) -> std::result::Result<(), Stop> {
        // A mem: store serves here: it lives as long as the measurement.
        let client = app.connect(app.store_text()?)?;
        let dir = PathBuf::from(format!("/.clio-bench-{}", std::process::id()));
        let fail = |e| Stop::on(&dir, e);
        client.mkdir(&dir).map_err(fail)?;
        let rows = self.measure(&client, &dir);
        let removed = client.remove_dir_all(&dir);
        let rows = rows.map_err(fail)?;
        removed.map_err(fail)?;
        if app.json() {
            return app.print_json(&rows);
        }
        let mut out = app.out();
        for Row { name, value, unit, note, .. } in &rows {
            out.line(format!("{name:<16} {value:>12.1} {unit:<6} {note}"))?;
        }
        out.finish()
    }

    fn measure(&self, client: &Client, dir: &Path) -> Result<Vec<Row>> {
        let size = self.size.max(LARGE as u64);
        let mut rows = Vec::new();
        self.large(client, &dir.join("large"), size, &mut rows)?;
        self.small(client, &dir.join("small"), size / 4, &mut rows)?;
        self.names(client, &dir.join("files"), &mut rows)?;
        Ok(rows)
    }

    fn large(&self, client: &Client, path: &Path, size: u64, rows: &mut Vec<Row>) -> Result<()> {
        let file = client.create(path)?;
        let pattern: Vec<u8> = (0..LARGE).map(|i| (i % 251) as u8).collect();
        let mut buf = vec![0; LARGE];
        let each = |action: &mut dyn FnMut(u64) -> Result<()>| {
            (0..size / LARGE as u64).try_for_each(|i| action(i * LARGE as u64))
        };
        let seconds = timed(|| {
            each(&mut |at| file.write_all_at(&pattern, at))?;
            file.sync_data()
        })?;
        rows.push(rate("write_1m", size, seconds, "until durable"));
        let seconds = timed(|| each(&mut |at| file.read_exact_at(&mut buf, at)))?;
        rows.push(rate("read_1m_cached", size, seconds, "what the cache still holds"));
        client.drop_caches()?;
        let seconds = timed(|| each(&mut |at| file.read_exact_at(&mut buf, at)))?;
        rows.push(rate("read_1m", size, seconds, "Clio's cache dropped, not the system's"));
        file.close()
    }

    fn small(&self, client: &Client, path: &Path, size: u64, rows: &mut Vec<Row>) -> Result<()> {
        let file = client.create(path)?;
        let mut buf = vec![7; SMALL];
        let blocks = size / SMALL as u64;
        let seconds = timed(|| {
            (0..blocks).try_for_each(|i| file.write_all_at(&buf, i * SMALL as u64))?;
            file.sync_data()
        })?;
        rows.push(rate("write_4k", size, seconds, "in order, until durable"));
        // A full cycle through all blocks in an order without pattern, the same in each run.
        let step = scattered(blocks);
        let seconds =
            timed(|| (0..blocks).try_for_each(|i| file.read_exact_at(&mut buf, i * step % blocks * SMALL as u64)))?;
        rows.push(rate("read_4k_cached", size, seconds, "scattered"));
        file.close()
    }

    fn names(&self, client: &Client, dir: &Path, rows: &mut Vec<Row>) -> Result<()> {
        client.mkdir(dir)?;
        let path = |i: u32| dir.join(i.to_string());
        let seconds = timed(|| {
            (0..self.files).try_for_each(|i| {
                let file = client.open_with(path(i), OpenOptions::new().write(true).create_new(true))?;
                file.write_all_at(&[1; SMALL], 0)?;
                file.close()
            })?;
            client.sync()
        })?;
        rows.push(operations("create", self.files, seconds, "with 4 KiB each, one sync at the end"));
        let seconds = timed(|| (0..self.files).try_for_each(|i| client.metadata(path(i)).map(drop)))?;
        rows.push(operations("stat", self.files, seconds, ""));
        let seconds = timed(|| (0..self.files).try_for_each(|i| client.remove_file(path(i))))?;
        rows.push(operations("unlink", self.files, seconds, ""));
        Ok(())
    }
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64().max(1e-9))
}

fn rate(name: &'static str, bytes: u64, seconds: f64, note: &'static str) -> Row {
    Row { name, value: bytes as f64 / seconds / (1 << 20) as f64, unit: "MiB/s", threads: 1, note }
}

fn operations(name: &'static str, count: u32, seconds: f64, note: &'static str) -> Row {
    Row { name, value: f64::from(count) / seconds, unit: "ops/s", threads: 1, note }
}

/// A step that leads through all of `n` places: it has no divisor in common with `n`.
fn scattered(n: u64) -> u64 {
    let common = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (n * 5 / 8 + 1..).find(|step| common(*step, n) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::scattered;

    #[test]
    fn the_step_leads_everywhere() {
        for n in 1..300 {
            let mut seen: Vec<_> = (0..n).map(|i| i * scattered(n) % n).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }
}
