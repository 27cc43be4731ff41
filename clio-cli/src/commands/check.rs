//! `clio check`.

use crate::app::App;
use crate::report::{Stop, ended};
use clap::Args;
use clio::CheckReport;
use serde::Serialize;

/// Look for damage in the store: names, layouts, objects and checksums; exit code 1 if there is any left
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Mend names, and set aside objects that no file owns. Data is never made up
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    clean: bool,
    #[serde(flatten)]
    report: &'a CheckReport,
}

impl Check {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let report = app.client()?.check(self.repair).map_err(|e| Stop::on(app.store_text().unwrap_or_default(), e))?;
        let clean = report.is_clean();
        ended(print(app, &Shown { clean, report: &report }), clean)
    }
}

fn print(app: &App, shown: &Shown<'_>) -> Result<(), Stop> {
    if app.json() {
        return app.print_json(shown);
    }
    let mut out = app.out();
    out.line(shown.report.to_string())?;
    out.finish()
}
