//! Benchmarks. `cargo xtask bench [--quick] [--json] [NAME…]` prints a row for each figure: a table for people, or
//! one JSON line a row. Every figure stands against a baseline that was measured alternately with it in the same run,
//! since machines drift.

mod alloc;
mod measure;
mod places;
mod rows;
mod sys;

use anyhow::{Result, bail};
use measure::Report;

#[global_allocator]
static COUNTING: alloc::Counting = alloc::Counting;

/// A group of rows: its name, and what measures it.
type Group = (&'static str, fn(&mut Report) -> Result<()>);

const GROUPS: &[Group] = &[
    ("cached", rows::cached::run),
    ("write", rows::write::run),
    ("miss", rows::miss::run),
    ("locks", rows::locks::run),
    ("stripes", rows::stripes::run),
    ("memory", rows::memory::run),
    ("names", rows::names::run),
    ("allocs", rows::allocs::run),
    ("node", rows::node::run),
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| args.iter().any(|a| a == name);
    let names = GROUPS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
    if flag("--help") || flag("-h") {
        println!(
            "cargo xtask bench [--quick] [--json] [NAME…]\n\n--quick  less of each\n--json   a JSON line a row\n\nNames: {names}"
        );
        return Ok(());
    }
    let known = |a: &str| matches!(a, "--json" | "--quick") || GROUPS.iter().any(|(name, _)| *name == a);
    if let Some(strange) = args.iter().find(|a| !known(a)) {
        bail!("'{strange}' is neither an option nor one of: {names}");
    }
    let wanted: Vec<&String> = args.iter().filter(|a| !a.starts_with("--")).collect();
    let mut report = Report::new(flag("--json"), flag("--quick"));
    for (name, run) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            run(&mut report)?;
        }
    }
    Ok(())
}
