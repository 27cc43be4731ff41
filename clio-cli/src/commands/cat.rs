//! `clio cat`.

use crate::app::App;
use crate::output::Output;
use crate::paths::stored;
use crate::report::Stop;
use clap::Args;
use clio::Client;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Write files to standard output
#[derive(Args, Debug)]
pub(crate) struct Cat {
    /// Paths in the store
    #[arg(required = true, value_parser = stored())]
    paths: Vec<PathBuf>,
}

impl Cat {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let mut out = app.out();
        for path in &self.paths {
            match print_file(&client, path, &mut out) {
                Err(Stop::Failed { error, .. }) => app.failures().add(path, &error),
                other => other?,
            }
        }
        out.finish()
    }
}

/// Writes a file to standard output.
///
/// # Errors
/// [`Stop::Failed`] for what the store says, [`Stop::Pipe`] if nobody reads any more.
pub(super) fn print_file(client: &Client, path: &Path, out: &mut Output) -> Result<(), Stop> {
    let fail = |e| Stop::on(path, e);
    let file = client.open_file(path).map_err(fail)?;
    let mut buf = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let n = file.read_at(&mut buf, at).map_err(fail)?;
        if n == 0 {
            return file.close().map_err(fail);
        }
        out.write_all(&buf[..n])?;
        at += n as u64;
    }
}
