//! A bottom layer that keeps one file in memory, with locks that are granted at once and transfers that complete at
//! once or from another thread.

mod io;

use crate::transfer::{MiscIo, pages_in, write_out_range};
use clio_core::attr::AttrMask;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{Io, IoSlice};
use clio_core::lock::{ExtentLock, LockCx, LockDescr, LockSlice, Step};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::{Device, Glimpse, Object, ObjectBuilder, ObjectSlice};
use clio_core::page::{Page, PageBuilder, PageSlice, Rw, fast_write};
use clio_core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use clio_core::target::Bulk;
use clio_core::units::{BlockSet, Extent};
use clio_core::{Errno, Error, Result};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// What is stored, and how the layer behaves.
pub(super) struct Store {
    data: RankedMutex<Vec<u8>>,
    /// Bytes that fit.
    pub(super) capacity: AtomicU64,
    /// Nothing is staged.
    pub(super) refuse_commits: AtomicBool,
    /// Staging opens the page's window.
    pub(super) open_windows: AtomicBool,
    /// Locks are granted to the end of file.
    pub(super) grow_locks: AtomicBool,
    /// Transfers complete in another thread.
    pub(super) delayed: AtomicBool,
    pub(super) fail_reads: AtomicBool,
    /// Of the blocks that are read together, all but one are invalid again before whoever waits for them comes to look.
    pub(super) take_away: AtomicBool,
    /// How often that has happened.
    pub(super) taken_away: AtomicU64,
    pub(super) fail_punch: AtomicBool,
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) windows_told: AtomicU64,
    /// In the middle of a cut or a direct write, another writer's windows are opened, and this tries to write there.
    pub(super) intrude: AtomicBool,
    /// Intrusions tried, and those that came through.
    pub(super) intrusions: AtomicU64,
    pub(super) intruded: AtomicU64,
    /// Iterations are on holes: nothing is stored of them.
    pub(super) holes: AtomicBool,
    /// Done once, in the middle of a write.
    nest: RankedMutex<Option<Job>>,
    nested: AtomicU64,
    /// Locks granted and not yet given back.
    grants: RankedMutex<Vec<Grant>>,
    worker: RankedMutex<Option<(Sender<Job>, JoinHandle<()>)>>,
}

struct Grant {
    extent: Extent,
    lock: Weak<ExtentLock>,
    /// What it protects is being dropped: no lock is granted there meanwhile, since what is cached under it would go too.
    ending: bool,
}

impl Store {
    pub(super) fn new() -> Arc<Self> {
        let (sender, jobs): (Sender<Job>, Receiver<Job>) = channel();
        let thread = std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
        Arc::new(Self {
            data: RankedMutex::new(LockRank::Target, Vec::new()),
            capacity: AtomicU64::new(u64::MAX),
            refuse_commits: AtomicBool::new(false),
            open_windows: AtomicBool::new(true),
            grow_locks: AtomicBool::new(true),
            delayed: AtomicBool::new(false),
            fail_reads: AtomicBool::new(false),
            take_away: AtomicBool::new(false),
            taken_away: AtomicU64::new(0),
            fail_punch: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            windows_told: AtomicU64::new(0),
            intrude: AtomicBool::new(false),
            intrusions: AtomicU64::new(0),
            intruded: AtomicU64::new(0),
            holes: AtomicBool::new(false),
            nest: RankedMutex::new(LockRank::Leaf, None),
            nested: AtomicU64::new(0),
            grants: RankedMutex::new(LockRank::Leaf, Vec::new()),
            worker: RankedMutex::new(LockRank::Leaf, Some((sender, thread))),
        })
    }

    pub(super) fn device(self: &Arc<Self>) -> Arc<dyn Device> {
        Arc::new(StoreDevice(self.clone()))
    }

    /// Lets transfers under way complete, and ends the thread.
    pub(super) fn stop(&self) {
        let worker = self.worker.lock().take();
        if let Some((sender, thread)) = worker {
            drop(sender);
            thread.join().expect("worker");
        }
    }

    pub(super) fn content(&self) -> Vec<u8> {
        self.data.lock().clone()
    }

    /// Changes the stored bytes behind the client's back, as another client does.
    pub(super) fn set_content(&self, bytes: &[u8]) {
        *self.data.lock() = bytes.to_vec();
    }

    /// Has `job` done in the middle of the next write, by the thread that writes.
    pub(super) fn nest(&self, job: impl FnOnce() + Send + 'static) {
        *self.nest.lock() = Some(Box::new(job));
    }

    /// How many such jobs were done.
    pub(super) fn nested(&self) -> u64 {
        self.nested.load(Ordering::Relaxed)
    }

    fn do_nested(&self) {
        let job = self.nest.lock().take();
        if let Some(job) = job {
            job();
            self.nested.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn len(&self) -> u64 {
        self.data.lock().len() as u64
    }

    fn is(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }

    /// Grants, unless a lock there is being given back.
    fn try_grant(&self, extent: Extent, lock: &Arc<ExtentLock>) -> bool {
        let mut grants = self.grants.lock();
        if grants.iter().any(|g| g.ending && g.extent.overlaps(extent)) {
            return false;
        }
        grants.push(Grant { extent, lock: Arc::downgrade(lock), ending: false });
        true
    }

    /// From here on nothing is granted where `lock` is, until it is given back. Returns what other locks cover.
    fn begin_end(&self, lock: &Arc<ExtentLock>) -> Vec<Extent> {
        let mut grants = self.grants.lock();
        let is_it = |g: &Grant| g.lock.as_ptr() == Arc::as_ptr(lock);
        grants.iter_mut().filter(|g| is_it(g)).for_each(|g| g.ending = true);
        grants.iter().filter(|g| !is_it(g) && g.lock.strong_count() > 0).map(|g| g.extent).collect()
    }

    /// The lock is given back, and with it what it let the client know of the size.
    fn end(&self, lock: &Arc<ExtentLock>, object: &Object) {
        let mut grants = self.grants.lock();
        grants.retain(|g| g.lock.as_ptr() != Arc::as_ptr(lock));
        // Together with the removal: whoever is granted a lock after it raises the KMS after it.
        let staying = grants.iter().filter(|g| !g.ending && g.lock.strong_count() > 0);
        object.attrs().cut_kms(staying.map(|g| g.extent.end).max().unwrap_or(0));
    }

    fn move_bytes(&self, rw: Rw, bulk: &Bulk) -> Result<()> {
        let mut data = self.data.lock();
        match rw {
            Rw::Read => {
                self.reads.fetch_add(1, Ordering::Relaxed);
                if Self::is(&self.fail_reads) {
                    return Err(Error::new(Errno::EIO, "read", "the store was told to fail"));
                }
                for seg in bulk {
                    seg.mem.zero();
                    let start = (seg.offset as usize).min(data.len());
                    let end = (start + seg.mem.len()).min(data.len());
                    seg.mem.write_at(0, &data[start..end]);
                }
            }
            Rw::Write => {
                self.writes.fetch_add(1, Ordering::Relaxed);
                let end = bulk.iter().map(|s| s.extent().end).max().unwrap_or(0);
                if end > self.capacity.load(Ordering::Relaxed) {
                    return Err(Error::new(Errno::ENOSPC, "write", "the store is full"));
                }
                if (data.len() as u64) < end {
                    data.resize(end as usize, 0);
                }
                for seg in bulk {
                    seg.mem.read_at(0, &mut data[seg.offset as usize..][..seg.mem.len()]);
                }
            }
        }
        Ok(())
    }

    /// Now, or in the thread.
    fn run(&self, job: Job) {
        if Self::is(&self.delayed)
            && let Some((sender, _)) = &*self.worker.lock()
        {
            sender.send(job).expect("worker");
            return;
        }
        job();
    }

    /// Starts the transfer of blocks that were moved into it.
    fn transfer(self: &Arc<Self>, page: Arc<Page>, rw: Rw, moving: BlockSet, is_async: bool) {
        let store = self.clone();
        self.run(Box::new(move || {
            let last = moving.iter().last().filter(|_| rw == Rw::Read && Self::is(&store.take_away));
            let last = last.map_or(moving, |b| BlockSet::range(b..b + 1));
            let first = moving.minus(last);
            if !first.is_empty() {
                store.complete(&page, rw, first, is_async);
                // Whoever reads waits for the last one still.
                page.discard(&Env::get(EnvTags::WORK), first);
                store.taken_away.fetch_add(1, Ordering::Relaxed);
            }
            store.complete(&page, rw, last, is_async);
        }));
    }

    fn complete(&self, page: &Arc<Page>, rw: Rw, blocks: BlockSet, is_async: bool) {
        let mut bulk = Bulk::new();
        page.bulk(rw, blocks, &mut bulk);
        let result = self.move_bytes(rw, &bulk);
        if let (true, Err(e), Some(object)) = (is_async, &result, page.object()) {
            object.latch_error(e);
        }
        page.completion(&Env::get(EnvTags::WORK), rw, blocks, &result);
    }

    fn intrude(&self, object: &Arc<Object>, extent: Extent) {
        if !Self::is(&self.intrude) {
            return;
        }
        for page in pages_in(object, Extent::WHOLE) {
            page.open_window(page.all_blocks());
        }
        for at in [extent.start, extent.end.min(extent.start + 5000) - 1] {
            self.intrusions.fetch_add(1, Ordering::Relaxed);
            if fast_write(object, at, &[0xEE], 1).is_ok() {
                self.intruded.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What age-based write-out does.
    pub(super) fn write_back(self: &Arc<Self>, object: &Arc<Object>) {
        let env = Env::get(EnvTags::WORK);
        for page in pages_in(object, Extent::WHOLE) {
            let (moving, _window) = page.make_ready(&env, page.all_blocks(), false);
            if !moving.is_empty() {
                self.transfer(page, Rw::Write, moving, true);
            }
        }
    }
}

struct StoreDevice(Arc<Store>);

impl Device for StoreDevice {
    fn layer(&self) -> &'static str {
        "store"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(StoreObject(self.0.clone())));
        Ok(())
    }
}

struct StoreObject(Arc<Store>);

impl ObjectSlice for StoreObject {
    fn layer(&self) -> &'static str {
        "store"
    }
    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(Some(Box::new(StorePage(self.0.clone()))))
    }
    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(Some(Box::new(StoreLock(self.0.clone()))))
    }
    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(Some(Box::new(io::StoreIo(self.0.clone()))))
    }
    fn glimpse(&self, _: &Env, object: &Arc<Object>) -> Result<Option<Box<dyn Glimpse>>> {
        let len = self.0.len();
        object.attr_modify(AttrMask::SIZE, |attr| attr.size = len.max(attr.kms));
        Ok(None)
    }
}

struct StorePage(Arc<Store>);

impl PageSlice for StorePage {
    fn layer(&self) -> &'static str {
        "store"
    }
    fn window_closed(&self, _: &Env, _: &Page, blocks: BlockSet) {
        self.0.windows_told.fetch_add(blocks.count() as u64, Ordering::Relaxed);
    }
}

struct StoreLock(Arc<Store>);

impl LockSlice for StoreLock {
    fn layer(&self) -> &'static str {
        "store"
    }
    fn wait(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        if Store::is(&self.0.grow_locks) {
            cx.descr.extent = Extent::WHOLE;
        }
        // Not before a lock that is being cancelled was given back. The test can afford to spin.
        while !self.0.try_grant(cx.descr.extent, cx.lock) {
            std::thread::yield_now();
        }
        let kms = self.0.len().min(cx.descr.extent.end);
        cx.object.attrs().raise(kms, 0);
        Ok(Step::Done)
    }
    fn is_passive(&self) -> bool {
        true
    }
    fn cancel(&self, env: &Env, object: &Arc<Object>, lock: &Arc<ExtentLock>, descr: &LockDescr) {
        let mut io = MiscIo::new(env, object).expect("misc");
        for page in pages_in(object, descr.extent) {
            page.shut_window(env, page.all_blocks());
        }
        // An error is the store's: it was latched, or reported to who wrote.
        if let Err(e) = write_out_range(&mut io, object, descr.extent) {
            object.latch_error(&e);
        }
        drop(io);
        // What another lock covers stays.
        let others = self.0.begin_end(lock);
        for page in pages_in(object, descr.extent) {
            let kept = others.iter().fold(BlockSet::EMPTY, |all, e| all.or(page.blocks_of(*e)));
            page.discard(env, page.blocks_of(descr.extent).minus(kept));
            page.delete_if_unused(env);
        }
        self.0.end(lock, object);
    }
}
