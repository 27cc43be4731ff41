//! The groups of rows.

pub mod allocs;
pub mod cached;
pub mod locks;
pub mod memory;
pub mod miss;
pub mod names;
pub mod node;
pub mod stripes;
pub mod write;

use anyhow::Result;
use clio::{Client, File, Layout, OpenOptions};
use std::path::Path;

/// 4 KiB and 1 MiB.
pub const SMALL: usize = 4096;
pub const LARGE: usize = 1 << 20;

/// A client of a store in memory that caches all of `mib`.
fn client_in_memory(mib: u64) -> Result<Client> {
    Ok(Client::builder().store("mem:").set("cache_mb", mib * 2 + 64).set("max_dirty_mb", mib + 64).connect()?)
}

/// A client of a new store of `targets` folders in `dir`.
fn client_in(dir: &Path, targets: u16, cache_mib: u64) -> Result<Client> {
    let uri = format!("dir:{}?targets={targets}", dir.join("store").display());
    Ok(Client::builder().store(&uri).set("cache_mb", cache_mib).connect()?)
}

fn fresh(client: &Client, path: &str, stripes: u16) -> Result<File> {
    let layout = Layout::raid0().stripe_count(stripes).stripe_size(1 << 20);
    Ok(client.open_with(path, OpenOptions::new().read(true).write(true).create(true).truncate(true).layout(layout))?)
}

/// Writes `mib` MiB of data that is not zeros.
fn fill(file: &File, mib: u64) -> Result<()> {
    let mut piece = vec![0u8; LARGE];
    for n in 0..mib {
        piece.iter_mut().enumerate().for_each(|(i, b)| *b = (i as u64 * 7 + n) as u8);
        file.write_all_at(&piece, n << 20)?;
    }
    Ok(())
}
