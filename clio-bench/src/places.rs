//! Where to measure: a folder in memory and one on disk.

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A folder on tmpfs.
pub fn tmpfs() -> Result<TempDir> {
    tempfile::Builder::new().prefix("clio-bench-").tempdir_in("/dev/shm").context("a folder in /dev/shm")
}

/// A folder on disk: below the target folder of the build, lest /tmp is a tmpfs.
pub fn disk() -> Result<TempDir> {
    let here = std::env::current_dir()?.join("target");
    std::fs::create_dir_all(&here)?;
    tempfile::Builder::new().prefix("clio-bench-").tempdir_in(here).context("a folder on disk")
}
