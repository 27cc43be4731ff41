//! The project's own commands: `cargo xtask demo | test | ci | lint | bench | loom | fuzz | dist`.

mod dist;
mod fuzz;
mod run;

use anyhow::{Result, bail};
use run::{Step, cargo, steps};

const HELP: &str = "\
cargo xtask COMMAND

  demo [--size MIB] build, and show the main job on real files in a temporary store; its big file has 256 MiB, or so many
  test [--full]     all tests: unit, property, end to end, examples, model checks (--full: the long forms, fuzzing)
  ci                what CI runs: the lint gates, none of which may be missing, and test
  lint [--strict]   format, clippy, docs, licences; --strict (or CI set): a missing tool is an error
  bench [--quick] [--json] [NAME…]
                    benchmarks, a row each: a table, or with --json one JSON line a row
  loom              model checks of everything lock-free or with several locks
  fuzz [SECONDS]    every fuzz target for that long (60)
  dist              lay out dist/{bin,share} in cargo's target folder
";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    match args.first().map(String::as_str) {
        Some("demo") => demo(&rest),
        Some("test") => test(rest.contains(&"--full")),
        Some("ci") => {
            lint(true)?;
            test(false)
        }
        Some("lint") => lint(rest.contains(&"--strict") || std::env::var_os("CI").is_some()),
        Some("bench") => bench(&rest),
        Some("loom") => loom(),
        Some("fuzz") => fuzz::all(rest.first().map_or(Ok(60), |s| s.parse())?),
        Some("dist") => dist::lay_out(),
        Some("help" | "--help" | "-h") | None => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("unknown command '{other}'\n\n{HELP}"),
    }
}

fn demo(rest: &[&str]) -> Result<()> {
    eprintln!("demo: building, which takes some minutes the first time");
    cargo("demo", &["run", "--quiet", "--release", "--package", "clio-examples", "--bin", "demo", "--"])
        .args(rest)
        .run()
}

fn test(full: bool) -> Result<()> {
    let mut tests = cargo("tests", &["test", "--workspace", "--all-features"]);
    if full {
        tests = tests.env("PROPTEST_CASES", "2000").env("TEST_FULL", "1");
    }
    steps(vec![tests])?;
    loom()?;
    if full {
        fuzz::all(60)?;
    }
    Ok(())
}

/// The crates with loom tests, by package.
const LOOM: &[&str] = &["clio-core", "clio-lov", "clio-vvp", "clio-osc"];

fn loom() -> Result<()> {
    let all = LOOM.iter().map(|package| {
        cargo(&format!("loom {package}"), &["test", "--release", "--package", package, "--lib", "loom_"])
            .env("RUSTFLAGS", "--cfg clio_loom")
            .env("CARGO_TARGET_DIR", "target/loom")
            .env("LOOM_MAX_PREEMPTIONS", "2")
            .that_runs_tests()
    });
    steps(all.collect())
}

/// The gates that need no test to run. A tool that isn't installed is an error if `strict`, and else a message.
fn lint(strict: bool) -> Result<()> {
    let mut gates = vec![
        cargo("format", &["fmt", "--all", "--check"]),
        cargo("clippy", &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]),
        cargo("doc", &["doc", "--workspace", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings"),
    ];
    match (run::has_subcommand("deny"), strict) {
        (true, _) => gates.extend([
            // Those of other platforms too, which a build here doesn't need but the gate reads.
            cargo("fetch", &["fetch", "--locked"]),
            cargo("deny", &["deny", "--offline", "check", "licenses", "bans", "sources"]),
        ]),
        (false, true) => {
            bail!("cargo-deny is not installed, and no gate may be skipped here: cargo install cargo-deny")
        }
        (false, false) => {
            eprintln!("xtask: cargo-deny is not installed (cargo install cargo-deny): its gate is skipped");
        }
    }
    steps(gates)
}

fn bench(rest: &[&str]) -> Result<()> {
    Step::cargo("bench", &["run", "--quiet", "--release", "--package", "clio-bench", "--"]).args(rest).run()
}
