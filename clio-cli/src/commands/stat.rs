//! `clio stat`.

use crate::app::App;
use crate::output::Output;
use crate::paths::stored;
use crate::report::Stop;
use crate::show::{FileRecord, Owners, full, mode_text};
use clap::Args;
use clio::{Client, Metadata};
use std::path::{Path, PathBuf};

/// Show the attributes of files
#[derive(Args, Debug)]
pub(crate) struct Stat {
    /// Show what a symbolic link points at, not the link
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    paths: Vec<PathBuf>,
}

impl Stat {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let (mut out, owners) = (app.out(), Owners::read());
        let mut records = Vec::new();
        for path in &self.paths {
            match self.look(&client, path) {
                Ok((meta, target)) if app.json() => records.push(FileRecord::new(path, &meta, target.as_ref())),
                Ok((meta, target)) => print(&mut out, path, &meta, target.as_ref(), &owners)?,
                Err(e) => app.failures().add(path, &e),
            }
        }
        match app.json() {
            true => app.print_json(&records),
            false => out.finish(),
        }
    }

    fn look(&self, client: &Client, path: &Path) -> clio::Result<(Metadata, Option<PathBuf>)> {
        let meta = if self.dereference { client.metadata(path) } else { client.symlink_metadata(path) }?;
        let target = meta.is_symlink().then(|| client.read_link(path)).transpose()?;
        Ok((meta, target))
    }
}

fn print(out: &mut Output, path: &Path, m: &Metadata, target: Option<&PathBuf>, owners: &Owners) -> Result<(), Stop> {
    out.text("  File: ")?;
    out.name(path)?;
    if let Some(target) = target {
        out.text(" -> ")?;
        out.name(target)?;
    }
    let record = FileRecord::new(path, m, target);
    out.line(format!("\n  Size: {:<12} Allocated: {:<12} {}", m.len(), m.blocks() * 512, record.kind()))?;
    out.line(format!("   FID: {:<24} Links: {}", m.fid().to_string(), m.nlink()))?;
    let (mode, text) = (m.mode() & 0o7777, mode_text(m.file_type(), m.mode()));
    let (user, group) = (owners.user(m.uid()), owners.group(m.gid()));
    out.line(format!("  Mode: ({mode:04o}/{text})  User: {user} ({})  Group: {group} ({})", m.uid(), m.gid()))?;
    out.line(format!("Access: {}", full(m.atime_ns())))?;
    out.line(format!("Modify: {}", full(m.mtime_ns())))?;
    out.line(format!("Change: {}", full(m.ctime_ns())))
}
