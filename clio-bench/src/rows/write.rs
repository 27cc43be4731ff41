//! Writes: acknowledged into the cache, and with drain.

use super::{LARGE, SMALL, client_in, client_in_memory, fresh};
use crate::measure::{Figure, Report, time, time_threads};
use crate::places;
use anyhow::Result;
use clio_core::sync::Mutex;
use std::fs;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

const BURST: u64 = 32 << 20;

pub fn run(report: &mut Report) -> Result<()> {
    bursts(report)?;
    misaligned(report)?;
    two_threads(report)?;
    for (size, what) in [(SMALL, "4K"), (LARGE, "1M")] {
        drained(report, size, what)?;
    }
    Ok(())
}

/// Bytes to write, at the start of a page: what malloc gives is at any multiple of 16, which doubles the time of small copies,
/// or doesn't, by chance. Misaligned buffers have rows of their own.
struct Aligned {
    memory: Vec<u8>,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        Self { memory: vec![0x5A; len + 4096], len }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.memory.as_ptr().align_offset(4096);
        &mut self.memory[start..start + self.len]
    }

    fn bytes(&self) -> &[u8] {
        let start = self.memory.as_ptr().align_offset(4096);
        &self.memory[start..start + self.len]
    }
}

/// Bursts of 32 MiB, until they are acknowledged; the drain is not timed.
fn bursts(report: &mut Report) -> Result<()> {
    let client = client_in_memory(256)?;
    for (size, what) in [(SMALL, "4K"), (LARGE, "1M")] {
        let buffer = Aligned::new(size);
        let data = buffer.bytes();
        let ops = BURST / size as u64;
        for kind in ["overwrite", "fresh"] {
            let file = fresh(&client, "/burst", 1)?;
            let name = format!("write-behind {what}, burst of 32 MiB, {kind}");
            let ours = || {
                if kind == "fresh" {
                    file.set_len(0)?;
                }
                let took = time(|| {
                    for n in 0..ops {
                        file.write_at(data, n * size as u64)?;
                    }
                    Ok(())
                })?;
                file.flush_data()?;
                Ok(took)
            };
            let mut memory = Aligned::new(BURST as usize);
            let goal = (size == SMALL).then_some(0.8);
            report.pair(Figure::ops(&name, "memcpy", goal, ops), ours, || {
                time(|| {
                    for piece in memory.bytes_mut().chunks_exact_mut(size) {
                        black_box(piece).copy_from_slice(black_box(data));
                    }
                    Ok(())
                })
            })?;
            for (rival, dir) in [("tmpfs pwrite", places::tmpfs()?), ("ext4 pwrite", places::disk()?)] {
                let goal = (rival == "tmpfs pwrite" && size == SMALL && kind == "fresh").then_some(8.0);
                report.pair(Figure::ops(&name, rival, goal, ops), ours, || {
                    let rival = fs::File::options()
                        .create(true)
                        .write(true)
                        .truncate(kind == "fresh")
                        .open(dir.path().join("f"))?;
                    time(|| {
                        for n in 0..ops {
                            rival.write_all_at(data, n * size as u64)?;
                        }
                        Ok(())
                    })
                })?;
            }
        }
    }
    Ok(())
}

/// Overwrites from a buffer that is aligned to nothing, and to places that are not.
fn misaligned(report: &mut Report) -> Result<()> {
    let client = client_in_memory(64)?;
    let file = fresh(&client, "/misaligned", 1)?;
    let buffer = Aligned::new(LARGE + 64);
    let data = buffer.bytes();
    for (size, what) in [(SMALL, "4K"), (LARGE, "1M")] {
        let ops = BURST / size as u64 - 1;
        let write = |buffer: usize, place: u64| {
            let took = time(|| {
                for n in 0..ops {
                    file.write_at(&data[buffer..buffer + size], n * size as u64 + place)?;
                }
                Ok(())
            })?;
            file.flush_data()?;
            Ok(took)
        };
        let name = format!("write-behind {what}, overwrite, misaligned buffer");
        report.pair(Figure::ops(&name, "aligned", Some(0.8), ops), || write(3, 0), || write(0, 0))?;
        let name = format!("write-behind {what}, overwrite, misaligned offset");
        let note = "the first and last block of each write are partly written";
        report.pair(Figure::ops(&name, "aligned", None, ops).note(note), || write(0, 3), || write(0, 0))?;
    }
    Ok(())
}

/// Two threads that overwrite each its half of a burst, in files of their own, against two threads that copy.
fn two_threads(report: &mut Report) -> Result<()> {
    const THREADS: usize = 2;
    let client = client_in_memory(256)?;
    let half = BURST / THREADS as u64;
    for (size, what) in [(SMALL, "4K"), (LARGE, "1M")] {
        let buffer = Aligned::new(size);
        let data = buffer.bytes();
        let files = (0..THREADS).map(|n| fresh(&client, &format!("/half{n}"), 1)).collect::<Result<Vec<_>>>()?;
        let ours = || {
            let took = time_threads(THREADS, |n| {
                for at in (0..half).step_by(size) {
                    files[n].write_at(data, at)?;
                }
                Ok(())
            })?;
            files.iter().try_for_each(|f| f.flush_data())?;
            Ok(took)
        };
        let memory: Vec<_> = (0..THREADS).map(|_| Mutex::new(Aligned::new(half as usize))).collect();
        let name = format!("write-behind {what}, burst of 32 MiB, overwrite, two threads");
        let goal = Some(0.8).filter(|_| size == SMALL);
        let figure = Figure::ops(&name, "memcpy", goal, BURST / size as u64).threads(THREADS);
        report.pair(figure, ours, || {
            time_threads(THREADS, |n| {
                for piece in memory[n].lock().bytes_mut().chunks_exact_mut(size) {
                    black_box(piece).copy_from_slice(black_box(data));
                }
                Ok(())
            })
        })?;
    }
    Ok(())
}

/// A stream into a store of one folder, until the target has it all, against the same stream into a file there.
fn drained(report: &mut Report, size: usize, what: &str) -> Result<()> {
    let total: u64 = if report.quick { 64 << 20 } else { 256 << 20 };
    let data = vec![0x5Au8; size];
    let places = [("tmpfs", places::tmpfs()?, if size == SMALL { 1.1 } else { 0.8 }), ("ext4", places::disk()?, 1.7)];
    for (rival, dir, goal) in &places {
        let client = client_in(dir.path(), 1, 512)?;
        let goal = if *rival == "ext4" && size == LARGE { 0.7 } else { *goal };
        let name = format!("stream {what} with drain, dir target on {rival}");
        let mut n = 0;
        let ours = || {
            n += 1;
            let path = format!("/stream{n}");
            let file = fresh(&client, &path, 1)?;
            let took = time(|| {
                for at in (0..total).step_by(size) {
                    file.write_at(&data, at)?;
                }
                Ok(file.flush_data()?)
            })?;
            drop(file);
            client.remove_file(&path)?;
            Ok(took)
        };
        report.pair(Figure::bytes(&name, rival, Some(goal), total), ours, || {
            let path = dir.path().join("plain");
            let file = fs::File::create(&path)?;
            let took = time(|| {
                for at in (0..total).step_by(size) {
                    file.write_all_at(&data, at)?;
                }
                Ok(())
            })?;
            fs::remove_file(path)?;
            Ok(took)
        })?;
    }
    Ok(())
}
