//! `clio stats`.

use crate::app::App;
use crate::report::Stop;
use clap::Args;

/// Show a client's statistics: RPC sizes, cache, locks, read-ahead, grants
///
/// The client of an embedded store lives in the process that opened the store, so this shows one that has just
/// connected. For the statistics of a command's own work, give that command --print-stats.
#[derive(Args, Debug)]
pub(crate) struct Stats {}

impl Stats {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let stats = app.client()?.stats();
        if app.json() {
            return app.print_json(&stats);
        }
        let mut out = app.out();
        out.line(stats.to_string().trim_end())?;
        out.finish()
    }
}
