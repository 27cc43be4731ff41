//! The inputs that fuzzing starts from, made by the code whose output they are.

mod messages;
mod records;
mod scripts;
mod texts;

use super::Verdict;
use clio_core::units::{Extent, TargetIndex};
use clio_lov::layout::{FileLayout, Layout, RoundRobin, TargetSpace, Targets};

/// One input that fuzzing starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seed {
    /// The target that it is for.
    pub target: &'static str,
    /// What it is: its file is `seed-` and this.
    pub name: &'static str,
    /// The input.
    pub bytes: Vec<u8>,
    /// What the target makes of it.
    pub verdict: Verdict,
}

impl Seed {
    fn accepted(target: &'static str, name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { target, name, bytes: bytes.into(), verdict: Verdict::Accepted }
    }

    fn refused(target: &'static str, name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { verdict: Verdict::Refused, ..Self::accepted(target, name, bytes) }
    }

    /// Name of its file in the target's folder.
    pub fn file_name(&self) -> String {
        format!("seed-{}", self.name)
    }
}

/// All seeds, the same in every run.
///
/// # Panics
/// If a seed can't be made: a mistake in this module.
pub fn seeds() -> Vec<Seed> {
    [layouts(), records::namespace_records(), records::staging_records(), records::store_headers()]
        .into_iter()
        .chain([scripts::namespace_paths(), scripts::path_rules(), scripts::rpc_messages()])
        .chain([texts::configuration(), texts::store_uris(), messages::wire_messages()])
        .flatten()
        .collect()
}

/// Offsets in the second component of [`composite`] and beyond its end.
const OFFSETS: [u64; 2] = [(1 << 20) + 70_000, 5 << 20];

fn layouts() -> Vec<Seed> {
    let with_offsets = |stored: Vec<u8>| [&OFFSETS.map(u64::to_le_bytes).concat()[..], &stored].concat();
    let raid0 = Layout::raid0().stripe_count(3).stripe_size(64 << 10).first_target(1);
    let cut = &raid0.encode()[..20];
    let mut newer = raid0.encode();
    newer[4] += 1;
    let seed = |name, stored| Seed::accepted("layouts", name, with_offsets(stored));
    vec![
        seed("wish-raid0", raid0.encode()),
        seed("wish-composite", composite().encode()),
        seed("file-missing", FileLayout::new(&composite()).expect("a valid layout").encode()),
        seed("file-partly-missing", instantiated(&composite(), Extent::new(0, 2 << 20)).encode()),
        seed("file-raid0", instantiated(&raid0, Extent::WHOLE).encode()),
        seed("file-composite", instantiated(&composite(), Extent::WHOLE).encode()),
        seed("file-ends", instantiated(&Layout::composite().until(3 << 20).stripe_count(2), Extent::WHOLE).encode()),
        Seed::refused("layouts", "cut", with_offsets(cut.to_vec())),
        Seed::refused("layouts", "newer", with_offsets(newer)),
    ]
}

/// Growing widths, a pool, overstriping, and a bound within a stripe unit.
fn composite() -> Layout {
    let first = Layout::composite().until(1 << 20).stripe_size(128 << 10);
    first.until((4 << 20) + (64 << 10)).stripe_count(4).to_eof().overstripe_count(7).pool("fast")
}

fn instantiated(layout: &Layout, extent: Extent) -> FileLayout {
    let target = |i| TargetSpace { index: TargetIndex(i), total: 100, free: 50, usable: true };
    let mut targets = Targets::new((0..4).map(target));
    targets.set_pool("fast", [TargetIndex(2), TargetIndex(3)]).expect("a valid pool");
    let mut file = FileLayout::new(layout).expect("a valid layout");
    file.instantiate(extent, &targets, &mut RoundRobin::default()).expect("there are targets enough");
    file
}
