//! `clio cp`.

use crate::app::App;
use crate::paths::stored;
use crate::report::Stop;
use crate::transfer::{Plan, Stored, destinations, run};
use clap::Args;
use clio::{Client, Errno, Error};
use std::path::{Path, PathBuf};

/// Copy files within the store
///
/// Modes and times are kept, and holes stay holes. The copy gets the layout of the folder that it goes into.
#[derive(Args, Debug)]
pub(crate) struct Cp {
    /// Take folders with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    sources: Vec<PathBuf>,
    /// A folder to copy them into, or the new name of a single one
    #[arg(value_parser = stored())]
    dest: PathBuf,
}

impl Cp {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let store = Stored(client.clone());
        let mut plan = Plan::default();
        for (from, to) in destinations(&store, &self.sources, &self.dest)? {
            match refuse_own(&client, &from, &to) {
                Ok(()) => plan.add(&store, &from, &to, self.recursive, app.failures()),
                Err(e) => app.failures().add(&from, &e),
            }
        }
        run(&plan, &store, &store, app.failures());
        Ok(())
    }
}

/// That a file isn't copied over itself, which would empty it, nor a folder into itself.
fn refuse_own(client: &Client, from: &Path, to: &Path) -> clio::Result<()> {
    // What doesn't exist is reported by the walk.
    let Ok(source) = client.metadata(from) else { return Ok(()) };
    let refuse = |why: &'static str| Err(Error::new(Errno::EINVAL, "cp", why));
    for (depth, place) in to.ancestors().enumerate() {
        if client.metadata(place).is_ok_and(|m| m.fid() == source.fid()) {
            return match depth {
                0 => refuse("source and destination are the same; choose another name"),
                _ => refuse("the destination is inside the source; choose another place"),
            };
        }
    }
    Ok(())
}
