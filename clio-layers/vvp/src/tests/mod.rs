//! The layer over a store that lives in the test: no striping, no transfer layer.

mod cuts;
mod faults;
mod model;
mod posix;
mod store;
mod taken_away;
mod threads;

use crate::{FileFlags, PageCache, VvpConfig, VvpDevice, VvpFile};
use clio_core::env::{Env, EnvTags};
use clio_core::object::{ObjectConf, ObjectRef, Site, SiteLimits};
use clio_core::page::FolioSlab;
use clio_core::units::Fid;
use std::sync::Arc;
use store::Store;

/// A client with one file.
struct Stack {
    store: Arc<Store>,
    cache: Arc<PageCache>,
    site: Arc<Site>,
    object: ObjectRef,
}

/// How the stack is set up.
#[derive(Clone, Copy, Debug)]
struct Setup {
    folio_bytes: u64,
    cache_bytes: u64,
    /// What the page memory has, beyond which it refuses.
    memory_bytes: usize,
    read_ahead_bytes: u64,
    /// Size of files read whole, in bytes.
    small_file_bytes: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            folio_bytes: 64 << 10,
            cache_bytes: 16 << 20,
            memory_bytes: 256 << 20,
            read_ahead_bytes: 1 << 20,
            small_file_bytes: 0,
        }
    }
}

impl Stack {
    fn new(setup: Setup) -> Self {
        let memory = Arc::new(clio_arena::Arena::private(setup.memory_bytes).expect("arena"));
        let slab = FolioSlab::new(memory);
        let site = Site::new(SiteLimits::default(), slab.clone());
        let cache = PageCache::new(slab, setup.cache_bytes);
        let store = Store::new();
        let config =
            VvpConfig { read_ahead_max_bytes: setup.read_ahead_bytes, small_file_bytes: setup.small_file_bytes };
        let device = VvpDevice::new(store.device(), cache.clone(), config);
        let env = Env::get(EnvTags::IO);
        let conf = ObjectConf { folio_size: Some(setup.folio_bytes), ..ObjectConf::default() };
        let object = site.find(&env, Fid::new(7, 1), &device, &conf).expect("object");
        Self { store, cache, site, object }
    }

    fn open(&self, flags: FileFlags) -> VvpFile {
        VvpFile::open(self.object.clone(), flags).expect("open")
    }

    fn file(&self) -> VvpFile {
        self.open(FileFlags::default())
    }

    /// Cancels all locks: dirty data goes out, the cache is emptied.
    fn cancel_locks(&self) {
        let env = Env::get(EnvTags::WORK);
        let busy = self.object.locks().cancel_all(&env);
        assert!(busy.is_empty(), "locks in use: {busy:?}");
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.store.stop();
        let _ = &self.site;
    }
}

/// Reads all of `[offset, offset + len)` that there is.
fn read(file: &VvpFile, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xA5; len];
    let n = file.read_at(&mut buf, offset).expect("read");
    buf.truncate(n);
    buf
}
