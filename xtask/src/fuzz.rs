//! Fuzzing: each target for a while, from its seed corpus.

use crate::run::{Step, has_nightly, has_subcommand, root};
use anyhow::{Context, Result};

/// Runs every target for `seconds`. Needs cargo-fuzz and a nightly toolchain; says so and passes if they are missing,
/// since every target also runs over its corpus as an ordinary test.
pub fn all(seconds: u64) -> Result<()> {
    if !has_subcommand("fuzz") {
        eprintln!("xtask: cargo-fuzz is not installed (cargo install cargo-fuzz): fuzzing is skipped");
        return Ok(());
    }
    if !has_nightly() {
        eprintln!("xtask: there is no nightly toolchain (rustup toolchain install nightly): fuzzing is skipped");
        return Ok(());
    }
    for target in targets()? {
        let limit = format!("-max_total_time={seconds}");
        Step::nightly_cargo(&target, &["fuzz", "run", &target, "--", &limit]).current_dir("fuzz").run()?;
    }
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let dir = root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "rs") {
            names.extend(path.file_stem().map(|s| s.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
