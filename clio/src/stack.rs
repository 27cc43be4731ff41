//! The device stack of a client: VVP over LOV over an OSC for each target.

use crate::client::Layers;
use crate::config::Config;
use crate::layout_source::StoreLayouts;
use crate::store::Store;
use clio_core::Result;
use clio_core::env::{Env, EnvTags};
use clio_core::object::{Device, Object, ObjectConf, ObjectRef, Site, SiteLimits};
use clio_core::page::FolioSlab;
use clio_core::units::{BLOCK_SIZE, Fid};
use clio_lov::LovDevice;
use clio_osc::{OscConfig, OscDevice, Workers};
use clio_vvp::{PageCache, VvpConfig, VvpDevice};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Threads of a client that answer blocking ASTs and write old data out.
const WORKERS: usize = 2;
/// Names changed are durable after this at the latest, if the machine crashes.
const NAMES_SYNC_PERIOD: Duration = Duration::from_secs(5);
/// Page memory that the arena may map beyond the cache limit, which is soft: dirty data can push beyond it.
const ARENA_HEADROOM: usize = 4;

pub(crate) struct Stack {
    site: Arc<Site>,
    top: Arc<dyn Device>,
    cache: Arc<PageCache>,
    devices: Vec<Arc<OscDevice>>,
    workers: Arc<Workers>,
}

impl Stack {
    /// Connects to every target of `store` and builds the stack; `layers` go between VVP and LOV.
    ///
    /// # Errors
    /// What a target says; `ENOMEM` if there is no address space for the arena.
    pub(crate) fn build(store: &Arc<Store>, config: &Config, layers: &Layers) -> Result<Self> {
        let workers = Workers::new(WORKERS);
        let connect = |target: &Arc<_>| OscDevice::new(Arc::clone(target), osc_config(config), workers.clone());
        let devices = store.targets().iter().map(connect).collect::<Result<Vec<_>>>()?;
        let subs = devices.iter().map(|d| d.clone() as Arc<dyn Device>).collect();
        let lov: Arc<dyn Device> = LovDevice::new(subs, Arc::new(StoreLayouts(Arc::downgrade(store))));
        let below = layers.0.iter().fold(lov, |below, make| make(below));

        let limit = config.get("cache_mb") << 20;
        let slab = FolioSlab::new(store.page_memory(arena_bytes(config))?);
        let cache = PageCache::new(slab.clone(), limit);
        let vvp = VvpConfig { read_ahead_max_bytes: config.get("readahead_mb") << 20, ..VvpConfig::default() };
        let top = Arc::new(VvpDevice::new(below, cache.clone(), vvp));
        if store.is_local() {
            sync_names_later(Arc::downgrade(&workers), Arc::downgrade(store));
        }
        Ok(Self { site: Site::new(SiteLimits::default(), slab), top, cache, devices, workers })
    }

    /// The object `fid`, cached or made from `conf`.
    pub(crate) fn find(&self, fid: Fid, conf: &ObjectConf) -> Result<ObjectRef> {
        self.site.find(&Env::get(EnvTags::IO), fid, self.top.as_ref(), conf)
    }

    /// The object `fid`, if it is cached.
    pub(crate) fn lookup(&self, fid: Fid) -> Option<ObjectRef> {
        self.site.lookup(fid)
    }

    pub(crate) fn devices(&self) -> &[Arc<OscDevice>] {
        &self.devices
    }

    pub(crate) fn cache(&self) -> &Arc<PageCache> {
        &self.cache
    }

    /// The folios in the caches of all files, and the bytes of page memory that they hold.
    pub(crate) fn folios(&self) -> (u64, u64) {
        let tops = self.site.objects().into_iter().filter(|o| !o.is_sub());
        let pages = tops.flat_map(|o| o.pages().range(0..u64::MAX, usize::MAX));
        pages.fold((0, 0), |(n, bytes), page| (n + 1, bytes + page.memory_bytes() as u64))
    }

    pub(crate) fn objects(&self) -> usize {
        self.site.len()
    }

    /// Writes a file's dirty data out, without durability. Other files' stays dirty; cache and locks stay.
    pub(crate) fn flush(&self, object: &Arc<Object>) -> Result<()> {
        let env = Env::get(EnvTags::IO);
        let cursor = object.errors().cursor();
        clio_vvp::flush_object(&env, object)?;
        // What was on its way already, and failed, is not among the pages written here.
        object.errors().report(&cursor).map_or(Ok(()), Err)
    }

    /// Drops all that is cached of a file whose objects are being destroyed.
    pub(crate) fn forget(&self, fid: Fid) {
        if let Some(object) = self.site.lookup(fid) {
            object.kill();
            if let Err(e) = object.prune(&Env::get(EnvTags::IO), true) {
                tracing::warn!(target: "clio::object", %fid, error = %e, "cached data of a removed file");
            }
        }
    }

    /// Drops all caches and locks, writing dirty data out.
    pub(crate) fn drop_caches(&self) -> Result<()> {
        let env = Env::get(EnvTags::IO);
        let tops = self.site.objects().into_iter().filter(|o| !o.is_sub());
        first_error(tops.map(|object| {
            let cursor = object.errors().cursor();
            let pruned = object.prune(&env, false);
            pruned.and(object.errors().report(&cursor).map_or(Ok(()), Err))
        }))
    }

    /// Writes everything out and makes it durable at the targets.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let env = Env::get(EnvTags::IO);
        let tops = self.site.objects().into_iter().filter(|o| !o.is_sub());
        first_error(tops.map(|object| clio_vvp::sync_object(&env, &object)))
    }

    fn shutdown(&self) -> Result<()> {
        let env = Env::get(EnvTags::IO);
        let purged = self.site.purge(&env);
        let closed = purged.and(first_error(self.devices.iter().map(|device| device.shutdown(&env))));
        self.workers.shutdown();
        closed
    }
}

/// Makes names durable now and then, so that a crash of the machine loses a few seconds' worth at most.
fn sync_names_later(workers: Weak<Workers>, store: Weak<Store>) {
    let Some(pool) = workers.upgrade() else { return };
    pool.after(NAMES_SYNC_PERIOD, move |_| {
        // Syncing blocks, and this is the timer.
        let Some(pool) = workers.upgrade() else { return };
        pool.push(move |_| {
            let Some(shared) = store.upgrade() else { return };
            if let Err(e) = shared.sync_names() {
                tracing::error!(error = %e, "names could not be made durable");
            }
            drop(shared);
            sync_names_later(workers, store);
        });
    });
}

/// Does every step, whatever fails, and gives the first error.
fn first_error(steps: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut first = Ok(());
    for step in steps {
        first = first.and(step);
    }
    first
}

impl Drop for Stack {
    fn drop(&mut self) {
        if let Err(e) = self.shutdown() {
            tracing::error!(error = %e, "data could not be written when the client was dropped");
        }
    }
}

/// Bytes of address space for a client's pages.
pub(crate) fn arena_bytes(config: &Config) -> usize {
    ((config.get("cache_mb") << 20) as usize).saturating_mul(ARENA_HEADROOM)
}

fn osc_config(config: &Config) -> OscConfig {
    OscConfig {
        max_rpc_bytes: config.get("max_pages_per_rpc") * BLOCK_SIZE,
        max_rpcs_in_flight: config.get("max_rpcs_in_flight") as usize,
        max_dirty_bytes: config.get("max_dirty_mb") << 20,
        writeback_age: Duration::from_millis(config.get("writeback_age_ms")),
        writeback_lag: Duration::from_millis(config.get("writeback_lag_ms")),
        checksums: config.get("checksums") != 0,
        resend_limit: config.get("resends") as u32,
        resend_delay: Duration::from_millis(config.get("resend_ms")),
        lock_limit: config.get("lock_lru") as usize,
        ..OscConfig::default()
    }
}
