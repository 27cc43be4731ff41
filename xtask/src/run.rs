//! Running commands.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// One command of a task.
pub struct Step {
    name: String,
    command: Command,
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
        Self { name: name.into(), command }
    }

    /// A cargo command of the nightly toolchain, called `name`.
    pub fn nightly_cargo(name: &str, args: &[&str]) -> Self {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]).args(args).current_dir(root());
        Self { name: name.into(), command }
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

    /// Runs it, with its output on ours.
    pub fn run(mut self) -> Result<()> {
        let status = self.command.status().with_context(|| format!("{}: could not be started", self.name))?;
        if !status.success() {
            bail!("{} failed ({status})", self.name);
        }
        Ok(())
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
