//! Layouts for people and programs: what `getstripe` prints.

use super::{Component, FileLayout, Layout, StripeCount, StripeRef};
use clio_core::units::{Extent, Fid, StripeIndex, TargetIndex};
use serde::Serialize;
use std::fmt;

/// A layout to be shown: as JSON by `serde`, as YAML by `Display`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Description {
    /// The file; absent for a folder's default layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fid: Option<String>,
    /// How often the file's layout has changed; absent for a folder's default layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The file's folio size; absent for a folder's default layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio_size_bytes: Option<u64>,
    /// The components in order of their extents.
    pub components: Vec<ComponentDescription>,
}

/// A component to be shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ComponentDescription {
    /// Its index.
    pub index: usize,
    /// The first byte of the file that belongs to it.
    pub start_bytes: u64,
    /// The first byte after; `null` for the end of file.
    pub end_bytes: Option<u64>,
    /// Its stripe size.
    pub stripe_size_bytes: u64,
    /// The number of stripes, which is the one wanted while there are none; `null` for one on each target.
    pub stripe_count: Option<usize>,
    /// The target that was asked for as the first.
    pub first_target: Option<u16>,
    /// Whether a target may hold more than one stripe.
    pub overstriping: bool,
    /// The pool that targets are taken from.
    pub pool: Option<String>,
    /// Whether it has its stripes.
    pub instantiated: bool,
    /// Its stripes.
    pub stripes: Vec<StripeDescription>,
}

/// A stripe to be shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StripeDescription {
    /// The target that holds it.
    pub target: u16,
    /// Its object.
    pub fid: String,
}

impl Layout {
    /// The layout to be shown, as a folder's default.
    pub fn describe(&self) -> Description {
        let components = self.components().iter().enumerate().map(|(i, c)| describe_component(i, c, &[], None));
        Description { fid: None, generation: None, folio_size_bytes: None, components: components.collect() }
    }
}

impl FileLayout {
    /// The layout to be shown, with the objects of `file`.
    pub fn describe(&self, file: Fid) -> Description {
        let components = self.components.iter().enumerate();
        Description {
            fid: Some(file.to_string()),
            generation: Some(self.generation.0),
            folio_size_bytes: Some(self.folio_size),
            components: components.map(|(i, c)| describe_component(i, &c.wanted, &c.stripes, Some(file))).collect(),
        }
    }
}

fn describe_component(index: usize, c: &Component, stripes: &[TargetIndex], file: Option<Fid>) -> ComponentDescription {
    let fid = |k: usize| {
        let at = StripeRef { component: super::ComponentIndex(index as u16), stripe: StripeIndex(k as u16) };
        file.map(|f| at.fid(f).to_string()).unwrap_or_default()
    };
    let wanted = match c.striping.stripe_count {
        StripeCount::All => None,
        StripeCount::Exactly(n) => Some(usize::from(n)),
    };
    ComponentDescription {
        index,
        start_bytes: c.extent.start,
        end_bytes: (c.extent.end != Extent::EOF).then_some(c.extent.end),
        stripe_size_bytes: c.striping.stripe_size,
        stripe_count: if stripes.is_empty() { wanted } else { Some(stripes.len()) },
        first_target: c.striping.first_target.map(|t| t.0),
        overstriping: c.striping.overstriping,
        pool: c.striping.pool.clone(),
        instantiated: !stripes.is_empty(),
        stripes: stripes.iter().enumerate().map(|(k, t)| StripeDescription { target: t.0, fid: fid(k) }).collect(),
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fid) = &self.fid {
            writeln!(f, "fid: \"{fid}\"")?;
        }
        if let Some(generation) = self.generation {
            writeln!(f, "generation: {generation}")?;
        }
        if let Some(size) = self.folio_size_bytes {
            writeln!(f, "folio_size_bytes: {size}")?;
        }
        writeln!(f, "components:")?;
        self.components.iter().try_for_each(|c| fmt::Display::fmt(c, f))
    }
}

impl fmt::Display for ComponentDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  - index: {}", self.index)?;
        writeln!(f, "    start_bytes: {}", self.start_bytes)?;
        writeln!(f, "    end_bytes: {}", or_null(self.end_bytes))?;
        writeln!(f, "    stripe_size_bytes: {}", self.stripe_size_bytes)?;
        writeln!(f, "    stripe_count: {}", or_null(self.stripe_count))?;
        writeln!(f, "    first_target: {}", or_null(self.first_target))?;
        writeln!(f, "    overstriping: {}", self.overstriping)?;
        writeln!(f, "    pool: {}", or_null(self.pool.as_ref().map(|p| format!("\"{p}\""))))?;
        writeln!(f, "    instantiated: {}", self.instantiated)?;
        if self.stripes.is_empty() {
            return writeln!(f, "    stripes: []");
        }
        writeln!(f, "    stripes:")?;
        self.stripes.iter().try_for_each(|s| writeln!(f, "      - {{ target: {}, fid: \"{}\" }}", s.target, s.fid))
    }
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |v| v.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{RoundRobin, TargetSpace, Targets};
    use super::*;

    fn sample() -> FileLayout {
        let layout = Layout::composite().until(1 << 20).pool("fast").stripe_count(2).to_eof().stripe_count(0);
        let target = |i| TargetSpace { index: TargetIndex(i), total: 9, free: 9, usable: true };
        let mut targets = Targets::new((0..4).map(target));
        targets.set_pool("fast", [TargetIndex(1), TargetIndex(2)]).unwrap();
        let mut f = FileLayout::new(&layout).unwrap();
        f.instantiate(Extent::new(0, 1), &targets, &mut RoundRobin::default()).unwrap();
        f
    }

    #[test]
    fn text_shows_what_exists_and_what_is_wanted() {
        let expected = "\
fid: \"[0x1:0x2:0x0]\"
generation: 1
folio_size_bytes: 1048576
components:
  - index: 0
    start_bytes: 0
    end_bytes: 1048576
    stripe_size_bytes: 1048576
    stripe_count: 2
    first_target: null
    overstriping: false
    pool: \"fast\"
    instantiated: true
    stripes:
      - { target: 1, fid: \"[0x1:0x2:0x1]\" }
      - { target: 2, fid: \"[0x1:0x2:0x2]\" }
  - index: 1
    start_bytes: 1048576
    end_bytes: null
    stripe_size_bytes: 1048576
    stripe_count: null
    first_target: null
    overstriping: false
    pool: \"fast\"
    instantiated: false
    stripes: []
";
        assert_eq!(sample().describe(Fid::new(1, 2)).to_string(), expected);
    }

    #[test]
    fn json_has_the_same_fields() {
        let v = serde_json::to_value(sample().describe(Fid::new(1, 2))).unwrap();
        assert_eq!(v["generation"], 1);
        assert_eq!(v["components"][0]["stripes"][1]["target"], 2);
        assert_eq!(v["components"][1]["end_bytes"], serde_json::Value::Null);
        let v = serde_json::to_value(Layout::raid0().describe()).unwrap();
        assert!(v.get("fid").is_none() && v["components"][0]["stripe_count"] == 1);
    }
}
