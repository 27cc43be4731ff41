//! Settings that are the store's and not a client's: who opens it brings them, and they stay for as long as it is open.

use crate::config::Config;
use clio_core::units::TargetIndex;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::{TargetSpace, Targets};
use clio_targets::ServiceConfig;
use std::collections::BTreeSet;

/// Those that are numbers: the lock manager's. A daemon has them from its own start.
const LOCK_KEYS: &[&str] = &["lock_timeout_ms", "contended_locks", "lockless_conflicts", "contention_window_ms"];

/// What an open store works with.
#[derive(Debug, Default)]
pub(super) struct StoreSettings {
    /// Pools of targets.
    pools: Vec<(String, Vec<TargetIndex>)>,
    /// Values of [`LOCK_KEYS`]; none where a daemon keeps the store.
    locks: Vec<(&'static str, u64)>,
}

impl StoreSettings {
    /// Those of `config`, for a store of these targets, that this process keeps (`local`) or a daemon.
    ///
    /// # Errors
    /// `EINVAL` for a pool that can't be.
    pub(super) fn new(config: &Config, targets: impl Iterator<Item = TargetIndex>, local: bool) -> Result<Self> {
        let unused = |index| TargetSpace { index, total: 0, free: 0, usable: false };
        let mut targets = Targets::new(targets.map(unused));
        let mut pools = Vec::new();
        for (name, members, _) in config.pools() {
            let members: Vec<_> = members.iter().map(|i| TargetIndex(*i)).collect();
            targets.set_pool(name, members.iter().copied())?;
            pools.push((name.to_string(), members));
        }
        let locks = LOCK_KEYS.iter().filter(|_| local).map(|key| (*key, config.get(key))).collect();
        Ok(Self { pools, locks })
    }

    /// The pools, by name.
    pub(super) fn pools(&self) -> &[(String, Vec<TargetIndex>)] {
        &self.pools
    }

    /// That `config`, with which the store is opened once more, asks for nothing else. What it doesn't mention is as it is.
    ///
    /// # Errors
    /// `EINVAL`, with what differs.
    pub(super) fn check(&self, config: &Config) -> Result<()> {
        for (key, have) in &self.locks {
            match config.asked(key) {
                Some((wanted, source)) if wanted != *have => {
                    return Err(differs(&format!("{key} = {have}"), &format!("{wanted} ({source})")));
                }
                _ => {}
            }
        }
        for (name, wanted, source) in config.pools() {
            let have = self.pools.iter().find(|(pool, _)| pool == name);
            let Some((_, have)) = have else {
                return Err(differs(&format!("no pool '{name}'"), &format!("with {name} = {wanted:?} ({source})")));
            };
            let have: BTreeSet<u16> = have.iter().map(|t| t.0).collect();
            if have != wanted.iter().copied().collect() {
                return Err(differs(&format!("pool {name} = {have:?}"), &format!("{wanted:?} ({source})")));
            }
        }
        Ok(())
    }
}

fn differs(have: &str, wanted: &str) -> Error {
    let why = format!(
        "this process has the store open with {have}, not {wanted}; whoever opens a store first sets that for all of its \
         clients in the process: set it there, or leave it out here"
    );
    Error::new(Errno::EINVAL, "open", why)
}

/// Settings of the targets.
pub(super) fn service(config: &Config) -> ServiceConfig {
    let mut service = ServiceConfig::default();
    let dlm = &mut service.dlm;
    dlm.blocking_timeout_ms = config.get("lock_timeout_ms");
    dlm.contended_locks = config.get("contended_locks") as usize;
    dlm.lockless_conflicts = u32::try_from(config.get("lockless_conflicts")).ok().filter(|n| *n > 0);
    dlm.contention_window_ms = config.get("contention_window_ms");
    service
}
