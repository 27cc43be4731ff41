//! `clio du`.

use crate::app::App;
use crate::paths::stored;
use crate::report::Stop;
use crate::show::{Human, JsonName, human};
use clap::Args;
use clio::{Client, Fid};
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Show the space that files and folders take
///
/// A file with several names counts once.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Du {
    /// Only a total for each path given
    #[arg(short, long)]
    summarize: bool,
    /// Files, too, not only folders
    #[arg(short, long, conflicts_with = "summarize")]
    all: bool,
    /// Sizes of the data instead of the space in use
    #[arg(short = 'b', long)]
    apparent_size: bool,
    #[command(flatten)]
    human: Human,
    /// Paths in the store
    #[arg(default_value = "/", value_parser = stored())]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    name: JsonName,
    #[serde(skip)]
    path: PathBuf,
    allocated_bytes: u64,
    apparent_bytes: u64,
    files: u64,
}

#[derive(Default, Clone, Copy)]
struct Sum {
    allocated: u64,
    apparent: u64,
    files: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.allocated += other.allocated;
        self.apparent += other.apparent;
        self.files += other.files;
    }
}

struct Walk<'a> {
    du: &'a Du,
    app: &'a App,
    client: Client,
    seen: HashSet<Fid>,
    lines: Vec<Line>,
}

impl Du {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let mut walk = Walk { du: &self, app, client: app.client()?, seen: HashSet::new(), lines: Vec::new() };
        for path in &self.paths {
            walk.visit(path, true);
        }
        let lines = walk.lines;
        if app.json() {
            return app.print_json(&lines);
        }
        let mut out = app.out();
        for line in lines {
            let bytes = if self.apparent_size { line.apparent_bytes } else { line.allocated_bytes };
            let size = match (self.human.human, self.apparent_size) {
                (true, _) => human(bytes),
                (false, true) => bytes.to_string(),
                (false, false) => bytes.div_ceil(1024).to_string(),
            };
            out.text(format!("{size}\t"))?;
            out.name(&line.path)?;
            out.line("")?;
        }
        out.finish()
    }
}

impl Walk<'_> {
    /// Adds up `path`; its line comes after those of what is in it.
    fn visit(&mut self, path: &Path, top: bool) -> Sum {
        let meta = match self.client.symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) => {
                self.app.failures().add(path, &e);
                return Sum::default();
            }
        };
        let mut sum = Sum::default();
        if meta.is_dir() {
            match self.client.read_dir(path) {
                Ok(entries) => entries.iter().for_each(|e| sum.add(self.visit(&path.join(e.name()), false))),
                Err(e) => self.app.failures().add(path, &e),
            }
        } else if meta.nlink() < 2 || self.seen.insert(meta.fid()) {
            sum = Sum { allocated: meta.blocks() * 512, apparent: meta.len(), files: 1 };
        }
        if top || (meta.is_dir() && !self.du.summarize) || self.du.all {
            self.lines.push(Line {
                name: JsonName::new(path),
                path: path.to_path_buf(),
                allocated_bytes: sum.allocated,
                apparent_bytes: sum.apparent,
                files: sum.files,
            });
        }
        sum
    }
}
