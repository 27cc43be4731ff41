//! Heap allocations on the steady path: there should be none.

use super::{SMALL, client_in_memory, fill, fresh};
use crate::alloc;
use crate::measure::{Figure, Report};
use anyhow::Result;

pub fn run(report: &mut Report) -> Result<()> {
    let client = client_in_memory(64)?;
    let file = fresh(&client, "/f", 1)?;
    fill(&file, 32)?;
    let ops = 8_000u64;
    let mut buf = vec![0u8; SMALL];
    let mut steady = |write: bool| -> Result<u64> {
        // Once to warm up, once to count.
        let mut counted = 0;
        for _ in 0..2 {
            let before = alloc::count();
            for n in 0..ops {
                let at = n % 4096 * SMALL as u64;
                match write {
                    true => file.write_at(&buf, at)?,
                    false => file.read_at(&mut buf, at)?,
                };
            }
            counted = alloc::count() - before;
        }
        Ok(counted)
    };
    for (name, write) in [("allocations in cached 4K reads", false), ("allocations in cached 4K rewrites", true)] {
        let counted = steady(write)?;
        let figure = Figure::ops(name, "0", Some(0.0), ops);
        report.row(figure, counted as f64 / ops as f64, "per op", None);
    }
    Ok(())
}
