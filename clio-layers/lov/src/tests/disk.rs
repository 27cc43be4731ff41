//! A transfer layer that keeps bytes of sub-objects in memory, writes through, and fails on demand.

use clio_core::attr::AttrMask;
use clio_core::env::Env;
use clio_core::io::{Io, IoCx, IoId, IoKind, IoSlice};
use clio_core::lock::{ExtentLock, LockCx, LockDescr, LockSlice, Step, Unused};
use clio_core::object::{Device, Glimpse, Object, ObjectBuilder, ObjectSlice};
use clio_core::page::{PageBuilder, PageList, PageQueues, PageSlice, Rw, SyncIo};
use clio_core::sync::Mutex;
use clio_core::target::{Bulk, BulkSegment};
use clio_core::units::{Extent, Fid};
use clio_core::{Errno, Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// Where a sub-IO, or a lock, can be told to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Init,
    IterInit,
    Lock,
    Enqueue,
    Start,
    Submit,
    Commit,
    Direct,
    End,
}

/// A lock request that awaits its answer.
pub(super) struct Sent {
    pub(super) fid: Fid,
    lock: Weak<ExtentLock>,
    answer: Answer,
}

type Answer = Arc<Mutex<Option<Result<()>>>>;

impl Sent {
    /// Answers as a completion does.
    pub(super) fn answer(self, answer: Result<()>) {
        *self.answer.lock() = Some(answer);
        if let Some(lock) = self.lock.upgrade() {
            lock.signal();
        }
    }
}

/// All targets of a store.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) objects: Mutex<BTreeMap<Fid, Vec<u8>>>,
    /// The next call of this kind fails, after so many that don't.
    pub(super) fail: Mutex<Option<(At, usize)>>,
    /// Nothing can be staged.
    pub(super) no_quota: AtomicBool,
    /// Locks are granted on exactly what was asked for, else on whole objects.
    pub(super) exact: AtomicBool,
    /// Answers to lock requests don't come by themselves.
    pub(super) manual: AtomicBool,
    pub(super) sent: Mutex<Vec<Sent>>,
    pub(super) enqueued: AtomicUsize,
    pub(super) sub_ios: AtomicUsize,
    pub(super) sub_ios_now: AtomicUsize,
    /// Glimpses asked for that nobody has waited for yet, and the most there were when one was waited for.
    pub(super) glimpses_open: AtomicUsize,
    pub(super) glimpses_at_once: AtomicUsize,
    /// Steps begun and not ended, of all sub-IOs.
    pub(super) open_steps: AtomicUsize,
    pub(super) synced: Mutex<Vec<(Fid, Extent)>>,
}

impl Disk {
    fn check(&self, at: At) -> Result<()> {
        let mut fail = self.fail.lock();
        match &mut *fail {
            Some((a, 0)) if *a == at => {
                *fail = None;
                Err(Error::new(Errno::EIO, "disk", "told to fail"))
            }
            Some((a, n)) if *a == at => {
                *n -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn transfer(&self, fid: Fid, rw: Rw, bulk: &[BulkSegment]) {
        let mut objects = self.objects.lock();
        let object = objects.entry(fid).or_default();
        for segment in bulk {
            let (start, len) = (segment.offset as usize, segment.mem.len());
            match rw {
                Rw::Write => {
                    if object.len() < start + len {
                        object.resize(start + len, 0);
                    }
                    segment.mem.read_at(0, &mut object[start..start + len]);
                }
                Rw::Read => {
                    segment.mem.zero();
                    let have = object.get(start..).unwrap_or_default();
                    segment.mem.write_at(0, &have[..have.len().min(len)]);
                }
            }
        }
    }

    pub(super) fn len(&self, fid: Fid) -> u64 {
        self.objects.lock().get(&fid).map_or(0, |o| o.len() as u64)
    }
}

/// The device of a target.
pub(super) struct DiskDevice(pub(super) Arc<Disk>);

struct DiskObject(Arc<Disk>);
struct DiskIo(Arc<Disk>);
struct DiskLock {
    disk: Arc<Disk>,
    answer: Answer,
    is_sent: AtomicBool,
}

impl Device for DiskDevice {
    fn layer(&self) -> &'static str {
        "disk"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(DiskObject(self.0.clone())));
        Ok(())
    }
}

impl ObjectSlice for DiskObject {
    fn layer(&self) -> &'static str {
        "disk"
    }
    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }
    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        let (answer, is_sent) = Default::default();
        Ok(Some(Box::new(DiskLock { disk: self.0.clone(), answer, is_sent })))
    }
    fn io_init(&self, _: &Env, object: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        assert!(object.is_sub());
        self.0.check(At::Init)?;
        self.0.sub_ios.fetch_add(1, SeqCst);
        self.0.sub_ios_now.fetch_add(1, SeqCst);
        Ok(Some(Box::new(DiskIo(self.0.clone()))))
    }
    fn glimpse(&self, _: &Env, object: &Arc<Object>) -> Result<Option<Box<dyn Glimpse>>> {
        self.0.glimpses_open.fetch_add(1, SeqCst);
        Ok(Some(Box::new(DiskGlimpse(self.0.clone(), object.clone()))))
    }
    fn prune(&self, env: &Env, object: &Arc<Object>, _: bool) -> Result<()> {
        object.locks().cancel_all(env);
        Ok(())
    }
}

struct DiskGlimpse(Arc<Disk>, Arc<Object>);

impl Glimpse for DiskGlimpse {
    fn finish(self: Box<Self>) -> Result<()> {
        let DiskGlimpse(disk, object) = *self;
        disk.glimpses_at_once.fetch_max(disk.glimpses_open.load(SeqCst), SeqCst);
        disk.glimpses_open.fetch_sub(1, SeqCst);
        object.attrs().update_size(disk.len(object.fid()));
        object.attr_modify(AttrMask::empty(), |_| {});
        Ok(())
    }
}

impl LockSlice for DiskLock {
    fn layer(&self) -> &'static str {
        "disk"
    }

    fn enqueue(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        if !self.is_sent.swap(true, SeqCst) {
            self.disk.check(At::Enqueue)?;
            self.disk.enqueued.fetch_add(1, SeqCst);
            let sent = Sent { fid: cx.lock.fid(), lock: Arc::downgrade(cx.lock), answer: self.answer.clone() };
            match self.disk.manual.load(SeqCst) {
                true => self.disk.sent.lock().push(sent),
                false => sent.answer(Ok(())),
            }
        }
        Ok(Step::Done)
    }

    /// A grant tells the object's size.
    fn wait(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        let answer = self.answer.lock().clone();
        let Some(answer) = answer else { return Ok(Step::Wait) };
        answer?;
        if !self.disk.exact.load(SeqCst) && !cx.descr.flags.exact {
            cx.descr.extent = Extent::WHOLE;
        }
        // Without the attribute lock nothing is lost of raises meanwhile; then the merge is asked to look again.
        cx.object.attrs().raise(self.disk.len(cx.lock.fid()), 0);
        cx.object.attr_modify(AttrMask::empty(), |_| {});
        Ok(Step::Done)
    }

    fn unuse(&self, _: &mut LockCx<'_>) -> Unused {
        if matches!(*self.answer.lock(), Some(Ok(()))) { Unused::Keep } else { Unused::Cancel }
    }

    fn is_passive(&self) -> bool {
        true
    }

    fn cancel(&self, env: &Env, object: &Arc<Object>, _: &Arc<ExtentLock>, descr: &LockDescr) {
        let size = object.folio_size();
        let end = descr.extent.end.div_ceil(size);
        for page in object.pages().range(descr.extent.start / size..end, usize::MAX) {
            // Another lock, which no lock manager keeps away here, may cover what is dirty: it will be written through.
            let blocks = page.blocks_of(descr.extent);
            if let Some(owned) = page.own_idle(IoId(u64::MAX), blocks) {
                owned.forget(blocks.minus(page.dirty()));
            }
            page.delete_if_unused(env);
        }
    }
}

impl DiskIo {
    fn open(&self) {
        self.0.open_steps.fetch_add(1, SeqCst);
    }

    fn close(&self) {
        self.0.open_steps.fetch_sub(1, SeqCst);
    }

    fn seek(&self, fid: Fid, from: u64, hole: bool) -> Result<u64> {
        let objects = self.0.objects.lock();
        let empty = Vec::new();
        let object = objects.get(&fid).unwrap_or(&empty);
        let rest = object.get(from as usize..).filter(|r| !r.is_empty());
        let none = || Error::new(Errno::ENXIO, "seek", "beyond the end");
        let rest = rest.ok_or_else(none)?;
        let found = rest.iter().position(|b| (*b == 0) == hole).map(|n| from + n as u64);
        match hole {
            true => Ok(found.unwrap_or(object.len() as u64)),
            false => found.ok_or_else(none),
        }
    }
}

impl IoSlice for DiskIo {
    fn layer(&self) -> &'static str {
        "disk"
    }

    fn iter_init(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        assert!(cx.io.is_sub && cx.io.moved == 0);
        self.open();
        self.0.check(At::IterInit)
    }

    fn lock(&mut self, _: &mut IoCx<'_>) -> Result<()> {
        self.0.check(At::Lock)
    }

    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        self.0.check(At::Start)?;
        let fid = cx.io.object.fid();
        match cx.io.kind {
            IoKind::Truncate { size } => {
                self.0.objects.lock().entry(fid).or_default().resize(size as usize, 0);
                cx.io.object.attr_modify(AttrMask::SIZE | AttrMask::KMS, |a| (a.size, a.kms) = (size, size));
            }
            IoKind::Punch => {
                let Extent { start, end } = cx.io.iteration;
                let mut objects = self.0.objects.lock();
                let object = objects.entry(fid).or_default();
                let len = object.len();
                object[len.min(start as usize)..len.min(end as usize)].fill(0);
            }
            IoKind::Fsync => self.0.synced.lock().push((fid, cx.io.iteration)),
            IoKind::Seek { hole } => cx.io.found = Some(self.seek(fid, cx.io.pos, hole)?),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, cx: &mut IoCx<'_>) {
        if let Err(e) = self.0.check(At::End) {
            cx.io.fail(e);
        }
    }

    fn iter_fini(&mut self, _: &mut IoCx<'_>) {
        self.close();
    }

    fn fini(self: Box<Self>, _: &Env, _: &mut clio_core::io::IoCommon) {
        self.0.sub_ios_now.fetch_sub(1, SeqCst);
    }

    fn submit(&mut self, cx: &mut IoCx<'_>, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        self.0.check(At::Submit)?;
        let mut left = PageList::new();
        for span in std::mem::take(&mut queues.qin).drain() {
            let moved = span.page.prep(cx.env, cx.io.id, rw, span.blocks)?;
            if moved.is_empty() {
                left.push(span.page, span.blocks);
                continue;
            }
            if let Some(sync) = &queues.sync {
                span.page.notify(moved, sync);
            }
            let mut bulk = Bulk::new();
            span.page.bulk(rw, moved, &mut bulk);
            self.0.transfer(span.page.fid(), rw, &bulk);
            span.page.completion(cx.env, rw, moved, &Ok(()));
            queues.qout.push(span.page, moved);
        }
        queues.qin = left;
        Ok(())
    }

    fn commit(&mut self, cx: &mut IoCx<'_>, pages: &mut PageList) -> Result<()> {
        self.0.check(At::Commit)?;
        for span in pages.iter() {
            assert!(span.page.extent().overlaps(cx.io.iteration), "{:?} {:?}", span.page, cx.io.iteration);
            cx.io.object.attrs().raise(cx.io.iteration.end.min(span.page.extent().end), 1);
        }
        if self.0.no_quota.load(SeqCst) {
            return Ok(());
        }
        for span in pages.drain() {
            let (moved, _) = span.page.make_ready(cx.env, span.blocks, true);
            let mut bulk = Bulk::new();
            span.page.bulk(Rw::Write, moved, &mut bulk);
            self.0.transfer(span.page.fid(), Rw::Write, &bulk);
            span.page.completion(cx.env, Rw::Write, moved, &Ok(()));
        }
        Ok(())
    }

    fn direct(&mut self, cx: &mut IoCx<'_>, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        self.0.check(At::Direct)?;
        sync.expect(1);
        self.0.transfer(cx.io.object.fid(), rw, bulk);
        if rw == Rw::Write {
            let end = bulk.iter().map(|s| s.extent().end).max().unwrap_or(0);
            cx.io.object.attrs().raise(end, 1);
        }
        sync.note(1, &Ok(()));
        Ok(())
    }

    fn read_ahead(&mut self, _: &mut IoCx<'_>, offset: u64) -> Result<Extent> {
        Ok(Extent::new(offset, offset))
    }
}
