//! The device between Echo and a target in memory that can be told to hold answers back and to fail.

mod data;
mod evictions;
mod faults;
mod few_objects;
mod groups;
mod kinds;
mod locks;
mod model;
mod script;
mod stress;

use crate::{OscConfig, OscDevice, Workers};
use clio_arena::Arena;
use clio_core::env::{Env, EnvTags};
use clio_core::object::{Site, SiteLimits};
use clio_core::page::FolioSlab;
use clio_core::target::Target;
use clio_core::units::Fid;
use clio_dlm::DlmConfig;
use clio_echo::{EchoDevice, EchoFile};
use clio_targets::{GrantConfig, MemOptions, MemTarget, ServiceConfig};
use script::ScriptedTarget;
use std::sync::Arc;
use std::time::Duration;

pub(super) const KB: u64 = 1 << 10;
pub(super) const MB: u64 = 1 << 20;

pub(super) fn fid(n: u32) -> Fid {
    Fid::new(7, n)
}

/// A client with one device.
pub(super) struct Client {
    pub(super) device: Arc<OscDevice>,
    pub(super) site: Arc<Site>,
    pub(super) env: Env,
    echo: EchoDevice,
    workers: Arc<Workers>,
}

impl Client {
    pub(super) fn new(target: &Arc<ScriptedTarget>, config: OscConfig) -> Self {
        Self::with_idle_objects(target, config, SiteLimits::default().idle_objects)
    }

    /// One that keeps at most so many objects that nobody uses.
    pub(super) fn with_idle_objects(target: &Arc<ScriptedTarget>, config: OscConfig, idle_objects: usize) -> Self {
        let workers = Workers::new(2);
        let device = OscDevice::new(target.clone() as Arc<dyn Target>, config, workers.clone()).expect("connect");
        let memory = Arc::new(Arena::private(256 << 20).expect("arena"));
        let site = Site::new(SiteLimits { idle_objects }, FolioSlab::new(memory));
        Self { echo: EchoDevice::new(device.clone()), device, site, env: Env::get(EnvTags::ANY), workers }
    }

    pub(super) fn open(&self, n: u32) -> EchoFile {
        self.open_with(n, 256 * KB)
    }

    pub(super) fn open_with(&self, n: u32, folio: u64) -> EchoFile {
        EchoFile::open(&self.env, &self.site, &self.echo, fid(n), folio).expect("open")
    }

    /// As [`Client::open`], for threads.
    pub(super) fn opener(&self) -> impl Fn(&Env, u32) -> EchoFile + Sync {
        let (site, echo) = (&self.site, &self.echo);
        move |env, n| EchoFile::open(env, site, echo, fid(n), 256 * KB).expect("open")
    }

    pub(super) fn check(&self) {
        self.device.check_accounting().expect("accounting");
    }

    /// Ends the client, and checks that it owes nothing.
    pub(super) fn end(self, target: &ScriptedTarget) {
        self.device.shutdown(&self.env).expect("shutdown");
        self.check();
        let credits = self.device.stats().credits;
        assert_eq!((credits.staged, credits.in_flight, credits.reserved, credits.spending), (0, 0, 0, 0));
        assert!(!target.inner.grants().held.iter().any(|(c, _)| *c == self.device.client()));
        self.workers.shutdown();
    }
}

pub(super) fn config() -> OscConfig {
    OscConfig {
        // Long enough never to come in a test that doesn't ask for it.
        writeback_age: Duration::from_secs(3600),
        writeback_lag: Duration::ZERO,
        resend_delay: Duration::from_millis(1),
        ..OscConfig::default()
    }
}

/// A target, and what it is made of.
pub(super) struct Setup {
    pub(super) grant: GrantConfig,
    pub(super) dlm: DlmConfig,
    pub(super) capacity: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self { grant: GrantConfig::default(), dlm: DlmConfig::default(), capacity: 1 << 30 }
    }
}

impl Setup {
    pub(super) fn target(self) -> Arc<ScriptedTarget> {
        ScriptedTarget::new(self.inner())
    }

    /// A target that answers from other threads.
    pub(super) fn threaded(self) -> Arc<ScriptedTarget> {
        ScriptedTarget::threaded(self.inner(), 3)
    }

    fn inner(self) -> MemTarget {
        let service = ServiceConfig { grant: self.grant, dlm: self.dlm };
        MemTarget::in_memory(MemOptions { capacity: self.capacity, service, ..MemOptions::default() })
    }
}

/// Bytes that tell where they belong.
pub(super) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[2] ^ seed).collect()
}

/// Waits until `done`, for what other threads do.
pub(super) fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never: {what}");
}
