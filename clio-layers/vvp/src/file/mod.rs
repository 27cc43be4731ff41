//! An open file: the entry points.

mod access;
mod fast;
mod fault;
mod run;

pub use fault::FaultedPage;
pub use run::{flush_object, sync_object};

use crate::io::{check_offset, is_in_parts, writable};
use crate::object::{ObjectState, VvpObject};
use crate::range_lock::RangeUse;
use crate::read_ahead::ReadAhead;
use crate::user::{lend, lend_mut};
use access::AccessHook;
use clio_core::attr::Attr;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{IoKind, LockDemand};
use clio_core::object::{ErrorCursor, ObjectRef};
use clio_core::sync::atomic::AtomicBool;
use clio_core::units::{Extent, MAX_FILE_SIZE};
use clio_core::{Errno, Error, Result};
use run::Outcome;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// How a file was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileFlags {
    /// O_APPEND: every write goes to the end of the file, as one.
    pub append: bool,
    /// O_DIRECT: past the cache. Offsets and lengths need no alignment.
    pub direct: bool,
    /// O_DSYNC: a write returns when its data is durable.
    pub dsync: bool,
    /// How much coherence with other clients is asked for. [`LockDemand::Never`] goes past the cache.
    pub demand: LockDemand,
}

/// An open file. Share it between threads and duplicated descriptors in an [`Arc`].
///
/// Methods block on targets and on other clients' locks, unless they find what they need in the cache. Offsets beyond
/// 2^63 - 1 are `EINVAL`.
#[derive(Debug)]
pub struct VvpFile {
    object: ObjectRef,
    state: Arc<ObjectState>,
    flags: FileFlags,
    ahead: Arc<ReadAhead>,
    cursor: ErrorCursor,
    access: Option<AccessHook>,
    /// Whether a read was noted.
    was_read: AtomicBool,
}

/// What an append came to.
struct Appended {
    done: usize,
    start: u64,
    stopped: Option<Error>,
}

impl VvpFile {
    /// Opens `object`, which was made by a stack with a [`crate::VvpDevice`] on top. Write errors from now on are
    /// reported here.
    ///
    /// # Errors
    /// `EINVAL` for an object of another stack.
    pub fn open(object: ObjectRef, flags: FileFlags) -> Result<Self> {
        let Some(slice) = object.slice_of::<VvpObject>() else {
            let why = "the object's stack has no POSIX layer on top";
            return Err(Error::new(Errno::EINVAL, "open", why).on(object.fid()));
        };
        let state = slice.state.clone();
        let cursor = object.errors().cursor();
        let was_read = AtomicBool::new(false);
        Ok(Self { object, state, flags, ahead: Arc::default(), cursor, access: None, was_read })
    }

    /// The object.
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// How it was opened.
    pub fn flags(&self) -> FileFlags {
        self.flags
    }

    /// Reads into `buf` from `offset`; returns the bytes read, fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// `EINVAL`, what a target says, and `ENOMEM`, if no byte was read.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if self.fast_read(buf, offset) {
            return Ok(buf.len());
        }
        self.read_slow(&mut [IoSliceMut::new(buf)], offset)
    }

    /// As [`VvpFile::read_at`], into several buffers, one after another, as one read.
    ///
    /// # Errors
    /// As [`VvpFile::read_at`].
    pub fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        match bufs {
            [buf] => self.read_at(buf, offset),
            bufs => self.read_slow(bufs, offset),
        }
    }

    /// Writes `buf` at `offset`, or at the end with O_APPEND; returns the bytes written: fewer than asked for only if
    /// an error came in between, or at 2^63 - 1.
    ///
    /// # Errors
    /// `EINVAL`, `EFBIG`, what a target says (`ENOSPC`), and `ENOMEM`, if no byte was written.
    #[inline]
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        if self.fast_write(buf, offset) {
            return Ok(buf.len());
        }
        self.write_slow(&[IoSlice::new(buf)], offset)
    }

    /// As [`VvpFile::write_at`], from several buffers, one after another, as one write.
    ///
    /// # Errors
    /// As [`VvpFile::write_at`].
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<usize> {
        match bufs {
            [buf] => self.write_at(buf, offset),
            bufs => self.write_slow(bufs, offset),
        }
    }

    /// Appends `buf` whole, whatever the file's flags: no other write of any client comes in between. Returns the
    /// bytes written and the offset that they start at.
    ///
    /// # Errors
    /// As [`VvpFile::write_at`].
    pub fn append(&self, buf: &[u8]) -> Result<(usize, u64)> {
        self.append_vectored(&[IoSlice::new(buf)])
    }

    /// As [`VvpFile::append`], from several buffers.
    ///
    /// # Errors
    /// As [`VvpFile::write_at`].
    pub fn append_vectored(&self, bufs: &[IoSlice<'_>]) -> Result<(usize, u64)> {
        self.append_part(bufs).map(|part| (part.done, part.start))
    }

    /// As [`VvpFile::append`], and it is an error if not all of `buf` was appended; returns the offset it starts at.
    ///
    /// # Errors
    /// As [`VvpFile::write_at`]. Some of `buf` may have been appended, and stays: the message says how much.
    pub fn append_all(&self, buf: &[u8]) -> Result<u64> {
        let part = self.append_part(&[IoSlice::new(buf)])?;
        if part.done == buf.len() {
            return Ok(part.start);
        }
        // Short, and not for an error: the file is as large now as it can be.
        let errno = part.stopped.as_ref().map_or(Errno::EFBIG, Error::errno);
        let why =
            format!("only {} of {} bytes were appended, up to {}", part.done, buf.len(), part.start + part.done as u64);
        let error = Error::new(errno, "append", why).on(self.object.fid());
        Err(match part.stopped {
            Some(cause) => error.with_cause(cause),
            None => error,
        })
    }

    fn append_part(&self, bufs: &[IoSlice<'_>]) -> Result<Appended> {
        let env = Env::get(EnvTags::IO);
        let count: u64 = bufs.iter().map(|b| b.len() as u64).sum();
        if count == 0 {
            return Ok(Appended { done: 0, start: self.attr()?.size, stopped: None });
        }
        let outcome = {
            let _range = self.state.ranges.take(Extent::WHOLE, RangeUse::Alone);
            lend(bufs, |mem| self.run(&env, IoKind::Write { append: true }, 0, count, Some(mem)))?
        };
        let start = outcome.pos - outcome.done;
        self.sync_written(&env, Extent::with_len(start, outcome.done))?;
        Ok(Appended { done: outcome.done as usize, start, stopped: outcome.stopped })
    }

    /// Sets the size: cuts, or extends with zeros.
    ///
    /// # Errors
    /// `EINVAL`, or what a target says.
    pub fn truncate(&self, size: u64) -> Result<()> {
        check_offset("truncate", size)?;
        let env = Env::get(EnvTags::IO);
        let extent = Extent::new(size, Extent::EOF);
        let _range = self.state.ranges.take(extent.align_to_blocks(), RangeUse::Alone);
        self.run(&env, IoKind::Truncate { size }, size, extent.len(), None).map(drop)
    }

    /// Deallocates `len` bytes at `offset`: they read as zeros. The size stays.
    ///
    /// # Errors
    /// `EINVAL`, or what a target says.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        check_offset("punch", offset)?;
        let extent = Extent::new(offset, offset.saturating_add(len).min(MAX_FILE_SIZE));
        if extent.is_empty() {
            return Ok(());
        }
        let env = Env::get(EnvTags::IO);
        let _range = self.state.ranges.take(extent.align_to_blocks(), RangeUse::Alone);
        self.run(&env, IoKind::Punch, offset, extent.len(), None).map(drop)
    }

    /// Writes dirty data out and makes it durable, with its size and times. There is no lesser form for fdatasync: a
    /// target syncs times with the data, and to leave them out would save nothing.
    ///
    /// # Errors
    /// What a target says; or the error of an earlier asynchronous write, which is reported once.
    pub fn fsync(&self) -> Result<()> {
        let env = Env::get(EnvTags::IO);
        let synced = self.sync_range(&env, Extent::WHOLE);
        // Reported even if the synchronisation failed too: it would be forgotten otherwise.
        self.report_error().and(synced)
    }

    /// Writes dirty data out, without making it durable.
    ///
    /// # Errors
    /// What a target says. Earlier errors stay for `fsync` and `close`.
    pub fn flush(&self) -> Result<()> {
        self.write_out_all(&Env::get(EnvTags::IO)).map_err(|e| e.on(self.object.fid()))
    }

    /// Reports the error of an asynchronous write that no one has been told through this file. Dirty data stays
    /// dirty: it is written out in time, as POSIX has it.
    ///
    /// # Errors
    /// That error.
    pub fn close(&self) -> Result<()> {
        self.report_error()
    }

    /// The error of an asynchronous write since the file was opened, or since this was last asked.
    ///
    /// # Errors
    /// That error.
    pub fn report_error(&self) -> Result<()> {
        match self.object.errors().report(&self.cursor) {
            Some(e) => Err(e.on(self.object.fid())),
            None => Ok(()),
        }
    }

    /// The offset of the first data at or after `offset`.
    ///
    /// # Errors
    /// `ENXIO` if there is none.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        self.seek(offset, false)
    }

    /// The offset of the first hole at or after `offset`; there is one at the end of the file.
    ///
    /// # Errors
    /// `ENXIO` if `offset` is at or beyond the end of the file.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.seek(offset, true)
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        check_offset("seek", offset)?;
        let env = Env::get(EnvTags::IO);
        let outcome = self.run(&env, IoKind::Seek { hole }, offset, Extent::EOF - offset, None)?;
        let nothing = || Error::new(Errno::ENXIO, "seek", "nothing was found").on(self.object.fid());
        outcome.found.ok_or_else(nothing)
    }

    /// Advice on `len` bytes at `offset` (0: to the end): start reading them into the cache, or drop what is clean.
    /// Advice that can't be followed is no error.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn advise(&self, offset: u64, len: u64, will_need: bool) -> Result<()> {
        check_offset("advise", offset)?;
        let end = if len == 0 { MAX_FILE_SIZE } else { offset.saturating_add(len).min(MAX_FILE_SIZE) };
        let env = Env::get(EnvTags::IO);
        let advised = self.run(&env, IoKind::Advise { will_need }, offset, end - offset, None);
        if let Err(e) = advised {
            tracing::debug!(target: "clio::io", fid = %self.object.fid(), error = %e, "advice not followed");
        }
        Ok(())
    }

    /// Size and times, as the targets know them now and this client's dirty data changes them.
    ///
    /// # Errors
    /// What a target says.
    pub fn attr(&self) -> Result<Attr> {
        let env = Env::get(EnvTags::IO);
        let attr = self.object.glimpse(&env).map_err(|e| e.on(self.object.fid()))?;
        Ok(Attr { size: attr.size.max(attr.kms), ..attr })
    }

    /// Whether reads and writes go past the cache.
    fn is_direct(&self) -> bool {
        self.flags.direct || self.flags.demand == LockDemand::Never
    }

    /// A read that the cache alone can't serve at one stroke.
    #[cold]
    fn read_slow(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let count: u64 = bufs.iter().map(|b| b.len() as u64).sum();
        if count == 0 {
            return Ok(0);
        }
        check_offset("read", offset)?;
        let count = count.min(MAX_FILE_SIZE.saturating_sub(offset));
        if count == 0 {
            return Ok(0);
        }
        let env = Env::get(EnvTags::IO);
        let extent = Extent::with_len(offset, count);
        let read = {
            let _range = self.state.ranges.take(extent.align_to_blocks(), RangeUse::Shared);
            lend_mut(bufs, |mem| self.run(&env, IoKind::Read, offset, count, Some(mem)))
        };
        let done = read.map(|outcome| outcome.done);
        if let Ok(n @ 1..) = done {
            self.read_went_slow(&env, Extent::with_len(offset, n));
        }
        self.read_deferred(&env);
        Ok(done? as usize)
    }

    /// A write that can't go into the cache at one stroke.
    #[cold]
    fn write_slow(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<usize> {
        let count: u64 = bufs.iter().map(|b| b.len() as u64).sum();
        if count == 0 {
            return Ok(0);
        }
        if self.flags.append {
            return self.append_vectored(bufs).map(|(n, _)| n);
        }
        check_offset("write", offset)?;
        let count = writable(offset, count, MAX_FILE_SIZE).map_err(|e| e.on(self.object.fid()))?;
        let extent = Extent::with_len(offset, count);
        // What is written bit by bit has its range alone; a write at one stroke needs no more than the folio.
        let is_alone =
            self.is_direct() || is_in_parts(&self.object, extent, bufs.iter().filter(|b| !b.is_empty()).count());
        let how = if is_alone { RangeUse::Alone } else { RangeUse::Shared };
        let env = Env::get(EnvTags::IO);
        let written = {
            let _range = self.state.ranges.take(extent.align_to_blocks(), how);
            lend(bufs, |mem| self.run(&env, IoKind::Write { append: false }, offset, count, Some(mem)))?
        };
        self.sync_written(&env, Extent::with_len(offset, written.done))?;
        Ok(written.done as usize)
    }

    /// O_DSYNC: makes what was written durable. What went out before that, and failed, is told now: the write must not
    /// count as done.
    fn sync_written(&self, env: &Env, written: Extent) -> Result<()> {
        if !self.flags.dsync || written.is_empty() {
            return Ok(());
        }
        let synced = self.sync_range(env, written);
        self.report_error().and(synced)
    }

    fn sync_range(&self, env: &Env, extent: Extent) -> Result<()> {
        self.run(env, IoKind::Fsync, extent.start, extent.len(), None).map(|_: Outcome| ())
    }
}
