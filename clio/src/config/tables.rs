//! The settings that are tables: pools of targets, and layouts by path.

use super::Source;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::Layout;
use clio_namespace::rules::PathRules;
use std::collections::BTreeMap;

/// The tables of a settings file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// Target numbers by the pool's name.
    pub(super) pools: BTreeMap<String, (Vec<u16>, Source)>,
    /// Layouts of new files by the path's prefix.
    pub(super) layouts: PathRules<(Layout, Source)>,
}

impl Tables {
    /// Adds the entries of the table `name`, which come from `source`.
    ///
    /// # Errors
    /// `EINVAL`, saying what to write instead.
    pub(super) fn merge(&mut self, name: &str, entries: &toml::Table, source: &Source) -> Result<()> {
        match name {
            "pools" => entries.iter().try_for_each(|(name, members)| {
                self.pools.insert(name.clone(), (members_of(name, members)?, source.clone()));
                Ok(())
            }),
            "layouts" => entries.iter().try_for_each(|(prefix, rule)| {
                let layout = layout_of(prefix, rule)?;
                self.layouts.insert(prefix.as_bytes(), (layout, source.clone()))?;
                Ok(())
            }),
            other => Err(unknown("table", other, &["pools", "layouts"])),
        }
    }
}

fn bad(why: String) -> Error {
    Error::new(Errno::EINVAL, "config", why)
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    let nearest = known.iter().min_by_key(|k| strsim::levenshtein(k, name)).unwrap_or(&"");
    bad(format!("unknown {what} '{name}'; did you mean '{nearest}'?"))
}

fn members_of(name: &str, members: &toml::Value) -> Result<Vec<u16>> {
    let list = members.as_array().map(|list| list.iter().map(|v| v.as_integer().and_then(|n| u16::try_from(n).ok())));
    let members = list.and_then(|list| list.collect::<Option<Vec<_>>>());
    members.ok_or_else(|| bad(format!("pool '{name}': give a list of target numbers, as [0, 1]")))
}

fn layout_of(prefix: &str, rule: &toml::Value) -> Result<Layout> {
    let at = |why: &str| bad(format!("layouts.\"{prefix}\": {why}"));
    let rule = rule.as_table().ok_or_else(|| at("give a table with stripe_count, stripe_kb or pool"))?;
    let mut layout = Layout::raid0();
    for (key, value) in rule {
        let number = || value.as_integer().and_then(|n| u64::try_from(n).ok());
        layout = match key.as_str() {
            "stripe_count" => {
                let count = number().and_then(|n| u16::try_from(n).ok());
                layout.stripe_count(count.ok_or_else(|| at("stripe_count: give a number from 0 to 2000"))?)
            }
            "stripe_kb" => {
                let size = number().and_then(|kb| kb.checked_mul(1024));
                layout.stripe_size(size.ok_or_else(|| at("stripe_kb: give a number, a multiple of 64"))?)
            }
            "pool" => layout.pool(value.as_str().ok_or_else(|| at("pool: give a name, in quotes"))?),
            other => return Err(unknown("key", other, &["stripe_count", "stripe_kb", "pool"])),
        };
    }
    layout.check().map_err(|e| at(e.detail()))?;
    Ok(layout)
}
