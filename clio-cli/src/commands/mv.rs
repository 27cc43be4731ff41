//! `clio mv`.

use crate::app::App;
use crate::paths::stored;
use crate::report::Stop;
use crate::transfer::{Stored, destinations};
use clap::Args;
use clio::{Errno, Error, RenameMode};
use std::collections::HashSet;
use std::path::PathBuf;

/// Rename files and folders, or move them into another folder
#[derive(Args, Debug)]
pub(crate) struct Mv {
    /// Fail where something exists at the new name
    #[arg(short, long)]
    no_clobber: bool,
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    sources: Vec<PathBuf>,
    /// A folder to move them into, or the new name of a single one
    #[arg(value_parser = stored())]
    dest: PathBuf,
}

impl Mv {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let mode = if self.no_clobber { RenameMode::NoReplace } else { RenameMode::Replace };
        let mut taken = HashSet::new();
        for (from, to) in destinations(&Stored(client.clone()), &self.sources, &self.dest)? {
            let moved = match taken.insert(to.clone()) {
                true => client.rename_with(&from, &to, mode),
                false => Err(Error::new(
                    Errno::EEXIST,
                    "move",
                    "an earlier source goes to the same place; move it to another one",
                )),
            };
            if let Err(e) = moved {
                app.failures().add(&from, &e);
            }
        }
        client.sync().map_err(|e| Stop::on("sync", e))
    }
}
