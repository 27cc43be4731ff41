//! This layer's slice of an IO: what each step does for each kind.

mod cut;
mod direct;
mod fault;
mod read;
mod write;

use crate::object::ObjectState;
use crate::read_ahead::ReadAhead;
use crate::transfer::pages_in;
use crate::user::UserMem;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{IoCommon, IoCx, IoKind, IoSlice, LockDemand};
use clio_core::lock::LockDescr;
use clio_core::object::Object;
use clio_core::target::{EnqueueFlags, LockMode};
use clio_core::units::{BLOCK_SIZE, Extent, MAX_FILE_SIZE};
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// Most bytes of the cache that an iteration is busy with at a time.
const MAX_STEP: u64 = 64 << 20;
/// How often a page that others keep taking away, or that finds no memory, is tried again.
const MAX_ATTEMPTS: u32 = 1000;

pub(crate) static VVP_IO: clio_core::env::ContextKey<VvpIo> =
    clio_core::env::ContextKey::new(EnvTags::IO, VvpIo::default);

/// What an entry point gives to its IO.
#[derive(Debug, Default)]
pub(crate) struct VvpIo {
    state: Option<Arc<ObjectState>>,
    /// The caller's buffers.
    mem: UserMem,
    /// File offset that byte 0 of `mem` belongs to.
    origin: u64,
    ahead: Option<Arc<ReadAhead>>,
    /// Whether written pages go out at once: an earlier write failed.
    write_through: bool,
    /// Size of the file, where `start` has found it out.
    size: u64,
    /// Size and KMS before a truncate.
    before: Option<(u64, u64)>,
    /// Whether a truncate or a punch has dropped what was still to be written out.
    dropped_dirty: bool,
    /// What keeps cached writes off the ends of a range that is cut.
    bars: cut::Bars,
}

impl VvpIo {
    /// Fills in a pooled one.
    pub(crate) fn prime(&mut self, state: &Arc<ObjectState>, mem: UserMem, origin: u64) {
        *self = VvpIo { state: Some(state.clone()), mem, origin, ..VvpIo::default() };
    }

    pub(crate) fn read_ahead(&mut self, ahead: &Arc<ReadAhead>) {
        self.ahead = Some(ahead.clone());
    }

    pub(crate) fn write_through(&mut self, on: bool) {
        self.write_through = on;
    }

    fn state(&self) -> Result<Arc<ObjectState>> {
        self.state.clone().ok_or_else(|| Error::new(Errno::EINVAL, "io", "an IO slice was used before it was primed"))
    }

    /// Makes room for an iteration, before any lock is taken. What is only advice is limited to what the cache can hold; the
    /// rest comes to terms with it in steps ([`VvpIo::step_end`]), under one lock.
    fn fit_cache(&self, cx: &mut IoCx<'_>) -> Result<()> {
        let state = self.state()?;
        let it = cx.io.iteration;
        if cx.io.direct || it.is_empty() {
            return Ok(());
        }
        if matches!(cx.io.kind, IoKind::Advise { .. }) {
            cx.io.iteration.end = it.end.min(self.step_end(&cx.io.object, it.start)?);
        }
        let bytes = cx.io.iteration.len().min(MAX_STEP);
        if !state.cache.has_room(bytes) {
            state.cache.reserve(cx.env, Self::missing_bytes(cx.io).min(MAX_STEP));
        }
        Ok(())
    }

    /// Where the step from `start` ends: at a folio's end, after what the cache can hold together with other things.
    fn step_end(&self, object: &Object, start: u64) -> Result<u64> {
        let folio = object.folio_size();
        let most = (self.state()?.cache.limit_bytes() / 4).clamp(folio, MAX_STEP.max(folio));
        Ok(start.saturating_add(most) / folio * folio)
    }

    /// How much more memory the iteration may need: what is cached of it, or lies beyond the end of the file, is not
    /// counted.
    fn missing_bytes(io: &IoCommon) -> u64 {
        let (mut it, size) = (io.iteration, io.object.attrs().size());
        if !io.writes() && size > it.start {
            it = it.intersect(Extent::new(it.start, size));
        }
        let cached = pages_in(&io.object, it).map(|p| p.blocks_of(it).and(p.valid().or(p.dirty())).count() as u64);
        it.len().saturating_sub(cached.sum::<u64>() * BLOCK_SIZE)
    }

    /// Refreshes the file's attributes from the layers below, and returns KMS: the size where the lock held reaches
    /// the end of file.
    fn refresh(cx: &mut IoCx<'_>) -> Result<u64> {
        let object = cx.io.object.clone();
        let seen = object.attrs().load();
        let attr = object.attr_get(cx.env)?;
        object.attrs().settle(&seen, attr.size.max(attr.kms), attr.kms);
        Ok(attr.kms)
    }

    /// The size of the file, as far as it matters to somebody who is interested in bytes up to `end`: under a lock
    /// that reaches the end of file, or for bytes below it, KMS; else the targets are asked.
    fn size_up_to(cx: &mut IoCx<'_>, end: u64) -> Result<u64> {
        let kms = Self::refresh(cx)?;
        if cx.io.hole {
            // Learned when the iteration began; to ask for it now would be to wait for the end of the hole.
            return Ok(kms.max(cx.io.object.attrs().size()));
        }
        if end <= kms || Self::lock_reaches_eof(cx)? {
            return Ok(kms);
        }
        let object = cx.io.object.clone();
        let seen = object.attrs().load();
        let attr = object.glimpse(cx.env)?;
        object.attrs().settle(&seen, attr.size.max(attr.kms), attr.kms);
        Ok(attr.size.max(attr.kms))
    }

    fn lock_reaches_eof(cx: &mut IoCx<'_>) -> Result<bool> {
        let start = cx.io.iteration.start;
        let reaches = |e: Extent| e.end == Extent::EOF && e.contains(start);
        if cx.io.lockset.held(cx.io.object.fid()).any(|d| reaches(d.extent)) {
            return Ok(true);
        }
        cx.read_ahead(start).map(reaches)
    }
}

/// Whether an IO of this kind can do without a lock, where the target takes its own for the time of the request: plain reads
/// and writes. All else relies on what a lock says: of the end of file, of what others have yet to write out, of what stays in
/// the cache.
fn can_go_lockless(kind: &IoKind) -> bool {
    matches!(kind, IoKind::Read | IoKind::Write { append: false } | IoKind::Advise { .. })
}

/// What an iteration has to lock, if anything.
fn lock_need(io: &IoCommon) -> Option<LockDescr> {
    let it = io.iteration.align_to_blocks();
    let demand = if can_go_lockless(&io.kind) { io.demand } else { LockDemand::Mandatory };
    if demand == LockDemand::Never {
        return None;
    }
    let flags = EnqueueFlags { mandatory: demand == LockDemand::Mandatory, ..EnqueueFlags::default() };
    let (mode, extent, flags) = match io.kind {
        IoKind::Read | IoKind::Fault { write: false } => (LockMode::Pr, it, flags),
        IoKind::Write { append: true } | IoKind::Truncate { .. } => (LockMode::Pw, Extent::WHOLE, flags),
        IoKind::Write { .. } | IoKind::Punch | IoKind::Fault { write: true } => (LockMode::Pw, it, flags),
        IoKind::Seek { .. } => (LockMode::Pr, Extent::new(it.start, Extent::EOF), flags),
        IoKind::Advise { will_need: true } => (LockMode::Pr, it, EnqueueFlags { try_lock: true, ..flags }),
        IoKind::Advise { .. } | IoKind::Fsync | IoKind::Misc => return None,
    };
    Some(LockDescr { extent, mode, flags, demand })
}

impl IoSlice for VvpIo {
    fn layer(&self) -> &'static str {
        "vvp"
    }

    fn iter_init(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        match cx.io.kind {
            IoKind::Read | IoKind::Write { .. } | IoKind::Fault { .. } | IoKind::Advise { will_need: true } => {
                self.fit_cache(cx)
            }
            _ => Ok(()),
        }
    }

    fn lock(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        if let Some(need) = lock_need(cx.io) {
            let object = cx.io.object.clone();
            cx.io.lockset.add(&object, need);
        }
        Ok(())
    }

    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        match cx.io.kind {
            IoKind::Read if cx.io.direct => self.direct_read(cx),
            IoKind::Read => self.read(cx),
            IoKind::Write { .. } if cx.io.direct => self.direct_write(cx),
            IoKind::Write { .. } => self.write(cx),
            IoKind::Truncate { size } => self.truncate(cx, size),
            IoKind::Punch => self.punch(cx),
            IoKind::Fault { write } => self.fault(cx, write),
            IoKind::Advise { will_need: true } => self.will_need(cx),
            IoKind::Advise { will_need: false } => self.drop_range(cx),
            IoKind::Seek { .. } => self.seek(cx),
            IoKind::Fsync | IoKind::Misc => {
                cx.io.finished = true;
                Ok(())
            }
        }
    }

    fn end(&mut self, cx: &mut IoCx<'_>) {
        match cx.io.kind {
            IoKind::Truncate { size } => self.truncated(cx, size),
            IoKind::Punch => self.punched(cx),
            IoKind::Seek { hole } => self.sought(cx, hole),
            _ => {}
        }
    }

    fn fini(mut self: Box<Self>, env: &Env, _: &mut IoCommon) {
        *self = VvpIo::default();
        env.give(&VVP_IO, self);
    }
}

impl VvpIo {
    fn seek(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        cx.io.finished = true;
        self.size = Self::size_up_to(cx, Extent::EOF)?;
        if cx.io.pos >= self.size {
            return Err(Error::new(Errno::ENXIO, "seek", "the offset is at or beyond the end of the file"));
        }
        Ok(())
    }

    /// The end of the file is a hole, and no data lies beyond it.
    fn sought(&mut self, cx: &mut IoCx<'_>, hole: bool) {
        if cx.io.error().is_some() {
            return;
        }
        match cx.io.found.filter(|at| *at < self.size) {
            None if hole => cx.io.found = Some(self.size),
            None => cx.io.fail(Error::new(Errno::ENXIO, "seek", "there is no data at or after the offset")),
            Some(_) => {}
        }
    }
}

/// Whether a write of `extent` from so many buffers goes bit by bit into the cache: in between, others could look.
pub(crate) fn is_in_parts(object: &Object, extent: Extent, buffers: usize) -> bool {
    buffers > 1 || object.folio_of(extent.start) != object.folio_of(extent.end.max(extent.start + 1) - 1)
}

/// An offset that `off_t` can express.
///
/// # Errors
/// `EINVAL`.
pub(crate) fn check_offset(op: &'static str, offset: u64) -> Result<()> {
    if offset > MAX_FILE_SIZE {
        let why = format!("offset {offset} is beyond 2^63 - 1, the largest there is; give a smaller one");
        return Err(Error::new(Errno::EINVAL, op, why));
    }
    Ok(())
}

/// How many of `count` bytes at `offset` a write may write: files end at 2^63 - 1.
///
/// # Errors
/// `EFBIG` if that is none.
pub(crate) fn writable(offset: u64, count: u64, max_size: u64) -> Result<u64> {
    let room = max_size.saturating_sub(offset);
    if room == 0 && count > 0 {
        let why = match max_size < MAX_FILE_SIZE {
            true => format!("the layout's last component ends at {max_size}; nothing can be written there"),
            false => "files end at 2^63 - 1 bytes, nothing can be written there; write at a smaller offset".into(),
        };
        return Err(Error::new(Errno::EFBIG, "write", why));
    }
    Ok(count.min(room))
}
