//! `clio serve`.

use crate::app::App;
use crate::report::Stop;
use clap::Args;
use clio::{Errno, Error, StoreUri};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Serve the store to all processes of this machine, in the foreground
///
/// This becomes cliod. Clients that name the store node:/path start a daemon by themselves where none runs.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Listen here, instead of in the runtime folder
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// End once there has been no client for this many seconds
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<u64>,
}

impl Serve {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        if let StoreUri::Mem { .. } = app.store()? {
            return Err(Stop::Usage("a mem: store is one process's; give dir:/path".into()));
        }
        let program = clio::node::program();
        let mut command = Command::new(&program);
        command.arg("--store").arg(app.store_text()?);
        if let Some(socket) = &self.socket {
            command.arg("--socket").arg(socket);
        }
        if let Some(seconds) = self.idle_exit {
            command.arg("--idle-exit").arg(seconds.to_string());
        }
        command.args(app.settings_arguments());
        let e = command.exec();
        let why = format!("cliod can't be run ({e}); install it beside clio, or set CLIO_CLIOD");
        let errno = Errno::from_raw(e.raw_os_error().unwrap_or(0));
        Err(Stop::on(program.display().to_string(), Error::new(errno, "serve", why)))
    }
}
