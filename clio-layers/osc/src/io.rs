//! The IO slice: transfers, and the kinds of IO that a target does by itself.

use crate::call::Call;
use crate::commit::write_time;
use crate::device::OscDevice;
use crate::rpc::evicted;
use crate::state::ObjectKey;
use clio_core::attr::AttrMask;
use clio_core::env::Env;
use clio_core::error::{Errno, Result};
use clio_core::io::{IoCommon, IoCx, IoId, IoKind, IoSlice};
use clio_core::object::Object;
use clio_core::page::{PageList, PageQueues, Rw, SyncIo};
use clio_core::target::{Bulk, Op, Reply};
use clio_core::units::{BLOCK_SIZE, Extent};
use std::sync::Arc;

/// The OSC's part of an IO.
pub(crate) struct OscIo {
    device: Arc<OscDevice>,
    key: ObjectKey,
    /// What was asked of the target in `start` and is waited for in `end`.
    call: Option<Call>,
}

impl OscIo {
    pub(crate) fn new(device: &Arc<OscDevice>, key: ObjectKey) -> Self {
        Self { device: device.clone(), key, call: None }
    }

    /// The answer to what `start` asked; an error is the IO's.
    fn answer(&mut self, io: &mut IoCommon) -> Option<Reply> {
        match self.device.wait_call(&self.call.take()?) {
            Ok(reply) => Some(reply),
            // The lock that it was asked under is gone.
            Err(e) if e.errno() == Errno::ESTALE => {
                io.fail(evicted().with_cause(e).on(io.object.fid()));
                None
            }
            Err(e) => {
                io.fail(e.on(io.object.fid()));
                None
            }
        }
    }

    /// Asks for a punch or a truncate, under the lock that covers it, so that the target refuses it if that is lost.
    fn ask_punch(&mut self, object: &Arc<Object>, extent: Extent) {
        let pieces = self.device.locks.pieces(self.key, extent);
        let lock = pieces.first().filter(|_| pieces.len() == 1).and_then(|(lock, _)| *lock);
        let op = Op::Punch { fid: object.fid(), extent, lock, mtime: write_time(object) };
        self.call = Some(self.device.begin_call(op));
    }

    fn end_truncate(&mut self, io: &mut IoCommon, size: u64) {
        if self.answer(io).is_none() {
            // The target may have done it, and its answer be lost. Nobody else can change the end: it says what is so.
            if let Ok(Reply::Attr(now)) = self.device.call(Op::GetAttr(io.object.fid())) {
                io.object.attr_modify(AttrMask::SIZE | AttrMask::KMS, |a| (a.size, a.kms) = (now.size, now.size));
            }
        } else {
            let now = write_time(&io.object);
            io.object.attr_modify(AttrMask::SIZE | AttrMask::KMS | AttrMask::MTIME | AttrMask::CTIME, |a| {
                (a.size, a.kms) = (size, size);
                a.mtime = a.mtime.max(now);
                a.ctime = a.ctime.max(now);
            });
        }
    }

    fn end_punch(&mut self, io: &mut IoCommon) {
        let punched = self.answer(io).is_some();
        // Also after a failure: what the target has is not known then.
        self.device.forget_clean(io.id, &io.object, io.iteration.align_to_blocks());
        if punched {
            io.object.attrs().raise(0, write_time(&io.object));
        }
    }

    fn end_fsync(&mut self, env: &Env, io: &mut IoCommon) {
        self.device.flush(env, self.key, io.iteration, false);
        if let Err(e) = self.device.call(Op::Sync(io.object.fid())) {
            io.fail(e.on(io.object.fid()));
        }
    }

    fn end_seek(&mut self, io: &mut IoCommon) {
        let Some(call) = self.call.take() else { return };
        match self.device.wait_call(&call) {
            Ok(Reply::Offset(at)) => io.found = Some(at),
            Ok(_) => {}
            Err(e) if e.errno() == Errno::ENXIO => {}
            Err(e) => io.fail(e.on(io.object.fid())),
        }
    }
}

impl IoSlice for OscIo {
    fn layer(&self) -> &'static str {
        "osc"
    }

    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        let fid = cx.io.object.fid();
        match cx.io.kind {
            IoKind::Truncate { size } => {
                self.device.cut(cx.env, cx.io.id, self.key, &cx.io.object, size);
                let extent = Extent::new(size, Extent::EOF);
                self.ask_punch(&cx.io.object, extent);
            }
            IoKind::Punch => {
                let extent = cx.io.iteration;
                self.device.clear_for_punch(cx.env, self.key, extent, cx.io.object.attrs().kms());
                self.ask_punch(&cx.io.object, extent);
            }
            IoKind::Fsync => {
                self.device.lock_state().make_urgent(self.key, cx.io.iteration);
                self.device.pump(cx.env);
            }
            IoKind::Seek { hole } => {
                self.device.flush(cx.env, self.key, Extent::new(cx.io.pos, Extent::EOF), false);
                self.call = Some(self.device.begin_call(Op::Seek { fid, offset: cx.io.pos, hole }));
            }
            IoKind::Read | IoKind::Write { .. } | IoKind::Fault { .. } | IoKind::Advise { .. } | IoKind::Misc => {}
        }
        Ok(())
    }

    fn end(&mut self, cx: &mut IoCx<'_>) {
        match cx.io.kind {
            IoKind::Truncate { size } => self.end_truncate(cx.io, size),
            IoKind::Punch => self.end_punch(cx.io),
            IoKind::Fsync => self.end_fsync(cx.env, cx.io),
            IoKind::Seek { .. } => self.end_seek(cx.io),
            IoKind::Read | IoKind::Write { .. } | IoKind::Fault { .. } | IoKind::Advise { .. } | IoKind::Misc => {}
        }
    }

    fn submit(&mut self, cx: &mut IoCx<'_>, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        self.device.submit(cx.env, cx.io, self.key, rw, queues)
    }

    fn commit(&mut self, cx: &mut IoCx<'_>, pages: &mut PageList) -> Result<()> {
        self.device.commit(cx.env, cx.io, self.key, pages)
    }

    fn direct(&mut self, cx: &mut IoCx<'_>, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        self.device.direct(cx.env, cx.io, self.key, rw, bulk, sync);
        Ok(())
    }

    fn read_ahead(&mut self, cx: &mut IoCx<'_>, offset: u64) -> Result<Extent> {
        Ok(self.device.covered(cx.io, offset))
    }
}

impl OscDevice {
    /// Cuts what is cached at `size`: pages beyond go without being written, what is on its way is waited for, and the
    /// rest of the block that holds the new end becomes zeros.
    fn cut(self: &Arc<Self>, env: &Env, io: IoId, key: ObjectKey, object: &Arc<Object>, size: u64) {
        let from = size / BLOCK_SIZE * BLOCK_SIZE;
        let affected = Extent::new(from, Extent::EOF);
        let gone = Extent::new(size.next_multiple_of(BLOCK_SIZE), Extent::EOF);
        self.drop_dirty(env, key, gone);
        self.lock_state().heat(key, affected);
        self.pump(env);
        self.wait_moving(key, affected);
        self.invalidate(env, object, gone, &[]);
        let at = (size % object.folio_size()) as usize;
        let page = object.pages().get(object.folio_of(size)).filter(|_| !size.is_multiple_of(BLOCK_SIZE));
        let Some(page) = page else { return };
        if let Some(owned) = page.own_idle(io, page.blocks_of(affected)) {
            owned.truncate(at);
        }
    }

    /// Before a punch: whole blocks within need not be written; the blocks at its ends are, and the block that holds the
    /// last byte of the object, as its size is known to the target by that alone.
    fn clear_for_punch(self: &Arc<Self>, env: &Env, key: ObjectKey, extent: Extent, kms: u64) {
        let last = extent.end.min(kms.saturating_sub(1)) / BLOCK_SIZE * BLOCK_SIZE;
        let whole = Extent::new(extent.start.next_multiple_of(BLOCK_SIZE), last);
        if !whole.is_empty() {
            self.drop_dirty(env, key, whole);
        }
        self.flush(env, key, extent.align_to_blocks(), false);
    }

    /// Forgets what is cached of `extent`, but not what was dirtied meanwhile.
    fn forget_clean(&self, io: IoId, object: &Arc<Object>, extent: Extent) {
        let folio = object.folio_size();
        let (mut next, end) = (extent.start / folio, extent.end.div_ceil(folio));
        loop {
            let pages = object.pages().range(next..end, 64);
            let Some(last) = pages.last() else { return };
            next = last.index().0 + 1;
            for page in pages {
                let blocks = page.blocks_of(extent);
                if let Some(owned) = page.own_idle(io, blocks) {
                    owned.forget(blocks.minus(page.dirty()));
                }
            }
        }
    }
}
