//! `clio setstripe`.

use super::striping::StripeOptions;
use crate::app::App;
use crate::paths::stored;
use crate::report::Stop;
use crate::umask::umask;
use clap::Args;
use clio::{Client, Layout};
use std::path::{Path, PathBuf};

/// Make an empty file with a layout, or set the layout of a folder's new files
///
/// One layout for the whole file: setstripe -c 4 -S 1M PATH. Several components, each with its own: setstripe
/// -E 1M -c 1 -E 64M -c 4 -E eof -c -1 -S 4M PATH. A component starts from the settings of the one before.
/// What no option says is as in new files at PATH, by the settings: stripe_count, stripe_kb, [layouts."/prefix"].
#[derive(Args, Debug)]
pub(crate) struct Setstripe {
    #[command(flatten)]
    options: StripeOptions,
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    paths: Vec<PathBuf>,
}

impl Setstripe {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let config = app.config()?;
        let layout = |path: &PathBuf| self.options.layout(&config.layout_for(path)).map_err(Stop::Usage);
        // All of them before the store is made.
        let layouts = self.paths.iter().map(layout).collect::<Result<Vec<_>, _>>()?;
        let client = app.client_of_new()?;
        for (path, layout) in self.paths.iter().zip(&layouts) {
            if let Err(e) = set(&client, path, layout) {
                app.failures().add(path, &e);
            }
        }
        client.sync().map_err(|e| Stop::on("sync", e))
    }
}

fn set(client: &Client, path: &Path, layout: &Layout) -> clio::Result<()> {
    let existed = client.exists(path);
    client.set_layout(path, layout)?;
    match existed {
        true => Ok(()),
        false => client.set_mode(path, 0o666 & !umask()),
    }
}
