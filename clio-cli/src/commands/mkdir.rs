//! `clio mkdir`.

use crate::app::App;
use crate::paths::stored;
use crate::report::Stop;
use crate::umask::umask;
use clap::Args;
use clio::{Client, Errno};
use std::path::{Path, PathBuf};

/// Make folders
#[derive(Args, Debug)]
pub(crate) struct Mkdir {
    /// Those above, too, and no error if one exists
    #[arg(short, long)]
    parents: bool,
    /// Permissions in octal, instead of 0777 less the umask
    #[arg(short, long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u32>,
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    paths: Vec<PathBuf>,
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777);
    mode.ok_or_else(|| format!("'{text}' is no mode; give octal digits, such as 755"))
}

impl Mkdir {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client_of_new()?;
        let usual = 0o777 & !umask();
        for path in &self.paths {
            let made = match self.parents {
                true => self.make_with_parents(&client, path, usual),
                false => make(&client, path, self.mode.unwrap_or(usual)),
            };
            if let Err(e) = made {
                app.failures().add(path, &e);
            }
        }
        client.sync().map_err(|e| Stop::on("sync", e))
    }

    fn make_with_parents(&self, client: &Client, path: &Path, usual: u32) -> clio::Result<()> {
        let mut above: Vec<_> = path.ancestors().skip(1).filter(|p| p.parent().is_some()).collect();
        above.reverse();
        for part in above {
            make_if_missing(client, part, usual)?;
        }
        make_if_missing(client, path, self.mode.unwrap_or(usual))
    }
}

fn make(client: &Client, path: &Path, mode: u32) -> clio::Result<()> {
    client.mkdir(path)?;
    client.set_mode(path, mode)
}

fn make_if_missing(client: &Client, path: &Path, mode: u32) -> clio::Result<()> {
    match client.metadata(path) {
        Ok(m) if m.is_dir() => Ok(()),
        Err(e) if e.errno() != Errno::ENOENT => Err(e),
        _ => make(client, path, mode),
    }
}
