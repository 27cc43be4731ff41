//! A layer of one's own: it sits between the POSIX layer and the striping layer and counts what passes.
//!
//! A layer is a [`Device`], which adds an [`ObjectSlice`] to every object. That slice makes the layer's slices of the
//! object's pages, locks and IOs; a layer that has nothing to say about one of them makes none. Slices never call
//! the slice below: generic code walks them, and `cx.submit`, `cx.commit` pass a call on.

use anyhow::Result as AnyResult;
use clio_core::Result;
use clio_core::env::Env;
use clio_core::io::{Io, IoCx, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::object::{Device, Object, ObjectBuilder, ObjectSlice};
use clio_core::page::{PageBuilder, PageList, PageQueues, PageSlice, Rw};
use clio_core::units::BLOCK_SIZE;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct Counts {
    iterations: AtomicU64,
    staged: AtomicU64,
    read: AtomicU64,
}

/// The device: in front of whatever is below.
struct CountingDevice {
    below: Arc<dyn Device>,
    counts: Arc<Counts>,
}

/// The slice of an object, and of an IO on it: both only need to know where to count.
struct CountingSlice(Arc<Counts>);

impl Device for CountingDevice {
    fn layer(&self) -> &'static str {
        "counting"
    }

    fn object_init(&self, env: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(CountingSlice(self.counts.clone())));
        self.below.object_init(env, builder)
    }
}

impl ObjectSlice for CountingSlice {
    fn layer(&self) -> &'static str {
        "counting"
    }

    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }

    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(None)
    }

    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(Some(Box::new(CountingSlice(self.0.clone()))))
    }
}

impl IoSlice for CountingSlice {
    fn layer(&self) -> &'static str {
        "counting"
    }

    fn iter_init(&mut self, _: &mut IoCx<'_>) -> Result<()> {
        self.0.iterations.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn submit(&mut self, cx: &mut IoCx<'_>, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        let before = queues.qout.blocks();
        let outcome = cx.submit(rw, queues);
        if rw == Rw::Read {
            self.0.read.fetch_add((queues.qout.blocks() - before) as u64, Ordering::Relaxed);
        }
        outcome
    }

    fn commit(&mut self, cx: &mut IoCx<'_>, pages: &mut PageList) -> Result<()> {
        let before = pages.blocks();
        let outcome = cx.commit(pages);
        self.0.staged.fetch_add((before - pages.blocks()) as u64, Ordering::Relaxed);
        outcome
    }
}

fn main() -> AnyResult<()> {
    let counts = Arc::new(Counts::default());
    let mine = counts.clone();
    let client = clio::Client::builder()
        .store("mem:?targets=2")
        .layer(move |below| Arc::new(CountingDevice { below, counts: mine.clone() }))
        .connect()?;

    let file = client.create("/data")?;
    file.write_all_at(&vec![7; 8 << 20], 0)?;
    client.drop_caches()?;
    let mut all = vec![0; 8 << 20];
    file.read_exact_at(&mut all, 0)?;
    assert!(all.iter().all(|b| *b == 7));

    let mib = |n: &AtomicU64| n.load(Ordering::Relaxed) as f64 * BLOCK_SIZE as f64 / (1 << 20) as f64;
    println!("iterations      {}", counts.iterations.load(Ordering::Relaxed));
    println!("staged          {} MiB", mib(&counts.staged));
    println!("read from below {} MiB", mib(&counts.read));
    Ok(())
}
