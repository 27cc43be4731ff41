//! The IO slice: locks for each kind of IO, and the way between the caller's buffer and the pages.

use clio_core::env::Env;
use clio_core::io::{IoCx, IoKind, IoSlice, LockDemand};
use clio_core::lock::LockDescr;
use clio_core::page::{OwnedPage, Page, PageList, PageQueues, Rw, SyncIo, WriteRefusal};
use clio_core::sync::Mutex;
use clio_core::target::{EnqueueFlags, LockMode};
use clio_core::units::{BlockSet, Extent};
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// How often a read whose blocks are taken away before they are copied fetches them again.
const MAX_FETCHES: usize = 64;

/// Folios written before they are handed down to be staged.
const BATCH: usize = 16;

/// The bytes that an IO moves, shared with its caller.
pub(crate) type Buffer = Arc<Mutex<Vec<u8>>>;

/// Echo's part of an IO.
pub(crate) struct EchoIo {
    buffer: Buffer,
    /// Where in the object the buffer starts.
    base: u64,
    /// How locks are asked for.
    flags: EnqueueFlags,
}

impl EchoIo {
    pub(crate) fn new(buffer: Buffer, base: u64, flags: EnqueueFlags) -> Self {
        Self { buffer, base, flags }
    }

    fn write(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let range = cx.io.iteration;
        let data = std::mem::take(&mut *self.buffer.lock());
        let mut staged = PageList::new();
        let mut result = Ok(());
        let mut at = range.start;
        while at < range.end && result.is_ok() {
            let end = page_end(cx, at).min(range.end);
            let bytes = &data[(at - self.base) as usize..(end - self.base) as usize];
            result = write_page(cx, at, bytes, &mut staged);
            if result.is_ok() && staged.len() >= BATCH {
                result = hand_down(cx, &mut staged);
            }
            if result.is_ok() {
                at = end;
            }
        }
        // What was written is dirty: it must be staged whatever happened after.
        let last = hand_down(cx, &mut staged);
        *self.buffer.lock() = data;
        // Which part failed isn't known here.
        cx.io.moved = if last.is_ok() { at - range.start } else { 0 };
        result.and(last)
    }

    fn read(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let range = cx.io.iteration;
        let end = range.end.min(size_at(cx, range)?.max(range.start));
        let mut buffer = self.buffer.lock();
        let mut at = range.start;
        while at < end {
            let to = page_end(cx, at).min(end);
            let bytes = &mut buffer[(at - self.base) as usize..(to - self.base) as usize];
            read_page(cx, at, bytes)?;
            at = to;
            cx.io.moved = at - range.start;
        }
        Ok(())
    }
}

/// Size of the object, as far as a read of `range` has to know it.
fn size_at(cx: &IoCx<'_>, range: Extent) -> Result<u64> {
    let object = cx.io.object.clone();
    if range.end <= object.attrs().kms() {
        return Ok(range.end);
    }
    let to_eof = cx.io.lockset.held(object.fid()).any(|d| d.extent.end == Extent::EOF && d.extent.start <= range.start);
    if to_eof && object.attrs().kms() >= range.start {
        return Ok(object.attrs().kms());
    }
    Ok(object.glimpse(cx.env)?.size)
}

fn page_end(cx: &IoCx<'_>, at: u64) -> u64 {
    let folio = cx.io.object.folio_size();
    (at / folio + 1) * folio
}

fn own(cx: &IoCx<'_>, at: u64, len: usize) -> Result<(OwnedPage, BlockSet)> {
    loop {
        let page = Page::find(cx.env, &cx.io.object, cx.io.object.folio_of(at))?;
        let blocks = page.blocks_of(Extent::with_len(at, len as u64));
        if let Some(owned) = page.own_idle(cx.io.id, blocks) {
            return Ok((owned, blocks));
        }
    }
}

/// Writes within one folio.
fn write_page(cx: &mut IoCx<'_>, at: u64, bytes: &[u8], staged: &mut PageList) -> Result<()> {
    loop {
        let (owned, _) = own(cx, at, bytes.len())?;
        let page = owned.page().clone();
        // Without a lock, nothing is known of what lies beyond.
        let known = if cx.io.demand == LockDemand::Never { u64::MAX } else { cx.io.object.attrs().kms() };
        let eof = known.saturating_sub(page.offset());
        match owned.write((at - page.offset()) as usize, bytes, eof) {
            Ok(blocks) => {
                drop(owned);
                staged.push(page, blocks);
                return Ok(());
            }
            Err(WriteRefusal::Fragmented(b)) => {
                let mut block = BlockSet::EMPTY;
                block.insert(b);
                transfer(cx, Rw::Write, owned, block)?;
            }
            Err(WriteRefusal::NotNow) => {
                drop(owned);
                page.wait_idle(page.all_blocks());
            }
            Err(WriteRefusal::NoMemory) => {
                drop(owned);
                hand_down(cx, staged)?;
                make_room(cx.env, cx)?;
            }
        }
    }
}

/// Drops clean pages of the object to get memory.
fn make_room(env: &Env, cx: &IoCx<'_>) -> Result<()> {
    let pages = cx.io.object.pages().range(0..u64::MAX, usize::MAX);
    let evicted = pages.iter().filter(|p| p.evict(env)).count();
    if evicted == 0 {
        return Err(Error::new(Errno::ENOMEM, "write", "no page memory, and nothing clean to drop"));
    }
    Ok(())
}

/// Stages what was written; what finds no quota goes out at once. Nothing is owned meanwhile.
fn hand_down(cx: &mut IoCx<'_>, staged: &mut PageList) -> Result<()> {
    if staged.is_empty() {
        return Ok(());
    }
    let committed = if cx.io.direct || cx.io.dsync { Ok(()) } else { cx.commit(staged) };
    let mut result = committed;
    for span in staged.drain() {
        if let Some(owned) = span.page.own_idle(cx.io.id, span.blocks) {
            let sent = transfer(cx, Rw::Write, owned, span.blocks);
            result = result.and(sent);
        }
    }
    result
}

/// Transfers blocks of one page now, and waits for it without owning the page.
fn transfer(cx: &mut IoCx<'_>, rw: Rw, owned: OwnedPage, blocks: BlockSet) -> Result<()> {
    let sync = SyncIo::new();
    let mut queues = PageQueues { sync: Some(sync.clone()), ..PageQueues::default() };
    queues.qin.push(owned.page().clone(), blocks);
    let submitted = cx.submit(rw, &mut queues);
    drop(owned);
    let waited = sync.wait();
    submitted.and(waited)
}

/// Reads within one folio.
fn read_page(cx: &mut IoCx<'_>, at: u64, bytes: &mut [u8]) -> Result<()> {
    for _ in 0..MAX_FETCHES {
        let (owned, blocks) = own(cx, at, bytes.len())?;
        let page = owned.page().clone();
        // Written in part: the rest of the block is at the target, and can be fetched once ours is there, too.
        let partial = page.dirty().minus(page.valid()).and(blocks);
        if !partial.is_empty() {
            transfer(cx, Rw::Write, owned, partial)?;
            continue;
        }
        if !page.valid().covers(blocks) {
            transfer(cx, Rw::Read, owned, blocks)?;
        } else {
            drop(owned);
        }
        if page.read((at - page.offset()) as usize, bytes) {
            return Ok(());
        }
    }
    Err(Error::new(Errno::EIO, "read", "the pages kept being taken away; try again").on(cx.io.object.fid()))
}

impl IoSlice for EchoIo {
    fn layer(&self) -> &'static str {
        "echo"
    }

    fn lock(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let range = cx.io.iteration.align_to_blocks();
        let (extent, mode) = match cx.io.kind {
            IoKind::Read => (range, LockMode::Pr),
            IoKind::Write { append: true } => (Extent::WHOLE, LockMode::Pw),
            IoKind::Write { append: false } | IoKind::Punch => (range, LockMode::Pw),
            IoKind::Truncate { size } => (Extent::new(size, Extent::EOF).align_to_blocks(), LockMode::Pw),
            IoKind::Seek { .. } => (Extent::new(cx.io.pos, Extent::EOF).align_to_blocks(), LockMode::Pr),
            IoKind::Fault { .. } | IoKind::Fsync | IoKind::Advise { .. } | IoKind::Misc => return Ok(()),
        };
        if cx.io.demand != LockDemand::Never && !extent.is_empty() {
            let demand = cx.io.demand;
            let flags = EnqueueFlags { mandatory: demand == LockDemand::Mandatory, ..self.flags };
            let object = cx.io.object.clone();
            cx.io.lockset.add(&object, LockDescr { extent, mode, flags, demand });
        }
        Ok(())
    }

    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        match cx.io.kind {
            IoKind::Write { append } => {
                if append {
                    // Under a lock on everything, KMS is the size.
                    let size = cx.io.object.attrs().kms();
                    cx.io.iteration = Extent::with_len(size, cx.io.iteration.len());
                    self.base = size;
                }
                self.write(cx)
            }
            IoKind::Read => self.read(cx),
            _ => Ok(()),
        }
    }
}
