//! Reads that the cache serves.

use super::{LARGE, SMALL, client_in_memory, fill, fresh};
use crate::measure::{Figure, Report, shuffled, shuffled_from, time, time_threads};
use crate::places;
use anyhow::Result;
use std::fs;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

const SET_MIB: u64 = 512;

pub fn run(report: &mut Report) -> Result<()> {
    let set_mib = if report.quick { 64 } else { SET_MIB };
    let client = client_in_memory(set_mib)?;
    let file = fresh(&client, "/set", 1)?;
    fill(&file, set_mib)?;
    let (tmpfs, disk) = (places::tmpfs()?, places::disk()?);
    let mut rivals = Vec::new();
    for (name, dir) in [("tmpfs pread", tmpfs.path()), ("ext4 pread", disk.path())] {
        let path = dir.join("set");
        fs::write(&path, vec![7u8; (set_mib << 20) as usize])?;
        rivals.push((name, fs::File::open(path)?));
    }
    let memory = vec![7u8; (set_mib << 20) as usize];
    for (size, what, hot_ops, goal_tmpfs, goal_ext4) in
        [(SMALL, "4K", 100_000u64, 5.0, None), (LARGE, "1M", 2_000, 2.3, Some(1.3))]
    {
        let ops = if report.quick { hot_ops / 10 } else { hot_ops };
        for (set, span) in [("hot", size as u64), ("over the set", set_mib << 20)] {
            let places = span / size as u64;
            let name = format!("cached read {what}, {set}");
            let ours = || {
                let (mut next, mut buf) = (shuffled(places), vec![0u8; size]);
                time(|| {
                    for _ in 0..ops {
                        file.read_at(&mut buf, next() * size as u64)?;
                        black_box(&buf);
                    }
                    Ok(())
                })
            };
            let goal = if size == SMALL { Some(0.7) } else { None };
            report.pair(Figure::ops(&name, "memcpy", goal, ops), ours, || {
                let (mut next, mut buf) = (shuffled(places), vec![0u8; size]);
                time(|| {
                    for _ in 0..ops {
                        let at = (next() * size as u64) as usize;
                        black_box(&mut buf[..]).copy_from_slice(black_box(&memory[at..at + size]));
                    }
                    Ok(())
                })
            })?;
            for (rival, with) in &rivals {
                let goal = match (*rival, set) {
                    ("tmpfs pread", "hot") => Some(goal_tmpfs),
                    ("tmpfs pread", _) => Some(2.0),
                    _ => goal_ext4,
                };
                report.pair(Figure::ops(&name, rival, goal, ops), ours, || {
                    let (mut next, mut buf) = (shuffled(places), vec![0u8; size]);
                    time(|| {
                        for _ in 0..ops {
                            with.read_exact_at(&mut buf, next() * size as u64)?;
                            black_box(&buf);
                        }
                        Ok(())
                    })
                })?;
            }
        }
    }
    misaligned(report, &file)?;
    two_threads(report, &file, &memory)
}

/// The same with a buffer that is aligned to nothing.
fn misaligned(report: &mut Report, file: &clio::File) -> Result<()> {
    let ops = 1_000;
    let read = |shift: usize| {
        let mut buf = vec![0u8; LARGE + 64];
        let buf = &mut buf[shift..shift + LARGE];
        time(|| {
            for _ in 0..ops {
                file.read_at(buf, 0)?;
                black_box(&buf);
            }
            Ok(())
        })
    };
    report.pair(Figure::ops("cached read 1M, misaligned buffer", "aligned", Some(0.8), ops), || read(3), || read(0))
}

/// Two threads, each in its own order, against two threads that copy.
fn two_threads(report: &mut Report, file: &clio::File, memory: &[u8]) -> Result<()> {
    const THREADS: usize = 2;
    for (size, what, ops) in [(SMALL, "4K", 100_000u64), (LARGE, "1M", 1_000)] {
        let ops = if report.quick { ops / 10 } else { ops };
        let places = (memory.len() / size) as u64;
        let name = format!("cached read {what}, over the set, two threads");
        let figure = Figure::ops(&name, "memcpy", Some(0.7).filter(|_| size == SMALL), ops * THREADS as u64);
        let ours = || {
            time_threads(THREADS, |n| {
                let (mut next, mut buf) = (shuffled_from(n as u64, places), vec![0u8; size]);
                for _ in 0..ops {
                    file.read_at(&mut buf, next() * size as u64)?;
                    black_box(&buf);
                }
                Ok(())
            })
        };
        report.pair(figure.threads(THREADS), ours, || {
            time_threads(THREADS, |n| {
                let (mut next, mut buf) = (shuffled_from(n as u64, places), vec![0u8; size]);
                for _ in 0..ops {
                    let at = (next() * size as u64) as usize;
                    black_box(&mut buf[..]).copy_from_slice(black_box(&memory[at..at + size]));
                }
                Ok(())
            })
        })?;
    }
    Ok(())
}
