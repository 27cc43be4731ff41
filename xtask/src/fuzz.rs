//! Fuzzing: each target for a while, from its seed corpus.

use crate::run::{Step, has_nightly, has_subcommand, root};
use anyhow::{Context, Result, bail};

/// Runs every target for `seconds`.
///
/// # Errors
/// If cargo-fuzz or a nightly toolchain is missing: what nobody ran has not passed. A target that found something.
pub fn all(seconds: u64) -> Result<()> {
    if !has_subcommand("fuzz") {
        bail!("fuzzing needs cargo-fuzz, which is not installed: cargo install cargo-fuzz");
    }
    if !has_nightly() {
        bail!("fuzzing needs a nightly toolchain, and there is none: rustup toolchain install nightly");
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
