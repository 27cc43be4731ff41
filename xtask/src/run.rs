//! Running commands.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// One command of a task.
pub struct Step {
    name: String,
    command: Command,
    /// Whether it must run tests.
    tests: bool,
}

/// A cargo command called `name`.
pub fn cargo(name: &str, args: &[&str]) -> Step {
    Step::cargo(name, args)
}

impl Step {
    /// A cargo command called `name`.
    pub fn cargo(name: &str, args: &[&str]) -> Self {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(args).current_dir(root());
        Self { name: name.into(), command, tests: false }
    }

    /// A cargo command of the nightly toolchain, called `name`.
    pub fn nightly_cargo(name: &str, args: &[&str]) -> Self {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]).args(args).current_dir(root());
        Self { name: name.into(), command, tests: false }
    }

    /// More arguments.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    /// A variable.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.command.env(key, value);
        self
    }

    /// In another folder of the workspace.
    pub fn current_dir(mut self, dir: &str) -> Self {
        self.command.current_dir(root().join(dir));
        self
    }

    /// It is a run of tests, and fails if no test ran: a filter that matches nothing is no success.
    pub fn that_runs_tests(self) -> Self {
        Self { tests: true, ..self }
    }

    /// Runs it, with its output on ours.
    pub fn run(mut self) -> Result<()> {
        if self.tests {
            return self.run_tests();
        }
        let status = self.command.status().with_context(|| format!("{}: could not be started", self.name))?;
        if !status.success() {
            bail!("{} failed ({status})", self.name);
        }
        Ok(())
    }

    fn run_tests(mut self) -> Result<()> {
        let child = self.command.stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("{}: could not be started", self.name))?;
        let mut passed = 0;
        for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
            let line = line?;
            passed += passed_in(&line);
            println!("{line}");
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("{} failed ({status})", self.name);
        }
        if passed == 0 {
            bail!("{}: no test ran; are they still called so?", self.name);
        }
        Ok(())
    }
}

/// How many tests passed, by a line of the test runner's summary; none by any other line.
fn passed_in(line: &str) -> usize {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["test", "result:", _, passed, "passed;", ..] => passed.parse().unwrap_or(0),
        _ => 0,
    }
}

/// Runs steps in order, and says how long each took.
pub fn steps(all: Vec<Step>) -> Result<()> {
    for step in all {
        let (name, start) = (step.name.clone(), Instant::now());
        eprintln!("xtask: {name}…");
        step.run()?;
        eprintln!("xtask: {name} ok ({:.0} s)", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Whether `cargo NAME` exists.
pub fn has_subcommand(name: &str) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Command::new(cargo).args([name, "--version"]).output().is_ok_and(|o| o.status.success())
}

/// Whether rustup has a nightly toolchain.
pub fn has_nightly() -> bool {
    let cargo = Command::new("rustup").args(["run", "nightly", "cargo", "--version"]).output();
    cargo.is_ok_and(|o| o.status.success())
}

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where cargo builds: `CARGO_TARGET_DIR`, or what cargo's configuration says.
pub fn target_dir() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("cargo metadata: could not be started")?;
    if !metadata.status.success() {
        bail!("cargo metadata failed ({}): {}", metadata.status, String::from_utf8_lossy(&metadata.stderr).trim());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).context("cargo metadata")?;
    let dir = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    Ok(dir.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printing(line: &str) -> Step {
        let mut command = Command::new("echo");
        command.arg(line);
        Step { name: "a run".into(), command, tests: false }.that_runs_tests()
    }

    #[test]
    fn a_run_without_tests_fails() {
        let summary = |passed| {
            format!("test result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0s")
        };
        printing(&summary(12)).run().expect("twelve tests ran");
        assert!(printing(&summary(0)).run().unwrap_err().to_string().contains("no test ran"));
        assert!(printing("running 3 tests").run().is_err(), "no summary, no success");
    }

    #[test]
    fn the_target_folder_is_the_one_that_this_was_built_in() {
        let test = std::env::current_exe().expect("this test's path");
        assert!(test.starts_with(target_dir().unwrap()), "{}", test.display());
    }

    #[test]
    fn a_run_that_fails_fails_even_with_tests_that_passed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: FAILED. 3 passed; 1 failed;'; exit 101"]);
        let step = Step { name: "a run".into(), command, tests: true };
        assert!(step.run().unwrap_err().to_string().contains("failed"));
    }
}
