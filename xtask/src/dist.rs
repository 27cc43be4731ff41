//! The folder that is installed.

use crate::run::{cargo, root};
use anyhow::{Context, Result};
use std::fs;

/// Builds in release mode and lays out `target/dist`.
pub fn lay_out() -> Result<()> {
    cargo("build", &["build", "--release", "--package", "clio-cli"]).run()?;
    let dist = root().join("target/dist");
    if dist.exists() {
        fs::remove_dir_all(&dist)?;
    }
    for dir in ["bin", "share/doc/clio", "share/completions", "share/systemd/user"] {
        fs::create_dir_all(dist.join(dir))?;
    }
    let copy = |from: &str, to: &str| {
        fs::copy(root().join(from), dist.join(to)).with_context(|| format!("copying {from}")).map(drop)
    };
    copy("target/release/clio", "bin/clio")?;
    copy("target/release/cliod", "bin/cliod")?;
    copy("clio-cli/share/cliod@.service", "share/systemd/user/cliod@.service")?;
    for doc in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        copy(doc, &format!("share/doc/clio/{doc}"))?;
    }
    for shell in ["bash", "zsh", "fish"] {
        let out = std::process::Command::new(dist.join("bin/clio")).args(["completions", shell]).output()?;
        fs::write(dist.join("share/completions").join(format!("clio.{shell}")), out.stdout)?;
    }
    println!("{}", dist.display());
    Ok(())
}
