//! `clio stats`.

use crate::app::App;
use crate::report::Stop;
use crate::show::figures;
use clap::Args;
use clio::StoreUri;
use clio::node::{Daemon, Figures};
use std::path::PathBuf;
use std::time::Duration;

/// Show statistics: of a node: store its daemon's, of others a client's (RPC sizes, cache, locks, read-ahead, grants)
///
/// The client of an embedded store lives in the process that opened the store, so this shows one that has just
/// connected. For the statistics of a command's own work, give that command --print-stats.
#[derive(Args, Debug)]
pub(crate) struct Stats {
    /// Show a line again and again, every so many seconds (node: stores)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = interval)]
    watch: Option<Duration>,
    /// End after so many lines
    #[arg(long, value_name = "N", requires = "watch")]
    count: Option<u64>,
    /// Print them in the text format of Prometheus (node: stores)
    #[arg(long, conflicts_with = "watch")]
    prometheus: bool,
}

impl Stats {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let Some(daemon) = Asked::of(app)? else {
            if self.watch.is_some() || self.prometheus {
                let why =
                    "the statistics of an embedded store are those of the process that has it open; use a node: store";
                return Err(Stop::Usage(why.into()));
            }
            return client(app);
        };
        match self.watch {
            Some(every) => watch(app, &daemon, every, self.count),
            None if self.prometheus => {
                let mut out = app.out();
                out.text(figures::prometheus(&daemon.figures()?))?;
                out.finish()
            }
            None => {
                let figures = daemon.figures()?;
                if app.json() {
                    return app.print_json(&figures);
                }
                let mut out = app.out();
                out.text(figures::page(&figures, None))?;
                out.finish()
            }
        }
    }
}

fn client(app: &App) -> Result<(), Stop> {
    let stats = app.client()?.stats();
    if app.json() {
        return app.print_json(&stats);
    }
    let mut out = app.out();
    out.line(stats.to_string().trim_end())?;
    out.finish()
}

fn watch(app: &App, daemon: &Asked<'_>, every: Duration, count: Option<u64>) -> Result<(), Stop> {
    let mut before = None;
    for n in 0..count.unwrap_or(u64::MAX) {
        if n > 0 {
            std::thread::sleep(every);
        }
        let now = daemon.figures()?;
        let mut out = app.out();
        if app.json() {
            out.line(serde_json::to_string(&now).map_err(std::io::Error::from)?)?;
        } else {
            if n % figures::LINES_A_HEADING == 0 {
                out.line(figures::HEADING)?;
            }
            out.line(figures::line(&now, before.as_ref(), every))?;
        }
        out.finish()?;
        before = Some(now);
    }
    Ok(())
}

/// The daemon of a store, to be asked again and again: it may be another one each time, and isn't started for that.
pub(crate) struct Asked<'a> {
    store: &'a str,
    path: PathBuf,
}

impl<'a> Asked<'a> {
    /// That of a `node:` store.
    pub(crate) fn of(app: &'a App) -> Result<Option<Asked<'a>>, Stop> {
        let StoreUri::Node { path, .. } = app.store()? else { return Ok(None) };
        Ok(Some(Asked { store: app.store_text()?, path }))
    }

    pub(crate) fn figures(&self) -> Result<Figures, Stop> {
        Daemon::at(&self.path).and_then(|daemon| daemon.figures()).map_err(|e| Stop::on(self.store, e))
    }
}

/// Seconds, also parts of one.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds".to_string())?;
    let interval = Duration::try_from_secs_f64(seconds).ok().filter(|d| *d >= Duration::from_millis(10));
    interval.filter(|d| d.as_secs() <= 86_400).ok_or_else(|| "give between 0.01 and 86400 seconds".to_string())
}
