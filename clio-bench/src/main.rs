//! Benchmarks. `cargo xtask bench [--quick] [--json] [NAME…]` prints a row for each figure: a table for people, or
//! one JSON line a row. Every figure stands against a baseline that was measured alternately with it in the same run,
//! since machines drift.

mod alloc;
mod measure;
mod places;
mod rows;
mod sys;

use anyhow::Result;
use measure::Report;

#[global_allocator]
static COUNTING: alloc::Counting = alloc::Counting;

/// A group of rows: its name, and what measures it.
type Group = (&'static str, fn(&mut Report) -> Result<()>);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| args.iter().any(|a| a == name);
    let wanted: Vec<&String> = args.iter().filter(|a| !a.starts_with("--")).collect();
    let mut report = Report::new(flag("--json"), flag("--quick"));
    let groups: &[Group] = &[
        ("cached", rows::cached::run),
        ("write", rows::write::run),
        ("miss", rows::miss::run),
        ("locks", rows::locks::run),
        ("stripes", rows::stripes::run),
        ("memory", rows::memory::run),
        ("names", rows::names::run),
        ("allocs", rows::allocs::run),
    ];
    for (name, run) in groups {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            run(&mut report)?;
        }
    }
    Ok(())
}
