//! Reads, writes and changes of objects: under the client's lock, or under one that the service takes for them.

use super::Core;
use super::grant::Free;
use super::state::SERVER;
use crate::bulk;
use crate::store::{Filled, ObjectStore};
use crate::sums::BulkSums;
use clio_core::attr::{Attr, AttrMask};
use clio_core::target::{Bulk, Completion, DlmHandle, LockMode, Reply};
use clio_core::units::{ClientId, Extent, Fid, MAX_FILE_SIZE};
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// Reads up to this size are tried on the caller's thread first, in bytes.
const TRY_INLINE: u64 = 64 << 10;

/// The fields of `Op::Read`.
pub(super) struct Read {
    pub(super) fid: Fid,
    pub(super) bulk: Bulk,
    pub(super) checksum: bool,
}

/// The fields of `Op::Write`.
pub(super) struct Write {
    pub(super) fid: Fid,
    pub(super) bulk: Bulk,
    pub(super) checksum: Option<u32>,
    pub(super) lock: Option<DlmHandle>,
    pub(super) grant: u64,
    pub(super) mtime: u64,
    pub(super) sync: bool,
}

/// The fields of `Op::Punch`.
pub(super) struct Punch {
    pub(super) fid: Fid,
    pub(super) extent: Extent,
    pub(super) lock: Option<DlmHandle>,
    pub(super) mtime: u64,
}

impl Write {
    /// Space that the write may take, in bytes: whole blocks, and no less than the grant that it uses.
    fn room(&self) -> u64 {
        let blocks = self.bulk.iter().map(|s| s.extent().align_to_blocks().len());
        blocks.fold(0, u64::saturating_add).max(self.grant)
    }
}

impl Read {
    fn reply(&self, filled: Filled) -> Reply {
        let checksum = self.checksum.then(|| filled.sum.unwrap_or_else(|| bulk::crc32c(&self.bulk)));
        Reply::Read { size: filled.size, checksum }
    }
}

impl<S: ObjectStore> Core<S> {
    /// Runs an operation of the store that needs nothing else.
    pub(super) fn simple(
        self: &Arc<Self>,
        client: ClientId,
        done: Completion,
        op: impl FnOnce(&Arc<Self>) -> Result<Reply> + Send + 'static,
    ) {
        if let Err(e) = self.begin(client, None) {
            return done(Err(e));
        }
        let core = self.clone();
        self.exec.run(Box::new(move |runs| {
            let result = runs.and_then(|()| op(&core));
            core.end(client, None, result, done);
        }));
    }

    fn begin(&self, client: ClientId, lock: Option<(ClientId, DlmHandle)>) -> Result<()> {
        self.state.lock().begin_io(client, lock)
    }

    /// Ends what [`Core::begin`] has begun, and replies.
    fn end(self: &Arc<Self>, client: ClientId, lock: Option<DlmHandle>, result: Result<Reply>, done: Completion) {
        let now = self.now_ms();
        self.state.lock().end_io(client, lock, now);
        done(result);
        self.settle();
    }

    /// A read of what the client holds locks over runs as it is; for the rest the service takes a lock first.
    pub(super) fn read(self: &Arc<Self>, client: ClientId, read: Read, done: Completion) {
        if let Err(e) = bulk::check("read", &read.bulk) {
            return done(Err(e.on(read.fid)));
        }
        let uncovered = {
            let mut state = self.state.lock();
            let uncovered = state.uncovered(client, read.fid, &read.bulk);
            let begun = if uncovered.is_empty() { state.begin_io(client, None) } else { state.check(client) };
            if let Err(e) = begun {
                drop(state);
                return done(Err(e.on(read.fid)));
            }
            uncovered
        };
        if uncovered.is_empty() {
            return self.run_read(client, None, read, done);
        }
        let (fid, core) = (read.fid, self.clone());
        let go_on = move |own: Result<DlmHandle>| match own.and_then(|own| core.begin_own(client, own)) {
            Ok(own) => core.run_read(client, Some(own), read, done),
            Err(e) => done(Err(e.on(read.fid))),
        };
        self.lock_for_self(fid, uncovered, LockMode::Pr, Box::new(go_on));
    }

    fn run_read(self: &Arc<Self>, client: ClientId, own: Option<DlmHandle>, read: Read, done: Completion) {
        let small = read.bulk.iter().map(|s| s.mem.len() as u64).sum::<u64>() <= TRY_INLINE;
        if let Some(result) = small.then(|| self.store.try_read(read.fid, &read.bulk)).flatten() {
            let result = result.map(|filled| read.reply(filled));
            return self.end_own(client, own, result, done);
        }
        let core = self.clone();
        self.exec.run(Box::new(move |runs| {
            let result = runs.and_then(|()| core.store.read(read.fid, &read.bulk)).map(|filled| read.reply(filled));
            core.end_own(client, own, result, done);
        }));
    }

    /// Begins an operation under the service's own lock. If the client has gone meanwhile, gives the lock back.
    fn begin_own(self: &Arc<Self>, client: ClientId, own: DlmHandle) -> Result<DlmHandle> {
        let now = self.now_ms();
        let mut state = self.state.lock();
        let begun = state.begin_io(client, Some((SERVER, own)));
        if begun.is_err() {
            state.cancel(SERVER, own, now);
        }
        begun.map(|()| own)
    }

    /// As [`Core::end`]; gives the service's own lock back.
    fn end_own(self: &Arc<Self>, client: ClientId, own: Option<DlmHandle>, result: Result<Reply>, done: Completion) {
        if let Some(own) = own {
            let now = self.now_ms();
            self.state.lock().cancel(SERVER, own, now);
        }
        self.end(client, own, result, done);
    }

    pub(super) fn write(self: &Arc<Self>, client: ClientId, write: Write, done: Completion) {
        if let Err(e) = bulk::check("write", &write.bulk) {
            return done(Err(e.on(write.fid)));
        }
        let used = {
            let mut state = self.state.lock();
            let used = state.check(client).and_then(|()| state.grants.consume(client, write.grant));
            used.inspect(|()| state.grants.begin_write(write.room()))
        };
        if let Err(e) = used {
            return done(Err(e.on(write.fid)));
        }
        let extent = bulk::hull(&write.bulk);
        let Some(handle) = write.lock else { return self.write_lockless(client, write, extent, done) };
        let begun = {
            let mut state = self.state.lock();
            let allowed = state.check_write(client, handle, write.fid, extent);
            allowed.and_then(|()| state.begin_io(client, Some((client, handle))))
        };
        match begun {
            Ok(()) => self.run_write(client, handle, write, done),
            Err(e) => self.refuse_write(client, &write, e, done),
        }
    }

    fn write_lockless(self: &Arc<Self>, client: ClientId, write: Write, extent: Extent, done: Completion) {
        // A write of nothing still makes the object: it needs some lock, so it takes one block's.
        let extent = if extent.is_empty() { Extent::new(0, 1) } else { extent };
        let (fid, core) = (write.fid, self.clone());
        let go_on = move |own: Result<DlmHandle>| match own.and_then(|own| core.begin_own(client, own)) {
            Ok(own) => {
                // Given back when the write has ended, since it runs under it.
                let now = core.now_ms();
                core.state.lock().cancel(SERVER, own, now);
                core.run_write(client, own, write, done);
            }
            Err(e) => core.refuse_write(client, &write, e, done),
        };
        self.lock_for_self(fid, extent, LockMode::Pw, Box::new(go_on));
    }

    fn refuse_write(&self, client: ClientId, write: &Write, e: Error, done: Completion) {
        self.not_written(client, write);
        done(Err(e.on(write.fid)));
    }

    /// A failed write uses nothing.
    fn not_written(&self, client: ClientId, write: &Write) {
        let mut state = self.state.lock();
        state.grants.restore(client, write.grant);
        state.grants.end_write(write.room());
    }

    /// Runs a write that has begun under `lock`.
    fn run_write(self: &Arc<Self>, client: ClientId, lock: DlmHandle, write: Write, done: Completion) {
        let core = self.clone();
        self.exec.run(Box::new(move |runs| {
            let result = match runs.and_then(|()| core.store_write(&write)) {
                Ok(attr) => Ok(core.written(client, &write, &attr)),
                Err(e) => {
                    core.not_written(client, &write);
                    Err(e.on(write.fid))
                }
            };
            core.end(client, Some(lock), result, done);
        }));
    }

    fn store_write(&self, write: &Write) -> Result<Attr> {
        // One pass over the data serves the check of its transfer and the store's own checksums.
        let sums = write.checksum.map(|sent| (sent, BulkSums::of(&write.bulk)));
        if let Some((sent, sums)) = &sums {
            let (sent, found) = (*sent, sums.total());
            if found != sent {
                let text = format!("the data has crc32c {found:#010x}, but was sent with {sent:#010x}; send it again");
                return Err(Error::new(Errno::EBADMSG, "write", text).on(write.fid));
            }
        }
        self.store.write(write.fid, &write.bulk, sums.as_ref().map(|(_, s)| s), write.mtime, write.sync)
    }

    /// Attributes to the lock manager first, then grant, then the reply.
    fn written(&self, client: ClientId, write: &Write, attr: &Attr) -> Reply {
        let since = {
            let mut state = self.state.lock();
            state.grants.end_write(write.room());
            state.grants.moment()
        };
        // Without a figure for the space left, no grant is given.
        let free = Free { bytes: self.store.space().map_or(0, |s| s.free), since };
        let now = self.now_ms();
        let mut state = self.state.lock();
        Self::publish(&mut state, write.fid, attr, false, now);
        let grant = state.grants.replenish(client, write.grant, free);
        Reply::Written { grant, lvb: bulk::lvb_of(attr) }
    }

    /// Runs under the client's lock, if it names one.
    pub(super) fn punch(self: &Arc<Self>, client: ClientId, punch: Punch, done: Completion) {
        let Punch { fid, extent, lock, mtime } = punch;
        let beyond = extent.start > MAX_FILE_SIZE || (extent.end > MAX_FILE_SIZE && extent.end != Extent::EOF);
        if beyond {
            let e = Error::new(Errno::EFBIG, "punch", "offset beyond 2^63 - 1, the largest there is");
            return done(Err(e.on(fid)));
        }
        let begun = {
            let mut state = self.state.lock();
            let allowed = lock.map_or(Ok(()), |handle| state.check_write(client, handle, fid, extent));
            allowed.and_then(|()| state.begin_io(client, lock.map(|handle| (client, handle))))
        };
        if let Err(e) = begun {
            return done(Err(e.on(fid)));
        }
        let core = self.clone();
        self.exec.run(Box::new(move |runs| {
            let result = runs.and_then(|()| core.store.punch(fid, extent, mtime)).map(|attr| {
                core.changed(fid, attr, extent.end == Extent::EOF);
                Reply::Done
            });
            core.end(client, lock, result, done);
        }));
    }

    pub(super) fn setattr(self: &Arc<Self>, fid: Fid, attr: Attr, mask: AttrMask) -> Result<Reply> {
        let attr = self.store.setattr(fid, &attr, mask)?;
        self.changed(fid, attr, false);
        Ok(Reply::Done)
    }

    pub(super) fn destroy(self: &Arc<Self>, fid: Fid) -> Result<Reply> {
        self.store.destroy(fid)?;
        self.changed(fid, Attr::default(), true);
        Ok(Reply::Done)
    }

    /// Tells the lock manager of attributes that may be smaller than before. The size is taken only from operations
    /// that set it: another operation may have raised it since `attr` was read.
    fn changed(&self, fid: Fid, mut attr: Attr, size: bool) {
        let now = self.now_ms();
        let mut state = self.state.lock();
        if let Some(known) = state.dlm.lvb(fid).filter(|_| !size) {
            attr.size = attr.size.max(known.size);
        }
        Self::publish(&mut state, fid, &attr, true, now);
    }
}
