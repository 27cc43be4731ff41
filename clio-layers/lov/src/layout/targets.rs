//! The storage targets of a store and its pools, as far as the choice of stripes needs to know them.

use super::striping::check_pool_name;
use super::{StripeCount, Striping, invalid};
use clio_core::Result;
use clio_core::units::TargetIndex;
use std::collections::BTreeMap;

/// The space of a target, from its last statfs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetSpace {
    /// The target.
    pub index: TargetIndex,
    /// Bytes in all.
    pub total: u64,
    /// Bytes free.
    pub free: u64,
    /// Whether new objects may be made there: false for a target that is offline or read-only.
    pub usable: bool,
}

impl TargetSpace {
    /// Whether a new object makes sense here.
    pub(super) fn takes_objects(&self) -> bool {
        self.usable && self.free > 0
    }
}

/// The targets of a store, and the named pools made of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Targets {
    /// In order of their indices.
    list: Vec<TargetSpace>,
    pools: BTreeMap<String, Vec<TargetIndex>>,
}

impl Targets {
    /// These targets and no pools. Of several entries with one index, the first counts.
    pub fn new(targets: impl IntoIterator<Item = TargetSpace>) -> Self {
        let mut list: Vec<_> = targets.into_iter().collect();
        list.sort_by_key(|t| t.index);
        list.dedup_by_key(|t| t.index);
        Self { list, pools: BTreeMap::new() }
    }

    /// Makes or replaces a pool.
    ///
    /// # Errors
    /// `EINVAL` for an empty pool, a member that is no target of the store, or a name that is not 1 to 63 letters,
    /// digits, `_`, `-` or `.`.
    pub fn set_pool(&mut self, name: &str, members: impl IntoIterator<Item = TargetIndex>) -> Result<()> {
        check_pool_name(name)?;
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort();
        members.dedup();
        if members.is_empty() {
            return Err(invalid(format!("pool '{name}' would be empty; name at least one target")));
        }
        if let Some(t) = members.iter().find(|t| self.list.iter().all(|x| x.index != **t)) {
            return Err(invalid(format!("pool '{name}' names target {}; {}", t.0, name_targets(&self.list))));
        }
        self.pools.insert(name.to_owned(), members);
        Ok(())
    }

    /// All targets, in order of their indices.
    pub fn all(&self) -> &[TargetSpace] {
        &self.list
    }

    /// The targets of a pool, or all, in order of their indices.
    ///
    /// # Errors
    /// `EINVAL` if the store has no such pool, or no target at all.
    pub fn members(&self, pool: Option<&str>) -> Result<Vec<TargetSpace>> {
        if self.list.is_empty() {
            return Err(invalid("the store has no targets; add one to it first"));
        }
        let Some(pool) = pool else { return Ok(self.list.clone()) };
        let Some(members) = self.pools.get(pool) else {
            let known: Vec<_> = self.pools.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) };
            return Err(invalid(format!("the store has no pool '{pool}'; {known}")));
        };
        Ok(self.list.iter().filter(|t| members.binary_search(&t.index).is_ok()).copied().collect())
    }

    /// Checks that these targets can hold `striping`, full and offline ones included.
    pub(super) fn check(&self, striping: &Striping) -> Result<()> {
        let members = self.members(striping.pool.as_deref())?;
        if let Some(first) = striping.first_target
            && members.iter().all(|t| t.index != first)
        {
            return Err(invalid(format!("first target {} does not exist; {}", first.0, name_targets(&members))));
        }
        match striping.stripe_count {
            StripeCount::Exactly(n) if usize::from(n) > members.len() && !striping.overstriping => {
                let targets = members.len();
                Err(invalid(format!("{n} stripes need as many targets, there are {targets}; allow overstriping (-C)")))
            }
            _ => Ok(()),
        }
    }
}

fn name_targets(members: &[TargetSpace]) -> String {
    match members {
        [only] => format!("there is only target {}", only.index.0),
        [first, .., last] if usize::from(last.index.0 - first.index.0) == members.len() - 1 => {
            format!("there are targets {} to {}", first.index.0, last.index.0)
        }
        _ => {
            let names: Vec<_> = members.iter().map(|t| t.index.0.to_string()).collect();
            format!("there are targets {}", names.join(", "))
        }
    }
}
