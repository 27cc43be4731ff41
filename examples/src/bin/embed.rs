//! Embeds a store in a program: write a checkpoint, read it back through another client.

use anyhow::Result;
use clio::{Client, Layout, OpenOptions};

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let uri = format!("dir:{}?targets=4", dir.path().join("store").display());

    let client = Client::open(&uri)?;
    client.mkdir("/run")?;
    let layout = Layout::raid0().stripe_count(4).stripe_size(1 << 20);
    let options = OpenOptions::new().read(true).write(true).create(true).layout(layout);
    let file = client.open_with("/run/ckpt.0", options)?;
    for rank in 0..8u64 {
        file.write_all_at(&[rank as u8; 4096], rank * 4096)?;
    }
    file.sync_all()?;

    // Another client of the same store has its own cache; locks keep the two coherent.
    let reader = client.second_client()?;
    let mut block = [0; 4096];
    reader.open_file("/run/ckpt.0")?.read_exact_at(&mut block, 5 * 4096)?;
    assert_eq!(block, [5; 4096]);
    println!("{} bytes, read back by a second client", reader.metadata("/run/ckpt.0")?.len());
    Ok(())
}
