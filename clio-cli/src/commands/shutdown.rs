//! `clio shutdown`.

use crate::app::App;
use crate::report::Stop;
use clap::Args;
use clio::node::Daemon;
use clio::{Errno, Error, StoreUri};

/// End the store's daemon, for all its clients
///
/// What was asked of it by then is done first, and programs write out what they have. Those that need it go on with the next
/// daemon, which they start.
#[derive(Args, Debug)]
pub(crate) struct Shutdown {}

impl Shutdown {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let (StoreUri::Dir { path, .. } | StoreUri::Node { path, .. }) = app.store()? else {
            return Err(Stop::Usage("a mem: store has no daemon; give node:/path".into()));
        };
        let store = app.store_text()?;
        let daemon = Daemon::at(&path).map_err(|e| match e.errno() {
            Errno::ENOENT | Errno::ENODEV => Stop::on(store, Error::new(e.errno(), "shutdown", "no daemon serves it")),
            _ => Stop::on(store, e),
        })?;
        daemon.shut_down().map_err(|e| Stop::on(store, e))
    }
}
