//! Who makes files, and whose rights count: the effective user and groups of the process.

use clio_namespace::Caller;
use rustix::process::{getegid, geteuid, getgroups};

/// Effective user id.
pub(crate) fn uid() -> u32 {
    geteuid().as_raw()
}

/// Effective group id.
pub(crate) fn gid() -> u32 {
    getegid().as_raw()
}

/// The process as it is now.
pub(crate) fn caller() -> Caller {
    let groups = getgroups().unwrap_or_default();
    Caller::new(uid(), gid(), groups.into_iter().map(|g| g.as_raw()).collect())
}
