//! `clio rm`.

use crate::app::App;
use crate::paths::stored;
use crate::report::Stop;
use clap::Args;
use clio::{Client, Errno, Error, Fid, FileType};
use std::path::{Path, PathBuf};

/// Remove files, or with -r whole folders
#[derive(Args, Debug)]
pub(crate) struct Rm {
    /// Remove folders with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// No error for what doesn't exist
    #[arg(short, long)]
    force: bool,
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    paths: Vec<PathBuf>,
}

impl Rm {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let (root, _) = client.identity("/").map_err(|e| Stop::on("/", e))?;
        for path in &self.paths {
            match self.check(&client, path, root) {
                Err(e) if self.force && e.errno() == Errno::ENOENT => {}
                Err(e) => app.failures().add(path, &e),
                Ok(true) => {
                    remove_tree(app, &client, path);
                }
                Ok(false) => {
                    if let Err(e) = client.remove_file(path) {
                        app.failures().add(path, &e);
                    }
                }
            }
        }
        client.sync().map_err(|e| Stop::on("sync", e))
    }

    /// Whether it is a folder; an error if it mustn't be removed. The root is known by its identity: many paths lead
    /// there.
    fn check(&self, client: &Client, path: &Path, root: Fid) -> clio::Result<bool> {
        let (fid, kind) = client.identity(path)?;
        if fid == root {
            let why = "this is the root of the store, which stays; to be rid of the store, remove its own folder";
            return Err(Error::new(Errno::EBUSY, "rm", why));
        }
        let is_dir = kind == FileType::Dir;
        if is_dir && !self.recursive {
            return Err(Error::new(Errno::EISDIR, "rm", "it is a folder; give -r to remove it with all that is in it"));
        }
        Ok(is_dir)
    }
}

/// Removes what can be removed, and reports what can't. Returns whether all went.
fn remove_tree(app: &App, client: &Client, path: &Path) -> bool {
    let entries = match client.read_dir(path) {
        Ok(entries) => entries,
        Err(e) => {
            app.failures().add(path, &e);
            return false;
        }
    };
    let mut all = true;
    for entry in entries {
        let below = path.join(entry.name());
        all &= match entry.file_type() {
            clio::FileType::Dir => remove_tree(app, client, &below),
            _ => client.remove_file(&below).map_err(|e| app.failures().add(&below, &e)).is_ok(),
        };
    }
    // A folder that isn't empty for a reason that was told needs no message of its own.
    all && client.remove_dir(path).map_err(|e| app.failures().add(path, &e)).is_ok()
}
