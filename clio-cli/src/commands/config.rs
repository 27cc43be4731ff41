//! `clio config`.

use crate::app::App;
use crate::report::Stop;
use clap::Args;
use clio::config::Key;
use serde::Serialize;

/// Show the merged settings, and where each value came from
///
/// Built-in values are overridden by the settings file, that by CLIO_* variables, those by --set.
#[derive(Args, Debug)]
pub(crate) struct Config {}

/// A setting in JSON.
#[derive(Serialize)]
pub(super) struct Setting {
    name: &'static str,
    value: u64,
    /// `default`, the file's path, the variable's name, or `given`.
    source: String,
    default: u64,
    min: u64,
    max: u64,
    help: &'static str,
}

impl Setting {
    pub(super) fn new(key: &Key, value: u64, source: &impl ToString) -> Self {
        let (min, max) = key.range;
        let (name, default, help) = (key.name, key.default, key.help);
        Self { name, value, source: source.to_string(), default, min, max, help }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn value(&self) -> u64 {
        self.value
    }
}

/// All settings in force.
pub(super) fn settings(app: &App) -> Result<Vec<Setting>, Stop> {
    Ok(app.config()?.entries().map(|(key, value, source)| Setting::new(key, value, source)).collect())
}

impl Config {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let settings = settings(app)?;
        if app.json() {
            return app.print_json(&settings);
        }
        let mut out = app.out();
        for s in &settings {
            out.line(format!("{:<18} = {:<10} # {}", s.name, s.value, s.source))?;
        }
        let config = app.config()?;
        for (n, (name, members)) in config.pools().enumerate() {
            if n == 0 {
                out.line("\n[pools]")?;
            }
            out.line(format!("{name} = {members:?}"))?;
        }
        for (prefix, layout) in config.layout_rules() {
            let Some(c) = layout.components().first() else { continue };
            let c = &c.striping;
            out.line(format!("\n[layouts.{prefix:?}]"))?;
            out.line(format!("stripe_count = {}", c.stripe_count.raw()))?;
            out.line(format!("stripe_kb = {}", c.stripe_size >> 10))?;
            if let Some(pool) = &c.pool {
                out.line(format!("pool = {pool:?}"))?;
            }
        }
        out.finish()
    }
}
