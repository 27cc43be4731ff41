//! `clio config`.

use crate::app::App;
use crate::report::Stop;
use clap::Args;
use clio::config::{Key, Source};
use clio::{Config as Merged, Layout};
use serde::Serialize;

/// Show the merged settings, and where each value came from
///
/// Built-in values are overridden by the settings file, that by CLIO_* variables, those by --set. Pools and layouts are
/// tables of the settings file.
#[derive(Args, Debug)]
pub(crate) struct Config {}

/// All in JSON.
#[derive(Serialize)]
struct Shown {
    settings: Vec<Setting>,
    pools: Vec<Pool>,
    layouts: Vec<Rule>,
}

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

/// A pool in JSON.
#[derive(Serialize)]
struct Pool {
    name: String,
    targets: Vec<u16>,
    source: String,
}

/// The layout of new files under a path, in JSON.
#[derive(Serialize)]
struct Rule {
    prefix: String,
    stripe_count: u16,
    stripe_kb: u64,
    pool: Option<String>,
    source: String,
}

impl Setting {
    fn new(key: &Key, value: u64, source: &Source) -> Self {
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

impl Rule {
    /// `None` for a layout that no settings file can express, and so none has: without a component.
    fn new(prefix: String, layout: &Layout, source: &Source) -> Option<Self> {
        let striping = &layout.components().first()?.striping;
        Some(Self {
            prefix,
            stripe_count: striping.stripe_count.raw(),
            stripe_kb: striping.stripe_size >> 10,
            pool: striping.pool.clone(),
            source: source.to_string(),
        })
    }
}

impl Shown {
    fn new(config: &Merged) -> Self {
        let pools = config.pools().map(|(name, targets, source)| Pool {
            name: name.into(),
            targets: targets.into(),
            source: source.to_string(),
        });
        let layouts = config.layout_rules().filter_map(|(prefix, layout, source)| Rule::new(prefix, layout, source));
        Self { settings: settings(config), pools: pools.collect(), layouts: layouts.collect() }
    }
}

/// All settings in force that are numbers.
pub(super) fn settings(config: &Merged) -> Vec<Setting> {
    config.entries().map(|(key, value, source)| Setting::new(key, value, source)).collect()
}

impl Config {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let shown = Shown::new(&app.config()?);
        if app.json() {
            return app.print_json(&shown);
        }
        let mut out = app.out();
        for s in &shown.settings {
            out.line(format!("{:<20} = {:<10} # {}", s.name, s.value, s.source))?;
        }
        for (n, pool) in shown.pools.iter().enumerate() {
            if n == 0 {
                out.line("\n[pools]")?;
            }
            out.line(format!("{} = {:?}  # {}", pool.name, pool.targets, pool.source))?;
        }
        for rule in &shown.layouts {
            out.line(format!("\n[layouts.{:?}]  # {}", rule.prefix, rule.source))?;
            out.line(format!("stripe_count = {}", rule.stripe_count))?;
            out.line(format!("stripe_kb = {}", rule.stripe_kb))?;
            if let Some(pool) = &rule.pool {
                out.line(format!("pool = {pool:?}"))?;
            }
        }
        out.finish()
    }
}
