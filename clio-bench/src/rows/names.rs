//! Names: create and unlink, open and stat, against the file system.

use super::client_in;
use crate::measure::{Figure, Report, time};
use crate::places;
use anyhow::Result;
use clio::Client;
use std::fs;
use std::path::Path;
use std::time::Duration;

pub fn run(report: &mut Report) -> Result<()> {
    let files: u64 = if report.quick { 500 } else { 3_000 };
    for (rival, dir, goal) in [("ext4", places::disk()?, Some(2.0)), ("tmpfs", places::tmpfs()?, None)] {
        let client = client_in(dir.path(), 1, 256)?;
        client.mkdir("/d")?;
        let plain = dir.path().join("plain");
        fs::create_dir(&plain)?;
        let figure = Figure::ops("create and unlink, empty files", rival, goal, files);
        report.pair(figure, || churn(&client, "/d", files), || churn_plain(&plain, files))?;
        drop(client.create("/d/one")?);
        fs::write(plain.join("one"), b"")?;
        let ours = || repeat(files, || client.open_file("/d/one").map(drop));
        report.pair(Figure::ops("open and close", rival, None, files), ours, || {
            repeat(files, || fs::File::open(plain.join("one")).map(drop))
        })?;
        let ours = || repeat(files, || client.metadata("/d/one").map(|_| ()));
        report.pair(Figure::ops("stat", rival, None, files), ours, || {
            repeat(files, || fs::metadata(plain.join("one")).map(|_| ()))
        })?;
    }
    Ok(())
}

/// Time of making and removing `files` empty files in the folder `dir` of a store.
pub(super) fn churn(client: &Client, dir: &str, files: u64) -> Result<Duration> {
    time(|| {
        for n in 0..files {
            drop(client.create(format!("{dir}/f{n}"))?);
        }
        for n in 0..files {
            client.remove_file(format!("{dir}/f{n}"))?;
        }
        Ok(())
    })
}

/// The same in the folder `dir` of the file system.
pub(super) fn churn_plain(dir: &Path, files: u64) -> Result<Duration> {
    time(|| {
        for n in 0..files {
            drop(fs::File::create(dir.join(format!("f{n}")))?);
        }
        for n in 0..files {
            fs::remove_file(dir.join(format!("f{n}")))?;
        }
        Ok(())
    })
}

/// Time of doing `step` so many times.
pub(super) fn repeat<E>(times: u64, mut step: impl FnMut() -> Result<(), E>) -> Result<Duration>
where
    anyhow::Error: From<E>,
{
    time(|| Ok((0..times).try_for_each(|_| step())?))
}
