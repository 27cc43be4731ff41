//! Locks, against an open-file-description lock.

use crate::measure::{Figure, Report, time};
use crate::places;
use crate::sys::ofd_lock_pair;
use anyhow::Result;
use clio_arena::Arena;
use clio_core::env::{Env, EnvTags};
use clio_core::io::LockDemand;
use clio_core::lock::{LockDescr, request};
use clio_core::object::{Site, SiteLimits};
use clio_core::page::FolioSlab;
use clio_core::target::{EnqueueFlags, LockMode, Target};
use clio_core::units::{Extent, Fid};
use clio_echo::{EchoDevice, EchoFile};
use clio_osc::{OscConfig, OscDevice, Workers};
use clio_targets::{MemOptions, MemTarget};
use std::sync::Arc;

pub fn run(report: &mut Report) -> Result<()> {
    let ops: u64 = if report.quick { 20_000 } else { 200_000 };
    let dir = places::tmpfs()?;
    let rival =
        std::fs::File::options().create(true).read(true).write(true).truncate(true).open(dir.path().join("l"))?;
    let pair = || {
        time(|| {
            for _ in 0..ops {
                ofd_lock_pair(&rival)?;
            }
            Ok(())
        })
    };
    let env = Env::get(EnvTags::ANY);
    let target: Arc<dyn Target> = Arc::new(MemTarget::in_memory(MemOptions::default()));
    let workers = Workers::new(1);
    let osc = OscDevice::new(target, OscConfig::default(), workers.clone())?;
    let site = Site::new(SiteLimits::default(), FolioSlab::new(Arc::new(Arena::private(64 << 20)?)));
    let file = EchoFile::open(&env, &site, &EchoDevice::new(osc.clone()), Fid::new(1, 1), 1 << 20)?;
    let need = LockDescr {
        extent: Extent::new(0, 4096),
        mode: LockMode::Pw,
        flags: EnqueueFlags::default(),
        demand: LockDemand::Maybe,
    };
    request(&env, file.object(), &need)?.release(&env);
    let ours = || {
        time(|| {
            for _ in 0..ops {
                let user = file.object().locks().match_granted(&need).ok_or_else(|| anyhow::anyhow!("no match"))?;
                user.release(&env);
            }
            Ok(())
        })
    };
    report.pair(Figure::ops("cached lock match and release", "OFD lock pair", Some(40.0), ops), ours, pair)?;
    let few = ops / 10;
    let ours = || {
        time(|| {
            for _ in 0..few {
                let user = request(&env, file.object(), &need)?;
                let lock = user.lock().clone();
                user.release(&env);
                lock.cancel(&env);
            }
            Ok(())
        })
    };
    report.pair(Figure::ops("lock enqueue and cancel", "OFD lock pair", Some(10.0), few), ours, || {
        time(|| {
            for _ in 0..few {
                ofd_lock_pair(&rival)?;
            }
            Ok(())
        })
    })?;
    drop(file);
    site.purge(&env)?;
    osc.shutdown(&env)?;
    workers.shutdown();
    Ok(())
}
