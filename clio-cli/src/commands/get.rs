//! `clio get`.

use super::cat::print_file;
use crate::app::App;
use crate::paths::{is_dash, stored};
use crate::report::Stop;
use crate::transfer::{Local, Plan, Stored, destinations, run};
use clap::Args;
use std::path::PathBuf;

/// Copy files of the store to the local file system
///
/// Modes and times are kept (but not set-id bits), and holes stay holes. Symbolic links are followed where named, and
/// kept as links within a tree.
#[derive(Args, Debug)]
pub(crate) struct Get {
    /// Take folders with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    sources: Vec<PathBuf>,
    /// A local folder to put them into, the new name of a single one, or - for standard output
    dest: PathBuf,
}

impl Get {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        if is_dash(&self.dest) {
            let [source] = self.sources.as_slice() else {
                return Err(Stop::Usage("only one file can be written to '-' (standard output)".into()));
            };
            let mut out = app.out();
            print_file(&client, source, &mut out)?;
            return out.finish();
        }
        let store = Stored(client);
        let mut plan = Plan::default();
        for (from, to) in destinations(&Local, &self.sources, &self.dest)? {
            plan.add(&store, &from, &to, self.recursive, app.failures());
        }
        run(&plan, &store, &Local, app.failures());
        Ok(())
    }
}
