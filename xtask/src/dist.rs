//! The folder that is installed.

use crate::run::{cargo, root, target_dir};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Builds in release mode and lays out `dist` in cargo's target folder.
pub fn lay_out() -> Result<()> {
    cargo("build", &["build", "--release", "--package", "clio-cli"]).run()?;
    let target = target_dir()?;
    let dist = target.join("dist");
    if dist.exists() {
        fs::remove_dir_all(&dist)?;
    }
    for dir in ["bin", "share/doc/clio", "share/completions", "share/systemd/user"] {
        fs::create_dir_all(dist.join(dir))?;
    }
    let copy = |from: &Path, to: &str| {
        fs::copy(from, dist.join(to)).with_context(|| format!("copying {}", from.display())).map(drop)
    };
    for program in ["clio", "cliod"] {
        copy(&target.join("release").join(program), &format!("bin/{program}"))?;
    }
    copy(&root().join("clio-cli/share/cliod@.service"), "share/systemd/user/cliod@.service")?;
    for doc in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&root().join(doc), &format!("share/doc/clio/{doc}"))?;
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = completions(&dist.join("bin/clio"), shell)?;
        fs::write(dist.join("share/completions").join(format!("clio.{shell}")), script)?;
    }
    println!("{}", dist.display());
    Ok(())
}

/// What `clio completions SHELL` prints.
fn completions(clio: &Path, shell: &str) -> Result<Vec<u8>> {
    let out = Command::new(clio).args(["completions", shell]).output();
    let out = out.with_context(|| format!("{} could not be started", clio.display()))?;
    if !out.status.success() || out.stdout.is_empty() {
        bail!("clio completions {shell} failed ({}): {}", out.status, String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(out.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_that_fail_or_say_nothing_are_an_error() {
        assert_eq!(completions(Path::new("echo"), "bash").unwrap(), b"completions bash\n");
        for program in ["false", "true", "/nonexistent"] {
            completions(Path::new(program), "bash").expect_err(program);
        }
    }
}
