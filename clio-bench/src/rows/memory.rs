//! Memory that many small cached files take.

use crate::measure::{Figure, Report};
use anyhow::{Context, Result, ensure};
use clio::Client;

fn resident_bytes() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).context("statm")?.parse()?;
    Ok(pages * 4096)
}

pub fn run(report: &mut Report) -> Result<()> {
    let files: u64 = if report.quick { 10_000 } else { 100_000 };
    let client = Client::builder().store("mem:").set("cache_mb", 2048).set("max_dirty_mb", 2048).connect()?;
    for n in 0..files {
        client.create(format!("/f{n}"))?.write_all_at(&[n as u8; 4096], 0)?;
    }
    // The store's own copy of the data, and its names, are not the cache's: a second client has nothing but that.
    client.sync()?;
    client.drop_caches()?;
    let reader = client.second_client()?;
    let before = resident_bytes()?;
    let mut buf = [0; 4096];
    for n in 0..files {
        reader.open_file(format!("/f{n}"))?.read_exact_at(&mut buf, 0)?;
    }
    let folios = reader.stats().cache.folios;
    ensure!(folios == files, "only {folios} of {files} files are cached");
    let used = resident_bytes()?.saturating_sub(before);
    let each = used as f64 / files as f64;
    let note = format!("{files} files of 4 KiB; {:.2} GiB for 100,000", each * 1e5 / (1u64 << 30) as f64);
    let budget = 0.8 * (1u64 << 30) as f64 / 1e5;
    let figure = Figure::ops("memory for a cached 4 KiB file", "0.8 GiB for 100,000", Some(1.0), files).note(&note);
    report.row(figure, each, "bytes", Some(budget / each));
    Ok(())
}
