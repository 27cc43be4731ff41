//! A minimal POSIX layer: buffers in and out of pages, sizes, locks.

use clio_core::attr::AttrMask;
use clio_core::io::{IoCx, IoKind, IoSlice, LockDemand};
use clio_core::lock::LockDescr;
use clio_core::memory::PageMemory;
use clio_core::page::{Page, PageList, PageQueues, Rw, SyncIo};
use clio_core::sync::Mutex;
use clio_core::target::{Bulk, BulkSegment, EnqueueFlags, LockMode};
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// What is read to, or written from: all of the IO.
pub(super) type Buffer = Arc<Mutex<Vec<u8>>>;

/// The slice on top of a file's.
pub(super) struct Top {
    pub(super) buffer: Buffer,
    /// File offset of the buffer's first byte.
    pub(super) base: u64,
    pub(super) memory: Arc<dyn PageMemory>,
    /// Fails at the start of this iteration.
    pub(super) fail_in: Option<usize>,
    pub(super) iteration: usize,
    /// The iterations, for tests.
    pub(super) seen: Arc<Mutex<Vec<Extent>>>,
}

impl Top {
    fn range(&self, extent: Extent) -> std::ops::Range<usize> {
        (extent.start - self.base) as usize..(extent.end - self.base) as usize
    }

    fn read(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let size = cx.io.object.attr_get(cx.env)?.size;
        let it = cx.io.iteration;
        let part = Extent::new(it.start, it.end.min(size));
        if part.end < it.end || it.is_empty() {
            cx.io.finished = true;
        }
        let range = self.range(part);
        if cx.io.hole {
            self.buffer.lock()[range].fill(0);
        } else if cx.io.direct {
            self.direct(cx, Rw::Read, part)?;
        } else {
            self.read_pages(cx, part)?;
        }
        cx.io.moved = part.len();
        Ok(())
    }

    fn read_pages(&mut self, cx: &mut IoCx<'_>, part: Extent) -> Result<()> {
        let size = cx.io.object.folio_size();
        let mut at = part.start;
        while at < part.end {
            let page = Page::find(cx.env, &cx.io.object.clone(), cx.io.object.folio_of(at))?;
            let piece = page.extent().intersect(part);
            let blocks = page.blocks_of(piece);
            let sync = SyncIo::new();
            if let Some(owned) = page.own_idle(cx.io.id, blocks) {
                let mut queues = PageQueues { sync: Some(sync.clone()), ..PageQueues::default() };
                queues.qin.push(page.clone(), blocks);
                cx.submit(Rw::Read, &mut queues)?;
                drop(owned);
                sync.wait()?;
            }
            let range = self.range(piece);
            if !page.read((piece.start % size) as usize, &mut self.buffer.lock()[range]) {
                continue;
            }
            at = piece.end;
        }
        Ok(())
    }

    fn write(&mut self, cx: &mut IoCx<'_>, append: bool) -> Result<()> {
        // With the locks, the targets have told their sizes: the merge of them says what is there to be kept.
        let object = cx.io.object.clone();
        let seen = object.attrs().load();
        let attr = object.attr_get(cx.env)?;
        object.attrs().settle(&seen, attr.size.max(attr.kms), attr.kms);
        let size = attr.size;
        if append {
            self.base = size;
            cx.io.pos = size;
            cx.io.iteration = Extent::with_len(size, self.buffer.lock().len() as u64);
        }
        let it = cx.io.iteration;
        if cx.io.direct {
            self.direct(cx, Rw::Write, it)?;
        } else {
            self.write_pages(cx, it)?;
        }
        cx.io.object.attrs().raise(it.end, 1);
        cx.io.moved = it.len();
        Ok(())
    }

    fn write_pages(&mut self, cx: &mut IoCx<'_>, it: Extent) -> Result<()> {
        let mut list = PageList::new();
        let mut at = it.start;
        while at < it.end {
            let page = Page::find(cx.env, &cx.io.object.clone(), cx.io.object.folio_of(at))?;
            let piece = page.extent().intersect(it);
            let eof = cx.io.object.attrs().kms().saturating_sub(page.offset());
            let Some(owned) = page.own_idle(cx.io.id, page.blocks_of(piece)) else { continue };
            let range = self.range(piece);
            let touched = owned.write((piece.start - page.offset()) as usize, &self.buffer.lock()[range], eof);
            let touched = touched.map_err(|e| Error::new(Errno::ENOMEM, "write", format!("{e:?}")))?;
            drop(owned);
            list.push(page, touched);
            at = piece.end;
        }
        let committed = cx.commit(&mut list);
        if let Err(e) = committed {
            for span in list.drain() {
                span.page.discard(cx.env, span.blocks);
            }
            return Err(e);
        }
        let sync = SyncIo::new();
        for span in list.drain() {
            let Some(owned) = span.page.own_idle(cx.io.id, span.blocks) else { continue };
            let mut queues = PageQueues { sync: Some(sync.clone()), ..PageQueues::default() };
            queues.qin.push(span.page.clone(), span.blocks);
            cx.submit(Rw::Write, &mut queues)?;
            assert_eq!(queues.qout.len(), 1);
            drop(owned);
        }
        sync.wait()
    }

    fn direct(&mut self, cx: &mut IoCx<'_>, rw: Rw, part: Extent) -> Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let len = 1 << 20;
        let mut at = part.start;
        while at < part.end {
            let n = (part.end - at).min(1 << 20);
            let mem = self.memory.alloc(len).ok_or_else(|| Error::new(Errno::ENOMEM, "test", "memory"))?;
            let range = self.range(Extent::with_len(at, n));
            let piece = mem.slice(0..n as usize);
            if rw == Rw::Write {
                piece.write_at(0, &self.buffer.lock()[range.clone()]);
            }
            let sync = SyncIo::new();
            let bulk = Bulk::from_iter([BulkSegment { offset: at, mem: piece }]);
            let started = cx.direct(rw, &bulk, &sync);
            let ended = sync.wait();
            if rw == Rw::Read {
                piece.read_at(0, &mut self.buffer.lock()[range]);
            }
            self.memory.free(mem);
            started.and(ended)?;
            at += n;
        }
        Ok(())
    }
}

impl IoSlice for Top {
    fn layer(&self) -> &'static str {
        "top"
    }

    fn lock(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        self.seen.lock().push(cx.io.iteration);
        if cx.io.demand == LockDemand::Never {
            return Ok(());
        }
        let whole = matches!(cx.io.kind, IoKind::Truncate { .. } | IoKind::Write { append: true });
        let extent = if whole { Extent::WHOLE } else { cx.io.iteration.align_to_blocks() };
        if extent.is_empty() {
            return Ok(());
        }
        let mode = if cx.io.writes() { LockMode::Pw } else { LockMode::Pr };
        let flags = EnqueueFlags { mandatory: whole, ..EnqueueFlags::default() };
        let object = cx.io.object.clone();
        cx.io.lockset.add(&object, LockDescr { extent, mode, flags, demand: cx.io.demand });
        Ok(())
    }

    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        self.iteration += 1;
        if self.fail_in == Some(self.iteration) {
            return Err(Error::new(Errno::EIO, "top", "told to fail"));
        }
        match cx.io.kind {
            IoKind::Read => self.read(cx),
            IoKind::Write { append } => self.write(cx, append),
            _ => Ok(()),
        }
    }

    fn end(&mut self, cx: &mut IoCx<'_>) {
        let object = cx.io.object.clone();
        let cut = match cx.io.kind {
            IoKind::Truncate { size } if cx.io.error().is_none() => {
                object.attr_modify(AttrMask::SIZE | AttrMask::KMS, |a| (a.size, a.kms) = (size, size));
                Extent::new(size, Extent::EOF)
            }
            IoKind::Punch => cx.io.iteration,
            _ => return,
        };
        // The cache writes through: nothing is lost.
        let size = object.folio_size();
        for page in object.pages().range(cut.start / size..cut.end.div_ceil(size), usize::MAX) {
            page.discard(cx.env, page.blocks_of(cut));
        }
    }
}
