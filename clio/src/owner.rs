//! Who makes files: the effective user and group of the process.

use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

static IDS: OnceLock<(u32, u32)> = OnceLock::new();

fn ids() -> (u32, u32) {
    // The owner of the process's own entry in /proc is its effective user; without /proc, root.
    *IDS.get_or_init(|| std::fs::metadata("/proc/self").map_or((0, 0), |m| (m.uid(), m.gid())))
}

/// Effective user id.
pub(crate) fn uid() -> u32 {
    ids().0
}

/// Effective group id.
pub(crate) fn gid() -> u32 {
    ids().1
}
