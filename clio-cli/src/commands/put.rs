//! `clio put`.

use crate::app::App;
use crate::paths::{is_dash, stored, wants_folder};
use crate::report::Stop;
use crate::transfer::{Kind, Local, Place, Plan, Progress, Stored, copy_stream, destinations, run};
use crate::umask::umask;
use clap::Args;
use clio::{Errno, Error};
use std::path::{Path, PathBuf};

/// Copy local files into the store
///
/// Modes and times are kept, holes stay holes, and all data is durable when the command succeeds. Symbolic links are
/// followed where named, and kept as links within a tree.
#[derive(Args, Debug)]
pub(crate) struct Put {
    /// Take folders with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Local files, or - for standard input
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Path in the store: a folder to put them into, or the new name of a single one
    #[arg(value_parser = stored())]
    dest: PathBuf,
}

impl Put {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let from_stdin = self.sources.iter().any(|s| is_dash(s));
        if from_stdin && self.sources.len() > 1 {
            return Err(Stop::Usage("'-' (standard input) must be the only source".into()));
        }
        let store = Stored(app.client_of_new()?);
        if from_stdin {
            return put_stdin(&store, &self.dest).map_err(|e| Stop::on("-", e));
        }
        let mut plan = Plan::default();
        for (from, to) in destinations(&store, &self.sources, &self.dest)? {
            plan.add(&Local, &from, &to, self.recursive, app.failures());
        }
        run(&plan, &Local, &store, app.failures());
        Ok(())
    }
}

fn put_stdin(store: &Stored, dest: &Path) -> Result<(), Error> {
    if wants_folder(dest) || store.info(dest, true).is_ok_and(|i| i.kind == Kind::Dir) {
        return Err(Error::new(
            Errno::EISDIR,
            "put",
            "standard input has no name; give the file's whole path in the store",
        ));
    }
    let stdin = std::io::stdin();
    // Before what is there is cut to nothing: a folder can't be read.
    if rustix::fs::fstat(&stdin).is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_dir()) {
        return Err(Error::new(Errno::EISDIR, "put", "standard input is a folder"));
    }
    let sink = store.create(dest, 0o666 & !umask())?;
    copy_stream(&mut stdin.lock(), sink, &Progress::new(0))
}
