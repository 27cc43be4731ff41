//! Stripes over targets of one speed: n of them against n times one.

use super::LARGE;
use crate::measure::{Figure, Report, median, time};
use anyhow::Result;
use clio::{Client, Config, Layout, OpenOptions};
use clio_core::target::Target;
use clio_core::units::TargetIndex;
use clio_targets::wrap::Throttled;
use clio_targets::{MemOptions, MemTarget};
use std::sync::Arc;

/// Bytes a second of one target: little enough that eight of them are not limited by two processor cores.
const RATE: u64 = 32 << 20;

/// Rounds, of which the median counts.
const ROUNDS: usize = 5;

fn client(targets: u16) -> Result<Client> {
    let make = |i| {
        let inner = MemTarget::in_memory(MemOptions { index: TargetIndex(i), ..MemOptions::default() });
        Arc::new(Throttled::new(Arc::new(inner), RATE)) as Arc<dyn Target>
    };
    Ok(Client::over_targets((0..targets).map(make).collect(), Config::default())?)
}

pub fn run(report: &mut Report) -> Result<()> {
    let each: u64 = if report.quick { 16 << 20 } else { 64 << 20 };
    let mut one = [0.0; 2];
    for n in [1u16, 2, 4, 8] {
        let client = client(n)?;
        let layout = Layout::raid0().stripe_count(n).stripe_size(1 << 20);
        let options = OpenOptions::new().read(true).write(true).create(true).layout(layout);
        let file = client.open_with("/f", options)?;
        let total = each * u64::from(n);
        let (data, mut back) = (vec![1u8; LARGE], vec![0u8; LARGE]);
        let fill = || {
            time(|| {
                for at in (0..total).step_by(LARGE) {
                    file.write_all_at(&data, at)?;
                }
                Ok(file.flush_data()?)
            })
        };
        // Once before, so that the time to get memory, which a virtual machine's host may make long, isn't measured.
        fill()?;
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            client.drop_caches()?;
            writes.push(fill()?.as_secs_f64());
            client.drop_caches()?;
            let read = time(|| {
                for at in (0..total).step_by(LARGE) {
                    file.read_exact_at(&mut back, at)?;
                }
                Ok(())
            })?;
            reads.push(read.as_secs_f64());
        }
        for (k, (what, times)) in [("write", &mut writes), ("read", &mut reads)].into_iter().enumerate() {
            let rate = total as f64 / (1 << 20) as f64 / median(times);
            if n == 1 {
                one[k] = rate;
            }
            let name = format!("{what} over {n} throttled stripes");
            let goal = match n {
                4 => Some(0.97),
                8 => Some(0.95),
                _ => None,
            };
            let figure = Figure::bytes(&name, "n times one stripe", goal, total);
            report.row(figure, rate, "MiB/s", Some(rate / (one[k] * f64::from(n))));
        }
    }
    Ok(())
}
