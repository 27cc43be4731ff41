//! Echo over a transfer device over a target in memory.

use clio_arena::Arena;
use clio_core::env::{Env, EnvTags};
use clio_core::object::{Site, SiteLimits};
use clio_core::page::FolioSlab;
use clio_core::target::Target;
use clio_core::units::{Extent, Fid};
use clio_echo::{EchoDevice, EchoFile};
use clio_osc::{OscConfig, OscDevice, Workers};
use clio_targets::{MemOptions, MemTarget};
use std::sync::Arc;

struct Client {
    osc: Arc<OscDevice>,
    echo: EchoDevice,
    site: Arc<Site>,
    workers: Arc<Workers>,
}

impl Client {
    fn new(target: &Arc<dyn Target>) -> Self {
        let workers = Workers::new(2);
        let osc = OscDevice::new(target.clone(), OscConfig::default(), workers.clone()).expect("connect");
        let memory = Arc::new(Arena::private(64 << 20).expect("arena"));
        let site = Site::new(SiteLimits::default(), FolioSlab::new(memory));
        Self { echo: EchoDevice::new(osc.clone()), osc, site, workers }
    }

    fn open(&self, env: &Env) -> EchoFile {
        EchoFile::open(env, &self.site, &self.echo, Fid::new(1, 1), 64 << 10).expect("open")
    }

    fn end(self, env: &Env) {
        self.osc.shutdown(env).expect("shutdown");
        self.osc.check_accounting().expect("accounting");
        self.workers.shutdown();
    }
}

#[test]
fn two_clients_share_an_object() {
    let target: Arc<dyn Target> = Arc::new(MemTarget::in_memory(MemOptions::default()));
    let env = Env::get(EnvTags::IO);
    let (a, b) = (Client::new(&target), Client::new(&target));
    let (ours, theirs) = (a.open(&env), b.open(&env));
    let mut truth = vec![0u8; 200_000];
    for i in 0..40usize {
        let at = i * 4711 % 190_000;
        let file = if i % 2 == 0 { &ours } else { &theirs };
        assert_eq!(file.write_at(&env, &[i as u8 + 1; 9001], at as u64).expect("write"), 9001);
        truth[at..at + 9001].fill(i as u8 + 1);
    }
    ours.punch(&env, Extent::new(5000, 30_000)).expect("punch");
    truth[5000..30_000].fill(0);
    theirs.truncate(&env, 150_000).expect("truncate");
    truth.truncate(150_000);
    for file in [&ours, &theirs] {
        let mut buf = vec![1; 200_000];
        assert_eq!(file.read_at(&env, &mut buf, 0).expect("read"), 150_000);
        assert!(buf[..150_000] == truth);
        assert_eq!(file.size(&env).expect("size"), 150_000);
        file.fsync(&env).expect("fsync");
    }
    drop((ours, theirs));
    a.end(&env);
    b.end(&env);
}
