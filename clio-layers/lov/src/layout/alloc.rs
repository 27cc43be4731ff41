//! The choice of targets for new stripes.

use super::{MAX_STRIPES, StripeCount, Striping, TargetSpace, Targets, invalid};
use clio_core::units::TargetIndex;
use clio_core::{Errno, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Decides which targets get the stripes of a component. Keep one for each store: it remembers what it gave.
pub trait Allocator: Send {
    /// `count` different targets out of `candidates`, in the order of stripes.
    ///
    /// The caller guarantees that candidates are different, in order of their indices, usable and not full, and that
    /// `1 <= count <= candidates.len()`; and that `first`, if given, is a candidate: it must come first.
    fn pick(&mut self, candidates: &[TargetSpace], count: usize, first: Option<TargetIndex>) -> Vec<TargetIndex>;
}

/// The targets of all stripes that `striping` wants. More stripes than usable targets go around them again if
/// overstriping is allowed, and are left out otherwise.
pub(super) fn choose_stripes(
    striping: &Striping,
    targets: &Targets,
    allocator: &mut dyn Allocator,
) -> Result<Vec<TargetIndex>> {
    targets.check(striping)?;
    let no_space = |detail: String| Error::new(Errno::ENOSPC, "allocate stripes", detail);
    let mut usable = targets.members(striping.pool.as_deref())?;
    let members = usable.len();
    usable.retain(TargetSpace::takes_objects);
    if usable.is_empty() {
        return Err(no_space(format!("all {members} targets are full or offline; free space or add a target")));
    }
    if let Some(first) = striping.first_target
        && usable.iter().all(|t| t.index != first)
    {
        let first = first.0;
        return Err(no_space(format!("first target {first} is full or offline; choose another, or let Clio choose")));
    }
    let wanted = match striping.stripe_count {
        StripeCount::All => usable.len().min(usize::from(MAX_STRIPES)),
        StripeCount::Exactly(n) => usize::from(n),
    };
    let different = wanted.min(usable.len());
    let picked = allocator.pick(&usable, different, striping.first_target);
    if !is_valid_pick(&picked, &usable, different) {
        return Err(invalid("the allocator chose targets that were not on offer; use another allocator"));
    }
    let stripes = if striping.overstriping { wanted } else { different };
    Ok(picked.into_iter().cycle().take(stripes).collect())
}

/// Allocators may come from outside: a bad choice must not get into a layout.
fn is_valid_pick(picked: &[TargetIndex], usable: &[TargetSpace], count: usize) -> bool {
    let distinct: BTreeSet<_> = picked.iter().collect();
    picked.len() == count && distinct.len() == count && picked.iter().all(|t| usable.iter().any(|u| u.index == *t))
}

/// Gives targets in turn.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Allocator for RoundRobin {
    fn pick(&mut self, candidates: &[TargetSpace], count: usize, first: Option<TargetIndex>) -> Vec<TargetIndex> {
        let n = candidates.len();
        let named = first.and_then(|f| candidates.iter().position(|t| t.index == f));
        let start = named.unwrap_or_else(|| {
            let start = self.next % n;
            // Files over all targets would all begin at the same one, where small files then gather.
            let step = if count.is_multiple_of(n) { count + 1 } else { count };
            self.next = (start + step) % n;
            start
        });
        (0..count).map(|i| candidates[(start + i) % n].index).collect()
    }
}

/// Gives each target stripes in proportion to its free space, spread evenly over time.
///
/// Every target earns credit at the rate of its free space; whoever has most gets the stripe and pays for it. So
/// a target that is half as free gets half as many stripes, with no randomness, even if statfs is asked seldom.
#[derive(Clone, Debug, Default)]
pub struct FreeSpace {
    credit: BTreeMap<TargetIndex, i128>,
}

impl Allocator for FreeSpace {
    fn pick(&mut self, candidates: &[TargetSpace], count: usize, first: Option<TargetIndex>) -> Vec<TargetIndex> {
        let mut left = candidates.to_vec();
        let mut picked = Vec::with_capacity(count);
        let mut named = first;
        while picked.len() < count && !left.is_empty() {
            let mut price = 0;
            for t in &left {
                price += i128::from(t.free);
                let credit = self.credit.entry(t.index).or_default();
                *credit = credit.saturating_add(i128::from(t.free));
            }
            let credit_of = |t: &TargetSpace| self.credit.get(&t.index).copied().unwrap_or(0);
            let richest = (0..left.len()).max_by_key(|i| (credit_of(&left[*i]), std::cmp::Reverse(left[*i].index)));
            let named = named.take().and_then(|f| left.iter().position(|t| t.index == f));
            let Some(i) = named.or(richest) else { break };
            let chosen = left.remove(i).index;
            if let Some(credit) = self.credit.get_mut(&chosen) {
                *credit = credit.saturating_sub(price);
            }
            picked.push(chosen);
        }
        picked
    }
}

/// Round-robin while the targets are about equally free, by free space once they differ by more than 17%.
#[derive(Clone, Debug, Default)]
pub struct Balanced {
    round_robin: RoundRobin,
    free_space: FreeSpace,
}

impl Balanced {
    /// Difference of free space, in percent of the largest, up to which targets count as equal.
    const TOLERANCE_PERCENT: u128 = 17;
}

impl Allocator for Balanced {
    fn pick(&mut self, candidates: &[TargetSpace], count: usize, first: Option<TargetIndex>) -> Vec<TargetIndex> {
        let free = || candidates.iter().map(|t| u128::from(t.free));
        let (least, most) = (free().min().unwrap_or(0), free().max().unwrap_or(0));
        if (most - least) * 100 <= most * Self::TOLERANCE_PERCENT {
            self.round_robin.pick(candidates, count, first)
        } else {
            self.free_space.pick(candidates, count, first)
        }
    }
}

#[cfg(test)]
#[path = "alloc_tests.rs"]
mod tests;
