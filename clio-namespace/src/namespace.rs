//! The namespace: opening a store, running operations one at a time, durability.

use crate::caller::{Caller, SUPERUSER};
use crate::fids::{self, FidRange};
use crate::kv::{Batch, DiskKv, Kv, MemoryKv, Space, View};
use crate::ops::create::NewNode;
use crate::record::{FORMAT_VERSION, Inode, Kind, Removed, Reply, StoreHeader};
use crate::records::Records;
use crate::replies::ReplyTable;
use crate::txn::{DirCache, Planned, Txn};
use clio_core::lockrank::{LockRank, RankedGuard, RankedMutex};
use clio_core::units::{ClientId, Fid};
use clio_core::{Errno, Error, Result};
use std::collections::{HashMap, HashSet};
use std::path::Path;

const HEADER_KEY: &[u8] = b"header";
/// Key in the meta space of the epoch: eight bytes, big-endian.
const EPOCH_KEY: &[u8] = b"epoch";

/// Names an operation of a client, so that it runs once however often it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpId {
    /// The client.
    pub client: ClientId,
    /// Its number for the operation. Rising; a client may have
    /// [`REPLIES_PER_CLIENT`](crate::REPLIES_PER_CLIENT) operations unanswered at most.
    pub xid: u64,
}

/// What every changing operation is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpCtx<'a> {
    /// The time, nanoseconds since 1970.
    pub now: u64,
    /// If given, a successful reply is kept with the change, and answers the operation when it is sent again.
    pub id: Option<OpId>,
    /// Whom it is done for: what that one may not do is refused.
    pub caller: &'a Caller,
}

impl OpCtx<'static> {
    /// An operation of the superuser at time `now` (nanoseconds since 1970) that is never resent.
    pub const fn at(now: u64) -> Self {
        Self { now, id: None, caller: &SUPERUSER }
    }
}

impl<'a> OpCtx<'a> {
    /// The same, for `caller`.
    pub fn by<'b>(self, caller: &'b Caller) -> OpCtx<'b> {
        OpCtx { now: self.now, id: self.id, caller }
    }

    /// The same, as operation `xid` of `client`.
    pub fn with_id(self, client: ClientId, xid: u64) -> Self {
        Self { id: Some(OpId { client, xid }), ..self }
    }
}

/// What changes with operations but is not in the store, or is there in another form.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) fids: FidRange,
    /// Open files and directories: how often each.
    pub(crate) open: HashMap<Fid, u32>,
    pub(crate) replies: ReplyTable,
    pub(crate) dirs: DirCache,
    /// Files whose objects are destroyed and whose records go with the next batch.
    pub(crate) destroyed: Vec<Fid>,
    epoch: u64,
    /// To be stored with the next change.
    next_epoch: Option<u64>,
}

impl State {
    fn new(fids: FidRange, replies: ReplyTable, epoch: u64) -> Self {
        let (open, dirs, destroyed) = (HashMap::new(), DirCache::default(), Vec::new());
        Self { fids, open, replies, dirs, destroyed, epoch, next_epoch: None }
    }

    /// The epoch that begins at `now`.
    fn epoch_after(&self, now: u64) -> u64 {
        now.max(self.epoch.saturating_add(1))
    }
}

/// The metadata of one store. See the [crate's documentation](crate).
///
/// All methods may be called from any thread and block at most on the disk. Changing operations run one after
/// another; reading ones run beside them, each on one consistent state. No lock is held between calls.
#[derive(Debug)]
pub struct Namespace {
    pub(crate) kv: Box<dyn Kv>,
    /// Taken for the whole of each changing operation.
    state: RankedMutex<State>,
}

impl Namespace {
    /// The root directory.
    pub const ROOT: Fid = fids::ROOT;

    /// Opens the namespace in folder `path`. Where the folder is missing or empty, makes one whose root directory
    /// has the mode and owner of `root` and is dated `now` (nanoseconds since 1970).
    ///
    /// # Errors
    /// `EBUSY`: another process has it open. `EINVAL`: the folder holds something else. `EOPNOTSUPP`: the store has
    /// a newer format. `EBADMSG`: the store's header is damaged. Otherwise what the file system says.
    pub fn open(path: &Path, root: &NewNode<'_>, now: u64) -> Result<Self> {
        Self::over(Box::new(DiskKv::open(path)?), Some((root, now))).map_err(|e| e.at(path.to_string_lossy()))
    }

    /// Opens the namespace in folder `path`, which was made before.
    ///
    /// # Errors
    /// `EBADMSG`: it isn't there, or not all of it; nothing is made in its place. As [`Namespace::open`] otherwise.
    pub fn open_existing(path: &Path) -> Result<Self> {
        Self::over(Box::new(DiskKv::open_existing(path)?), None).map_err(|e| e.at(path.to_string_lossy()))
    }

    /// A new namespace that lives in memory.
    ///
    /// # Errors
    /// None are expected.
    pub fn in_memory(root: &NewNode<'_>, now: u64) -> Result<Self> {
        Self::over(Box::new(MemoryKv::default()), Some((root, now)))
    }

    /// Over `kv`; where that is empty, with a new root directory, if one is given.
    fn over(kv: Box<dyn Kv>, new: Option<(&NewNode<'_>, u64)>) -> Result<Self> {
        let stored = load(&*kv.view())?;
        let state = match (stored, new) {
            (Some(state), _) => state,
            (None, None) => {
                let why = "the database of names has lost its content; restore the folder from a copy";
                return Err(Error::new(Errno::EBADMSG, "open", why));
            }
            (None, Some((root, now))) => {
                let fids = FidRange::new();
                let mut batch = Batch::default();
                batch.put(Space::Meta, HEADER_KEY, StoreHeader { format: FORMAT_VERSION }.encode());
                batch.put(Space::Meta, fids::KEY, fids.encode());
                batch.put(Space::Inodes, fids::ROOT.to_bytes(), root_inode(root, now).encode());
                kv.commit(batch)?;
                kv.sync()?;
                State::new(fids, ReplyTable::default(), 0)
            }
        };
        Ok(Self { kv, state: RankedMutex::new(LockRank::Target, state) })
    }

    /// Makes every operation that has returned survive a crash of the machine. Blocks on the disk.
    ///
    /// # Errors
    /// `EIO` and what else the disk says: then nothing more is accepted until the store is opened anew.
    pub fn sync(&self) -> Result<()> {
        self.commit(&mut self.state(), Batch::default())?;
        self.kv.sync()
    }

    /// The number of the last opening of the store that has changed names; 0 if none was told by [`Namespace::renew`].
    pub fn epoch(&self) -> u64 {
        self.state().epoch
    }

    /// Has the next change of names begin a new epoch, at `now` (nanoseconds since 1970) or after the last one.
    pub fn renew(&self, now: u64) {
        let mut state = self.state();
        state.next_epoch = Some(state.epoch_after(now));
    }

    /// Puts a new epoch at the end of what was changed, if anything was: should a part of that be lost, so is the epoch.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    pub fn end_epoch(&self, now: u64) -> Result<()> {
        let mut state = self.state();
        if state.next_epoch.is_some() {
            return Ok(());
        }
        let epoch = state.epoch_after(now);
        let mut batch = Batch::default();
        put_epoch(&mut batch, epoch);
        self.commit(&mut state, batch)?;
        state.epoch = epoch;
        Ok(())
    }

    /// Whether nothing was ever made in it.
    pub fn is_unused(&self) -> bool {
        !self.state().fids.started()
    }

    /// Drops the replies kept for `client`, which will resend nothing any more.
    ///
    /// # Errors
    /// `EIO`.
    pub fn forget_client(&self, client: ClientId) -> Result<()> {
        self.state().replies.forget(&*self.kv, client)
    }

    /// Drops the replies kept for all clients but these.
    ///
    /// # Errors
    /// `EIO`.
    pub fn forget_clients_but(&self, known: &HashSet<ClientId>) -> Result<()> {
        let mut state = self.state();
        for client in state.replies.clients().filter(|c| !known.contains(c)).collect::<Vec<_>>() {
            state.replies.forget(&*self.kv, client)?;
        }
        Ok(())
    }

    pub(crate) fn state(&self) -> RankedGuard<'_, State> {
        self.state.lock()
    }

    /// Runs a reading operation of the superuser on one consistent state.
    pub(crate) fn read<T>(&self, op: &'static str, f: impl FnOnce(Records<'_>) -> Result<T>) -> Result<T> {
        self.read_as(&SUPERUSER, op, f)
    }

    /// Runs a reading operation of `caller` on one consistent state.
    pub(crate) fn read_as<T>(
        &self,
        caller: &Caller,
        op: &'static str,
        f: impl FnOnce(Records<'_>) -> Result<T>,
    ) -> Result<T> {
        f(Records { view: &*self.kv.view(), op, caller })
    }

    /// Runs a changing operation: `f` plans it, then it is committed with its reply, all or nothing.
    pub(crate) fn change(
        &self,
        op: &'static str,
        ctx: &OpCtx<'_>,
        f: impl FnOnce(&mut Txn<'_>) -> Result<Reply>,
    ) -> Result<Reply> {
        let mut state = self.state();
        match self.find_reply(&state, ctx)? {
            Some(reply) => Ok(reply),
            None => self.run(&mut state, op, ctx, f),
        }
    }

    /// The reply of the first run of a resent operation.
    pub(crate) fn replayed(&self, ctx: &OpCtx<'_>) -> Result<Option<Reply>> {
        if ctx.id.is_none() { Ok(None) } else { self.find_reply(&self.state(), ctx) }
    }

    fn find_reply(&self, state: &State, ctx: &OpCtx<'_>) -> Result<Option<Reply>> {
        let Some(id) = ctx.id else { return Ok(None) };
        let reply = state.replies.find(&*self.kv, id)?;
        if reply.is_some() {
            tracing::debug!(target: "clio::namespace", client = id.client.0, xid = id.xid, "answered again");
        }
        Ok(reply)
    }

    /// The part of [`Namespace::change`] under the lock.
    pub(crate) fn run(
        &self,
        state: &mut State,
        op: &'static str,
        ctx: &OpCtx<'_>,
        f: impl FnOnce(&mut Txn<'_>) -> Result<Reply>,
    ) -> Result<Reply> {
        let (reply, Planned { mut batch, fids, dirs }) = {
            let view = self.kv.view();
            let mut txn = Txn::new(Records { view: &*view, op, caller: ctx.caller }, ctx.now, state);
            let reply = f(&mut txn)?;
            (reply, txn.finish())
        };
        if batch.is_empty() {
            return Ok(reply);
        }
        if let Some(id) = ctx.id {
            state.replies.stage(&mut batch, id, &reply);
        }
        self.commit(state, batch)?;
        state.fids = fids;
        state.dirs.update(dirs);
        if let Some(id) = ctx.id {
            state.replies.committed(id);
        }
        Ok(reply)
    }

    /// Commits `batch`, and with it what waited for one.
    pub(crate) fn commit(&self, state: &mut State, mut batch: Batch) -> Result<()> {
        for fid in &state.destroyed {
            batch.remove(Space::Unlinked, fid.to_bytes());
        }
        if !batch.is_empty() {
            if let Some(epoch) = state.next_epoch {
                put_epoch(&mut batch, epoch);
            }
            self.kv.commit(batch)?;
            state.epoch = state.next_epoch.take().unwrap_or(state.epoch);
        }
        state.destroyed.clear();
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // If this fails, objects are reported once more than needed, which does no harm.
        let mut batch = Batch::default();
        for fid in std::mem::take(&mut self.state.get_mut().destroyed) {
            batch.remove(Space::Unlinked, fid.to_bytes());
        }
        let _ = self.kv.commit(batch);
    }
}

fn put_epoch(batch: &mut Batch, epoch: u64) {
    batch.put(Space::Meta, EPOCH_KEY, epoch.to_be_bytes().to_vec());
}

/// The state of an existing store; `None` if the store is new.
fn load(view: &dyn View) -> Result<Option<State>> {
    let Some(header) = view.get(Space::Meta, HEADER_KEY)? else {
        for space in Space::ALL {
            view.scan(space, &[], None, &mut |_, _| {
                Err(Error::new(Errno::EBADMSG, "open", "the namespace has no header; restore the store from a copy"))
            })?;
        }
        return Ok(None);
    };
    StoreHeader::decode(&header)?;
    let fids = FidRange::decode(view.get(Space::Meta, fids::KEY)?.as_deref().unwrap_or(&[]))?;
    let epoch = view.get(Space::Meta, EPOCH_KEY)?.map_or(Some(0), |stored| {
        let bytes: Option<[u8; 8]> = stored.as_slice().try_into().ok();
        bytes.map(u64::from_be_bytes)
    });
    let why = "the record of the epoch is damaged; restore the store from a copy";
    let epoch = epoch.ok_or_else(|| Error::new(Errno::EBADMSG, "open", why))?;
    Ok(Some(State::new(fids, ReplyTable::load(view)?, epoch)))
}

/// A root directory.
pub(crate) fn root_inode(new: &NewNode<'_>, now: u64) -> Inode {
    Inode { parent: fids::ROOT, ..new.inode(fids::ROOT, Kind::Dir, now) }
}

/// Takes replies apart. A reply of another shape means that an xid was used for two operations.
impl Reply {
    fn mismatch<T>() -> Result<T> {
        Err(Error::new(Errno::EPROTO, "resend", "the client used the xid for another operation before"))
    }

    pub(crate) fn done(self) -> Result<()> {
        match self {
            Reply::Done => Ok(()),
            _ => Self::mismatch(),
        }
    }

    pub(crate) fn node(self) -> Result<(Inode, bool)> {
        match self {
            Reply::Node { inode, created } => Ok((inode, created)),
            _ => Self::mismatch(),
        }
    }

    pub(crate) fn maybe_removed(self) -> Result<Option<Removed>> {
        match self {
            Reply::Removed(removed) => Ok(removed),
            _ => Self::mismatch(),
        }
    }

    pub(crate) fn removed(self) -> Result<Removed> {
        self.maybe_removed()?.map_or_else(Self::mismatch, Ok)
    }
}
