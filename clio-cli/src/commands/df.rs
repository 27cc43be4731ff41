//! `clio df`.

use crate::app::App;
use crate::report::Stop;
use crate::show::{Human, human};
use clap::Args;
use serde::Serialize;

/// Show the store's space
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Df {
    #[command(flatten)]
    human: Human,
}

/// The space of a store, all targets together.
#[derive(Serialize)]
struct Space<'a> {
    store: &'a str,
    total_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
}

impl Df {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let (total_bytes, free_bytes) = app.client()?.space();
        let used_bytes = total_bytes.saturating_sub(free_bytes);
        let space = Space { store: app.store_text()?, total_bytes, used_bytes, free_bytes };
        if app.json() {
            return app.print_json(&space);
        }
        let show = |n: u64| if self.human.human { human(n) } else { n.div_ceil(1024).to_string() };
        let percent = (u128::from(used_bytes) * 100).div_ceil(u128::from(total_bytes.max(1)));
        let unit = if self.human.human { "Size" } else { "1K-blocks" };
        let mut out = app.out();
        out.line(format!("{unit:>14} {:>14} {:>14} {:>5} Store", "Used", "Available", "Use%"))?;
        let (total, used, free) = (show(total_bytes), show(used_bytes), show(free_bytes));
        out.text(format!("{total:>14} {used:>14} {free:>14} {percent:>4}% "))?;
        out.name(space.store)?;
        out.line("")?;
        out.finish()
    }
}
