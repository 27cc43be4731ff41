//! A client with one file.

use super::disk::{Disk, DiskDevice};
use super::top::{Buffer, Top};
use crate::device::{LayoutSource, LovDevice};
use crate::layout::{FileLayout, Layout, RoundRobin, TargetSpace, Targets};
use crate::object::{LovObject, LovSlice};
use clio_arena::Arena;
use clio_core::Result;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{Io, IoCommon, IoKind};
use clio_core::lock::{LockDescr, LockState};
use clio_core::memory::PageMemory;
use clio_core::object::{Device, Object, ObjectBuilder, ObjectConf, ObjectRef, Site, SiteLimits};
use clio_core::page::FolioSlab;
use clio_core::sync::Mutex;
use clio_core::target::LockMode;
use clio_core::units::{Extent, Fid, TargetIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

pub(super) const KIB: u64 = 1 << 10;
/// Stripe size of most tests.
pub(super) const UNIT: u64 = 64 * KIB;
pub(super) const TARGETS: u16 = 4;

/// Layouts of one file.
pub(super) struct Layouts {
    pub(super) layout: Mutex<FileLayout>,
    targets: Targets,
    pub(super) asked: AtomicUsize,
}

impl Layouts {
    pub(super) fn fill(&self, extent: Extent) -> Arc<[u8]> {
        let mut layout = self.layout.lock();
        layout.instantiate(extent, &self.targets, &mut RoundRobin::default()).expect("targets");
        layout.encode().into()
    }
}

impl LayoutSource for Layouts {
    fn current(&self, _: Fid) -> Result<Arc<[u8]>> {
        self.asked.fetch_add(1, SeqCst);
        Ok(self.layout.lock().encode().into())
    }

    fn instantiate(&self, _: Fid, extent: Extent) -> Result<Arc<[u8]>> {
        self.asked.fetch_add(1, SeqCst);
        Ok(self.fill(extent))
    }
}

/// Keeps the slice that the device makes.
struct Spy {
    lov: Arc<LovDevice>,
    made: Mutex<Option<Arc<LovObject>>>,
}

impl Device for Spy {
    fn layer(&self) -> &'static str {
        "lov"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        let made = self.lov.make(builder)?;
        *self.made.lock() = Some(made.clone());
        builder.push(Box::new(LovSlice(made)));
        Ok(())
    }
}

/// A client.
pub(super) struct World {
    pub(super) env: Env,
    pub(super) site: Arc<Site>,
    pub(super) disk: Arc<Disk>,
    pub(super) layouts: Arc<Layouts>,
    pub(super) memory: Arc<dyn PageMemory>,
    pub(super) top: ObjectRef,
    pub(super) lov: Arc<LovObject>,
    pub(super) seen: Arc<Mutex<Vec<Extent>>>,
}

pub(super) const FID: Fid = Fid::new(7, 1);

/// A store's targets, all usable.
pub(super) fn targets() -> Targets {
    Targets::new((0..TARGETS).map(|i| TargetSpace { index: TargetIndex(i), total: 100, free: 100, usable: true }))
}

/// A layout of `count` stripes of [`UNIT`] bytes.
pub(super) fn raid0(count: u16) -> Layout {
    Layout::raid0().stripe_size(UNIT).stripe_count(count)
}

impl World {
    /// A client with a new file; its components have no targets yet.
    pub(super) fn new(layout: &Layout) -> World {
        let layout = Mutex::new(FileLayout::new(layout).expect("layout"));
        let layouts = Arc::new(Layouts { layout, targets: targets(), asked: AtomicUsize::new(0) });
        Self::on(Arc::new(Disk::default()), layouts)
    }

    /// A client with a new file with all its components.
    pub(super) fn full(layout: &Layout) -> World {
        let layout = Mutex::new(FileLayout::new(layout).expect("layout"));
        let layouts = Arc::new(Layouts { layout, targets: targets(), asked: AtomicUsize::new(0) });
        layouts.fill(Extent::WHOLE);
        Self::on(Arc::new(Disk::default()), layouts)
    }

    /// Another client.
    pub(super) fn on(disk: Arc<Disk>, layouts: Arc<Layouts>) -> World {
        let memory: Arc<dyn PageMemory> = Arc::new(Arena::private(64 << 20).expect("memory"));
        let site = Site::new(SiteLimits::default(), FolioSlab::new(memory.clone()));
        Self::in_site(site, memory, disk, layouts)
    }

    /// The file in a site where it isn't, or is dying.
    pub(super) fn in_site(
        site: Arc<Site>,
        memory: Arc<dyn PageMemory>,
        disk: Arc<Disk>,
        layouts: Arc<Layouts>,
    ) -> World {
        let subs = (0..TARGETS).map(|_| Arc::new(DiskDevice(disk.clone())) as Arc<dyn Device>).collect();
        let spy = Spy { lov: LovDevice::new(subs, layouts.clone()), made: Mutex::default() };
        let env = Env::get(EnvTags::ANY);
        let conf = ObjectConf { layout: Some(layouts.layout.lock().encode().into()), ..ObjectConf::default() };
        let top = site.find(&env, FID, &spy, &conf).expect("object");
        let lov = spy.made.lock().take().expect("made");
        World { env, site, disk, layouts, memory, top, lov, seen: Arc::default() }
    }

    pub(super) fn object(&self) -> &Arc<Object> {
        self.top.object()
    }

    /// An IO with buffers.
    pub(super) fn io(&self, kind: IoKind, pos: u64, buffer: &Buffer, prime: impl FnOnce(&mut IoCommon)) -> Result<Io> {
        self.failing_io(kind, pos, buffer, None, prime)
    }

    pub(super) fn failing_io(
        &self,
        kind: IoKind,
        pos: u64,
        buffer: &Buffer,
        fail_in: Option<usize>,
        prime: impl FnOnce(&mut IoCommon),
    ) -> Result<Io> {
        let len = buffer.lock().len() as u64;
        let mut io = Io::with(&self.env, self.object(), kind, pos, len, prime)?;
        self.seen.lock().clear();
        io.push_top(Box::new(Top {
            buffer: buffer.clone(),
            base: pos,
            memory: self.memory.clone(),
            fail_in,
            iteration: 0,
            seen: self.seen.clone(),
        }));
        Ok(io)
    }

    /// Reads, without a look at the targets' sizes.
    pub(super) fn read(&self, pos: u64, len: u64) -> Result<Vec<u8>> {
        self.read_as(pos, len, false)
    }

    pub(super) fn read_as(&self, pos: u64, len: u64, direct: bool) -> Result<Vec<u8>> {
        let buffer = Buffer::new(Mutex::new(vec![0xEE; len as usize]));
        let mut io = self.io(IoKind::Read, pos, &buffer, |c| c.direct = direct)?;
        let n = clio_io_loop::run(&self.env, &mut io)?;
        let mut buffer = std::mem::take(&mut *buffer.lock());
        buffer.truncate(n as usize);
        Ok(buffer)
    }

    pub(super) fn write(&self, pos: u64, data: &[u8]) -> Result<u64> {
        self.write_as(IoKind::Write { append: false }, pos, data, false)
    }

    pub(super) fn write_as(&self, kind: IoKind, pos: u64, data: &[u8], direct: bool) -> Result<u64> {
        let buffer = Buffer::new(Mutex::new(data.to_vec()));
        let mut io = self.io(kind, pos, &buffer, |c| c.direct = direct)?;
        if direct {
            // As the layer that caches does.
            self.top.prune(&self.env, false)?;
        }
        clio_io_loop::run(&self.env, &mut io)
    }

    /// An IO without data; what it found.
    pub(super) fn do_plain(&self, kind: IoKind, pos: u64, count: u64) -> Result<Option<u64>> {
        let buffer = Buffer::default();
        let mut io = self.io(kind, pos, &buffer, |c| {
            c.count = count;
            c.iteration = Extent::with_len(pos, count);
        })?;
        clio_io_loop::run(&self.env, &mut io)?;
        Ok(io.common.found)
    }

    pub(super) fn truncate(&self, size: u64) -> Result<()> {
        self.do_plain(IoKind::Truncate { size }, 0, 0).map(drop)
    }

    pub(super) fn size(&self) -> u64 {
        self.top.attr_get(&self.env).expect("attributes").size
    }

    pub(super) fn sub(&self, component: u16, stripe: u16) -> Arc<Object> {
        self.site.lookup(FID.sub_object(component, stripe)).expect("sub-object").object().clone()
    }

    /// That nothing of an IO is left.
    pub(super) fn assert_idle(&self) {
        assert_eq!(self.disk.sub_ios_now.load(SeqCst), 0, "sub-IOs");
        assert_eq!(self.disk.open_steps.load(SeqCst), 0, "iterations of sub-IOs");
        assert_eq!(self.lov.change().holes(), 0);
        for object in self.site.objects() {
            for lock in object.locks().all() {
                assert_eq!(lock.counts(), (0, 0), "{lock:?}");
                assert!(matches!(lock.state(), LockState::Cached | LockState::New), "{lock:?}");
            }
            for page in object.pages().range(0..u64::MAX, usize::MAX) {
                assert!(page.in_flight().is_empty() && page.try_own(clio_core::io::IoId(0)).is_some(), "{page:?}");
            }
        }
    }
}

/// What to ask of a file.
pub(super) fn need(start: u64, end: u64, mode: LockMode) -> LockDescr {
    LockDescr { extent: Extent::new(start, end), mode, flags: Default::default(), demand: Default::default() }
}

/// Bytes that tell where they belong.
pub(super) fn pattern(pos: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; (pos % 512 + len) as usize];
    for (chunk, number) in bytes.chunks_mut(512).zip(pos / 512..) {
        chunk.fill((number % 251 + 1) as u8);
    }
    bytes.split_off((pos % 512) as usize)
}
