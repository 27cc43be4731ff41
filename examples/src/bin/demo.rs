//! The main job, end to end: real files into a striped store, out of it through another client, compared.

use anyhow::{Context, Result, bail, ensure};
use clio::{Client, Layout, OpenOptions};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Size of the big file, unless `--size MIB` says otherwise.
const BIG_MIB: u64 = 256;
const SMALL_FILES: usize = 500;
const PIECE: usize = 1 << 20;

fn main() -> Result<()> {
    let big_bytes = size_asked_for(std::env::args().skip(1))?;
    let dir = tempfile::Builder::new().prefix("clio-demo-").tempdir()?;
    let sources = dir.path().join("sources");
    fs::create_dir_all(sources.join("small"))?;

    title("Sources");
    let big = sources.join("field.bin");
    let big_sum = make_field(&big, big_bytes)?;
    let small = make_small_files(&sources.join("small"))?;
    println!("{} MiB of simulated field data, {} small files", big_bytes >> 20, small.len());

    title("Into a store of four folder targets, striped 4 × 1 MiB");
    let uri = format!("dir:{}?targets=4", dir.path().join("store").display());
    let client = Client::open(&uri)?;
    client.mkdir("/small")?;
    let layout = Layout::raid0().stripe_count(4).stripe_size(1 << 20);
    let plain = time(|| plain_copy(&big, &dir.path().join("plain.bin")))?;
    let put = time(|| {
        let options = OpenOptions::new().write(true).create_new(true).layout(layout);
        let file = client.open_with("/field.bin", options)?;
        pour(&mut fs::File::open(&big)?, &mut &file)?;
        file.sync_all()?;
        Ok(file.close()?)
    })?;
    let put_small = time(|| {
        for (name, _) in &small {
            let file = client.create(format!("/small/{name}"))?;
            file.write_all_at(&fs::read(sources.join("small").join(name))?, 0)?;
            file.close()?;
        }
        Ok(client.sync()?)
    })?;
    rate("plain copy + fsync", big_bytes, plain);
    rate("clio put + sync", big_bytes, put);
    println!("{:<22} {:>8.0} files/s", "small files + sync", small.len() as f64 / put_small.as_secs_f64());
    let (fid, layout) = client.layout("/field.bin")?;
    println!("\n{}", layout.describe(fid));

    title("Out of it, through a second client, compared by SHA-256");
    let reader = client.second_client()?;
    let (get, sum) = timed(|| digest(&reader, "/field.bin"))?;
    ensure!(sum == big_sum, "the big file came back changed");
    rate("clio get + sha256", big_bytes, get);
    for (name, sum) in &small {
        ensure!(digest(&reader, &format!("/small/{name}"))? == *sum, "{name} came back changed");
    }
    println!("all {} files are equal: {big_sum}", small.len() + 1);

    title("What the layers did");
    println!("writer:\n{}\nreader:\n{}", client.stats(), reader.stats());
    drop(reader);
    drop(client);

    title("Check");
    let client = Client::open(&uri)?;
    let report = client.check(true)?;
    println!("{report}");
    ensure!(report.is_clean(), "the store is damaged");
    Ok(())
}

/// Bytes of the big file.
fn size_asked_for(mut args: impl Iterator<Item = String>) -> Result<u64> {
    let mib = match (args.next().as_deref(), args.next(), args.next()) {
        (None, ..) => BIG_MIB,
        (Some("--size"), Some(mib), None) => mib.parse().context("--size takes a number of MiB")?,
        _ => bail!("the demo takes --size MIB, the size of its big file, and nothing else"),
    };
    ensure!((1..=1 << 20).contains(&mib), "--size {mib}: give from 1 to 1048576 MiB");
    Ok(mib << 20)
}

/// Structured data: smooth waves with noise in the low bits, and long runs here and there.
fn make_field(path: &Path, bytes: u64) -> Result<String> {
    let mut file = fs::File::create(path)?;
    let mut sum = Sha256::new();
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut piece = vec![0u8; PIECE];
    for n in 0..bytes / PIECE as u64 {
        for (i, cell) in piece.chunks_exact_mut(8).enumerate() {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            let x = (n as f64 + i as f64 / 131_072.0) * 0.37;
            let wave = (x.sin() * 1e6 + (x * 0.01).cos() * 1e7) as i64 as u64;
            let value = if n % 16 == 3 { n } else { wave << 8 | noise & 0xff };
            cell.copy_from_slice(&value.to_le_bytes());
        }
        sum.update(&piece);
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    Ok(hex(sum))
}

fn make_small_files(dir: &Path) -> Result<Vec<(String, String)>> {
    let mut made = Vec::new();
    for n in 0..SMALL_FILES {
        let name = format!("part-{n:04}.txt");
        let line = format!("{n}: {}\n", "lorem ipsum ".repeat(n % 40));
        let text = line.repeat(1 + n % 97);
        fs::write(dir.join(&name), &text)?;
        made.push((name, hex(Sha256::new().chain_update(&text))));
    }
    Ok(made)
}

fn plain_copy(from: &Path, to: &Path) -> Result<()> {
    let mut out = fs::File::create(to)?;
    pour(&mut fs::File::open(from)?, &mut out)?;
    Ok(out.sync_all()?)
}

fn pour(from: &mut impl Read, to: &mut impl Write) -> Result<()> {
    let mut piece = vec![0u8; PIECE];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            n => to.write_all(&piece[..n])?,
        }
    }
}

fn digest(client: &Client, path: &str) -> Result<String> {
    let file = client.open_file(path).context("opening")?;
    let mut sum = Sha256::new();
    let mut piece = vec![0u8; PIECE];
    loop {
        match (&file).read(&mut piece)? {
            0 => return Ok(hex(sum)),
            n => sum.update(&piece[..n]),
        }
    }
}

fn hex(sum: Sha256) -> String {
    sum.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

fn time(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    timed(work).map(|(t, ())| t)
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let start = Instant::now();
    let value = work()?;
    Ok((start.elapsed(), value))
}

fn rate(what: &str, bytes: u64, took: Duration) {
    println!("{what:<22} {:>8.0} MiB/s", bytes as f64 / (1 << 20) as f64 / took.as_secs_f64());
}

fn title(text: &str) {
    println!("\n── {text}");
}
