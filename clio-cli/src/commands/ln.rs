//! `clio ln`.

use crate::app::App;
use crate::paths::stored;
use crate::report::Stop;
use clap::Args;
use clio::{Client, Errno};
use std::path::{Path, PathBuf};

/// Give a file another name, or with -s make a symbolic link
#[derive(Args, Debug)]
pub(crate) struct Ln {
    /// Make a symbolic link; its target is kept as it is given
    #[arg(short, long)]
    symbolic: bool,
    /// Replace a file or link that has the new name
    #[arg(short, long)]
    force: bool,
    /// The file, or what the symbolic link points at
    target: PathBuf,
    /// The new name, or a folder to put the target's name into
    #[arg(value_parser = stored())]
    link: PathBuf,
}

impl Ln {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let link = match self.target.file_name() {
            Some(name) if client.metadata(&self.link).is_ok_and(|m| m.is_dir()) => self.link.join(name),
            _ => self.link.clone(),
        };
        self.make(&client, &link).map_err(|e| Stop::on(&link, e))?;
        client.sync().map_err(|e| Stop::on("sync", e))
    }

    fn make(&self, client: &Client, link: &Path) -> clio::Result<()> {
        match self.try_make(client, link) {
            Err(e) if self.force && e.errno() == Errno::EEXIST => {
                // The new link is made first under a name of its own, so that the name is never missing.
                let mut fresh = link.as_os_str().to_os_string();
                fresh.push(format!(".clio-ln-{}", std::process::id()));
                self.try_make(client, Path::new(&fresh))?;
                let renamed = client.rename(&fresh, link);
                // After a failure, or where both were names of one file and the rename did nothing.
                if client.symlink_metadata(&fresh).is_ok() {
                    client.remove_file(&fresh)?;
                }
                renamed
            }
            other => other,
        }
    }

    fn try_make(&self, client: &Client, link: &Path) -> clio::Result<()> {
        match self.symbolic {
            true => client.symlink(&self.target, link),
            false => client.hard_link(Path::new("/").join(&self.target), link),
        }
    }
}
