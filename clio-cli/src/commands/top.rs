//! `clio top`.

use super::stats::{Asked, interval};
use crate::app::App;
use crate::report::Stop;
use crate::show::figures;
use clap::Args;
use std::io::IsTerminal;
use std::time::Duration;

/// Clears the screen, and goes to its start.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Show live what the daemon of a node: store does: clients, files, locks, transfers of each target
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Seconds between two looks
    #[arg(long, short = 'd', value_name = "SECONDS", default_value = "1", value_parser = interval)]
    delay: Duration,
    /// End after so many looks
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
}

impl Top {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let Some(daemon) = Asked::of(app)? else {
            return Err(Stop::Usage("only a daemon can be watched; use a node: store".into()));
        };
        let is_terminal = std::io::stdout().is_terminal();
        let mut before = None;
        for n in 0..self.count.unwrap_or(u64::MAX) {
            if n > 0 {
                std::thread::sleep(self.delay);
            }
            let now = daemon.figures()?;
            let mut out = app.out();
            match is_terminal {
                true => out.text(CLEAR)?,
                false if n > 0 => out.line("")?,
                false => {}
            }
            out.text(figures::page(&now, before.as_ref().map(|b| (b, self.delay))))?;
            out.finish()?;
            before = Some(now);
        }
        Ok(())
    }
}
