//! The layers as a client stacks them, without names, for what the library has no calls for: VVP over LOV over an OSC for
//! each target, and targets in memory that fail as told.

use clio_arena::Arena;
use clio_core::Result;
use clio_core::env::{Env, EnvTags};
use clio_core::object::{Device, ObjectConf, Site, SiteLimits};
use clio_core::page::FolioSlab;
use clio_core::sync::Mutex;
use clio_core::target::Op;
use clio_core::units::{Extent, Fid, TargetIndex};
use clio_lov::layout::{FileLayout, Layout, RoundRobin, TargetSpace, Targets};
use clio_lov::{LayoutSource, LovDevice};
use clio_osc::{OscConfig, OscDevice, Workers};
use clio_targets::wrap::{Fault, Faulty};
use clio_targets::{MemOptions, MemTarget};
use clio_vvp::{FileFlags, PageCache, VvpConfig, VvpDevice, VvpFile};
use std::sync::Arc;
use std::time::Duration;

const FID: Fid = Fid::new(7, 1);
const CACHE_BYTES: u64 = 64 << 20;

/// Targets with one striped file on them.
pub struct OneFile {
    targets: Vec<Arc<Faulty>>,
    layouts: Arc<Layouts>,
}

/// The layout of the file, changed by whoever writes to a component first.
struct Layouts {
    layout: Mutex<FileLayout>,
    targets: Targets,
}

impl LayoutSource for Layouts {
    fn current(&self, _: Fid) -> Result<Arc<[u8]>> {
        Ok(self.layout.lock().encode().into())
    }

    fn instantiate(&self, _: Fid, extent: Extent) -> Result<Arc<[u8]>> {
        let mut layout = self.layout.lock();
        layout.instantiate(extent, &self.targets, &mut RoundRobin::default())?;
        Ok(layout.encode().into())
    }
}

impl OneFile {
    /// A new file on `count` targets, which evict a client that keeps a wanted lock for `lock_timeout` (0: never).
    pub fn new(layout: &Layout, count: u16, lock_timeout: Duration) -> OneFile {
        let make = |i| {
            let mut options = MemOptions { index: TargetIndex(i), ..MemOptions::default() };
            options.service.dlm.blocking_timeout_ms = lock_timeout.as_millis() as u64;
            Arc::new(Faulty::new(Arc::new(MemTarget::in_memory(options))))
        };
        let space = |i| TargetSpace { index: TargetIndex(i), total: 1 << 40, free: 1 << 40, usable: true };
        let layout = Mutex::new(FileLayout::new(layout).expect("layout"));
        let layouts = Arc::new(Layouts { layout, targets: Targets::new((0..count).map(space)) });
        OneFile { targets: (0..count).map(make).collect(), layouts }
    }

    /// A new client. It writes out only when somebody asks.
    pub fn client(&self) -> StackedClient {
        let workers = Workers::new(2);
        let config = OscConfig {
            writeback_age: Duration::from_secs(3600),
            resend_limit: 2,
            resend_delay: Duration::from_millis(1),
            ..OscConfig::default()
        };
        let connect = |t: &Arc<Faulty>| OscDevice::new(t.clone(), config.clone(), workers.clone()).expect("connect");
        let devices: Vec<_> = self.targets.iter().map(connect).collect();
        let subs = devices.iter().map(|d| d.clone() as Arc<dyn Device>).collect();
        let slab = FolioSlab::new(Arc::new(Arena::private(4 * CACHE_BYTES as usize).expect("arena")));
        let cache = PageCache::new(slab.clone(), CACHE_BYTES);
        let lov = LovDevice::new(subs, self.layouts.clone());
        let top = VvpDevice::new(lov, cache, VvpConfig::default());
        StackedClient {
            site: Site::new(SiteLimits::default(), slab),
            top,
            devices,
            workers,
            layouts: self.layouts.clone(),
        }
    }

    /// From now on `fault` happens to the requests at all targets for which `kind` is true.
    pub fn fail(&self, fault: Fault, kind: impl Fn(&Op) -> bool + Copy + Send + 'static) {
        self.targets.iter().for_each(|t| t.set_rule(move |op| kind(op).then_some(fault)));
    }

    /// Requests and replies held.
    pub fn held(&self) -> usize {
        self.targets.iter().map(|t| t.held()).sum()
    }

    /// No more faults, and nothing is held any longer.
    pub fn heal(&self) {
        self.targets.iter().for_each(|t| t.set_rule(|_| None));
        self.targets.iter().for_each(|t| {
            t.release();
        });
    }

    /// Heals when dropped: so that no thread waits forever for what a test that failed has held.
    pub fn heal_at_end(&self) -> HealAtEnd<'_> {
        HealAtEnd(self)
    }
}

/// See [`OneFile::heal_at_end`].
pub struct HealAtEnd<'a>(&'a OneFile);

impl Drop for HealAtEnd<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

/// A client of one file.
pub struct StackedClient {
    site: Arc<Site>,
    top: VvpDevice,
    devices: Vec<Arc<OscDevice>>,
    workers: Arc<Workers>,
    layouts: Arc<Layouts>,
}

impl StackedClient {
    /// Opens the file.
    pub fn open(&self, flags: FileFlags) -> VvpFile {
        let layout = self.layouts.layout.lock().encode();
        let conf = ObjectConf { layout: Some(layout.into()), ..ObjectConf::default() };
        let object = self.site.find(&Env::get(EnvTags::IO), FID, &self.top, &conf).expect("object");
        VvpFile::open(object, flags).expect("open")
    }

    /// How often a target gave this client up.
    pub fn evictions(&self) -> u64 {
        self.devices.iter().map(|d| d.stats().evictions).sum()
    }

    /// How often others wanted a lock of this client.
    pub fn wanted(&self) -> u64 {
        self.devices.iter().map(|d| d.stats().blocking_asts).sum()
    }

    /// Bytes dirty at all targets.
    pub fn dirty(&self) -> u64 {
        self.devices.iter().map(|d| d.stats().credits.dirty()).sum()
    }

    /// Drops what is cached, with the locks, after it was written out.
    pub fn drop_caches(&self) {
        let env = Env::get(EnvTags::IO);
        for object in self.site.objects().into_iter().filter(|o| !o.is_sub()) {
            object.prune(&env, false).expect("prune");
        }
    }

    /// Ends the client, whose files must be closed, and looks at its books.
    pub fn end(self) {
        let env = Env::get(EnvTags::IO);
        self.site.purge(&env).expect("purge");
        assert_eq!((self.site.len(), self.top.cache().used_bytes()), (0, 0), "what is left");
        for device in &self.devices {
            device.check_accounting().expect("the books are in order");
            assert_eq!(device.stats().credits.dirty(), 0, "dirty bytes are left");
            device.shutdown(&env).expect("shutdown");
        }
    }
}

impl Drop for StackedClient {
    fn drop(&mut self) {
        self.workers.shutdown();
    }
}
