//! Reads that miss Clio's cache and hit the target's page cache.

use super::{LARGE, SMALL, client_in, fill, fresh};
use crate::measure::{Figure, Report, shuffled, shuffled_from, time, time_threads};
use crate::places;
use anyhow::Result;
use clio::{Client, File};
use std::fs;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

pub fn run(report: &mut Report) -> Result<()> {
    let mib: u64 = if report.quick { 64 } else { 256 };
    for (rival, dir) in [("tmpfs pread", places::tmpfs()?), ("ext4 pread", places::disk()?)] {
        let client = client_in(dir.path(), 1, 1024)?;
        let file = fresh(&client, "/set", 1)?;
        fill(&file, mib)?;
        file.sync_all()?;
        let path = dir.path().join("plain");
        fs::write(&path, vec![7u8; (mib << 20) as usize])?;
        let plain = fs::File::open(path)?;

        let mut buf = vec![0u8; LARGE];
        let ours = || {
            client.drop_caches()?;
            time(|| {
                for n in 0..mib {
                    file.read_at(&mut buf, n << 20)?;
                    black_box(&buf);
                }
                Ok(())
            })
        };
        let mut other = vec![0u8; LARGE];
        report.pair(Figure::bytes("sequential read 1M, cold cache", rival, None, mib << 20), ours, || {
            time(|| {
                for n in 0..mib {
                    plain.read_exact_at(&mut other, n << 20)?;
                    black_box(&other);
                }
                Ok(())
            })
        })?;

        let ops = if report.quick { 500 } else { 4_000 };
        let blocks = (mib << 20) / SMALL as u64;
        let ours = || {
            client.drop_caches()?;
            let (mut next, mut buf) = (shuffled(blocks), vec![0u8; SMALL]);
            time(|| {
                for _ in 0..ops {
                    file.read_at(&mut buf, next() * SMALL as u64)?;
                    black_box(&buf);
                }
                Ok(())
            })
        };
        report.pair(Figure::ops("random read 4K, cold cache", rival, None, ops), ours, || {
            let (mut next, mut buf) = (shuffled(blocks), vec![0u8; SMALL]);
            time(|| {
                for _ in 0..ops {
                    plain.read_exact_at(&mut buf, next() * SMALL as u64)?;
                    black_box(&buf);
                }
                Ok(())
            })
        })?;
        at_depth(report, &client, &file, &plain, rival, blocks)?;
    }
    Ok(())
}

/// As many reads at once as there are threads: each reads on its own.
fn at_depth(
    report: &mut Report,
    client: &Client,
    file: &File,
    plain: &fs::File,
    rival: &str,
    blocks: u64,
) -> Result<()> {
    const DEPTH: usize = 32;
    let each = if report.quick { 20 } else { 200 };
    let figure = Figure::ops("random read 4K, cold cache, depth 32", rival, Some(0.9), each * DEPTH as u64);
    let note = "32 threads on both sides; the goal is meant against io_uring, which neither side uses";
    let ours = || {
        client.drop_caches()?;
        time_threads(DEPTH, |n| {
            let (mut next, mut buf) = (shuffled_from(n as u64, blocks), [0u8; SMALL]);
            for _ in 0..each {
                file.read_at(&mut buf, next() * SMALL as u64)?;
                black_box(&buf);
            }
            Ok(())
        })
    };
    report.pair(figure.threads(DEPTH).note(note), ours, || {
        time_threads(DEPTH, |n| {
            let (mut next, mut buf) = (shuffled_from(n as u64, blocks), [0u8; SMALL]);
            for _ in 0..each {
                plain.read_exact_at(&mut buf, next() * SMALL as u64)?;
                black_box(&buf);
            }
            Ok(())
        })
    })
}
