//! What callers use.

use crate::device::EchoDevice;
use crate::io::EchoIo;
use clio_core::env::Env;
use clio_core::error::Result;
use clio_core::io::{Io, IoCommon, IoKind, LockDemand};
use clio_core::lock::{LockDescr, request};
use clio_core::object::{ErrorCursor, Object, ObjectConf, ObjectRef, Site};
use clio_core::page::{Rw, SyncIo, fast_read, fast_write};
use clio_core::sync::Mutex;
use clio_core::target::{Bulk, EnqueueFlags, LockMode};
use clio_core::units::{Extent, Fid};
use std::sync::Arc;

/// An object, open for reading and writing.
///
/// All methods block unless they say otherwise. Errors of writes that went out later are told by [`EchoFile::fsync`].
#[derive(Debug)]
pub struct EchoFile {
    object: ObjectRef,
    errors: ErrorCursor,
    flags: EnqueueFlags,
    demand: LockDemand,
}

impl EchoFile {
    /// Opens the object `fid`, which needs not exist at the target, with folios of `folio_size` bytes.
    ///
    /// # Errors
    /// What a layer says.
    pub fn open(env: &Env, site: &Arc<Site>, device: &EchoDevice, fid: Fid, folio_size: u64) -> Result<Self> {
        let conf = ObjectConf { folio_size: Some(folio_size), ..ObjectConf::default() };
        let object = site.find(env, fid, device, &conf)?;
        let errors = object.errors().cursor();
        Ok(Self { object, errors, flags: EnqueueFlags::default(), demand: LockDemand::Maybe })
    }

    /// Asks for locks with `flags` from now on.
    pub fn set_lock_flags(&mut self, flags: EnqueueFlags) {
        self.flags = flags;
    }

    /// Asks for this much coherence from now on. [`LockDemand::Never`]: no locks, and nothing stays cached.
    pub fn set_demand(&mut self, demand: LockDemand) {
        self.demand = demand;
    }

    /// The object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn run(
        &self,
        env: &Env,
        kind: IoKind,
        at: u64,
        buf: Vec<u8>,
        count: u64,
        prime: impl FnOnce(&mut IoCommon),
    ) -> Result<(u64, Vec<u8>, Option<u64>)> {
        let buffer = Arc::new(Mutex::new(buf));
        let mut io = Io::with(env, &self.object, kind, at, count, |c| {
            c.demand = self.demand;
            prime(c);
        })?;
        io.push_top(Box::new(EchoIo::new(buffer.clone(), at, self.flags)));
        let moved = clio_io_loop::run(env, &mut io);
        let failed = io.common.take_error();
        let buf = std::mem::take(&mut *buffer.lock());
        match (moved?, failed) {
            (0, Some(e)) => Err(e),
            (n, _) => Ok((n, buf, io.common.found)),
        }
    }

    /// Writes `buf` at `offset`; returns how many bytes.
    ///
    /// # Errors
    /// That of the lock, of memory, or of a transfer that had to be waited for.
    pub fn write_at(&self, env: &Env, buf: &[u8], offset: u64) -> Result<usize> {
        let kind = IoKind::Write { append: false };
        Ok(self.run(env, kind, offset, buf.to_vec(), buf.len() as u64, |_| {})?.0 as usize)
    }

    /// As [`EchoFile::write_at`]; the data is durable when this returns.
    ///
    /// # Errors
    /// As [`EchoFile::write_at`].
    pub fn write_sync_at(&self, env: &Env, buf: &[u8], offset: u64) -> Result<usize> {
        let kind = IoKind::Write { append: false };
        Ok(self.run(env, kind, offset, buf.to_vec(), buf.len() as u64, |c| c.dsync = true)?.0 as usize)
    }

    /// Writes `buf` at the end.
    ///
    /// # Errors
    /// As [`EchoFile::write_at`].
    pub fn append(&self, env: &Env, buf: &[u8]) -> Result<usize> {
        let kind = IoKind::Write { append: true };
        Ok(self.run(env, kind, 0, buf.to_vec(), buf.len() as u64, |_| {})?.0 as usize)
    }

    /// Reads at `offset`; returns how many bytes: fewer at the end of the object.
    ///
    /// # Errors
    /// That of the lock, of memory, or of a transfer.
    pub fn read_at(&self, env: &Env, buf: &mut [u8], offset: u64) -> Result<usize> {
        let (n, data, _) = self.run(env, IoKind::Read, offset, vec![0; buf.len()], buf.len() as u64, |_| {})?;
        buf[..n as usize].copy_from_slice(&data[..n as usize]);
        Ok(n as usize)
    }

    /// Reads from the cache alone: false if that isn't possible. Doesn't block.
    pub fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        offset + buf.len() as u64 <= self.object.attrs().kms() && fast_read(&self.object, offset, buf)
    }

    /// Writes into the cache alone, where there is a window: false if there is none. Takes one mutex.
    pub fn write_cached(&self, buf: &[u8], offset: u64, mtime: u64) -> bool {
        fast_write(&self.object, offset, buf, mtime).is_ok()
    }

    /// Sets the size.
    ///
    /// # Errors
    /// That of the lock or of the target.
    pub fn truncate(&self, env: &Env, size: u64) -> Result<()> {
        self.run(env, IoKind::Truncate { size }, size, Vec::new(), 0, |_| {}).map(|_| ())
    }

    /// Makes a hole.
    ///
    /// # Errors
    /// That of the lock or of the target.
    pub fn punch(&self, env: &Env, extent: Extent) -> Result<()> {
        self.run(env, IoKind::Punch, extent.start, Vec::new(), extent.len(), |_| {}).map(|_| ())
    }

    /// Makes all that was written durable, and reports the error of an earlier write that went out later, once.
    ///
    /// # Errors
    /// That, or that of the sync.
    pub fn fsync(&self, env: &Env) -> Result<()> {
        let synced = self.run(env, IoKind::Fsync, 0, Vec::new(), Extent::EOF, |_| {});
        self.object.errors().report(&self.errors).map_or(synced.map(|_| ()), Err)
    }

    /// The next data, or hole, at or after `offset`; `None` at the end.
    ///
    /// # Errors
    /// That of the lock or of the target.
    pub fn seek(&self, env: &Env, offset: u64, hole: bool) -> Result<Option<u64>> {
        Ok(self.run(env, IoKind::Seek { hole }, offset, Vec::new(), 0, |_| {})?.2)
    }

    /// Size in bytes, asked of the target unless a lock held here tells.
    ///
    /// # Errors
    /// What the target says.
    pub fn size(&self, env: &Env) -> Result<u64> {
        Ok(self.object.glimpse(env)?.size)
    }

    /// Transfers past the cache, under a lock unless the demand is Never. The memory that `bulk` names must stay valid
    /// until this returns. What is cached of the range is dropped after a write, and written out before.
    ///
    /// # Errors
    /// That of the lock or of a transfer.
    pub fn direct(&self, env: &Env, rw: Rw, bulk: &Bulk) -> Result<()> {
        let range = bulk.iter().fold(Extent::new(0, 0), |e, s| e.hull(s.extent()));
        let mode = if rw == Rw::Read { LockMode::Pr } else { LockMode::Pw };
        let extent = range.align_to_blocks();
        let need = LockDescr { extent, mode, flags: self.flags, demand: self.demand };
        let user = match self.demand {
            LockDemand::Never => None,
            _ => Some(request(env, &self.object, &need)?),
        };
        self.run(env, IoKind::Fsync, extent.start, Vec::new(), extent.len(), |_| {})?;
        let kind = if rw == Rw::Read { IoKind::Read } else { IoKind::Write { append: false } };
        let mut io = Io::with(env, &self.object, kind, range.start, range.len(), |c| {
            (c.demand, c.direct) = (self.demand, true);
        })?;
        let sync = SyncIo::new();
        let submitted = io.direct(env, rw, bulk, &sync);
        let result = submitted.and(sync.wait());
        io.fini(env);
        if rw == Rw::Write {
            let folio = self.object.folio_size();
            for page in self.object.pages().range(extent.start / folio..extent.end.div_ceil(folio), usize::MAX) {
                page.discard(env, page.blocks_of(extent));
            }
        }
        drop(user);
        result
    }
}
