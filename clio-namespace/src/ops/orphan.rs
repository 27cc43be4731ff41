//! Open files that have lost their names, and what a crash left of them.

use crate::caller::Access;
use crate::kv::{Batch, Space};
use crate::namespace::{Namespace, OpCtx, State};
use crate::record::{Doomed, Kind, Removed, Reply, Unlinked};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use std::ops::ControlFlow;

/// Reports of destroyed objects that wait for a batch at most.
const MAX_DESTROYED_WAITING: usize = 32;

impl Namespace {
    /// Notes that `fid` is open once more. While it is, losing its last name makes it an orphan, which stays whole;
    /// an orphan can be opened again. The count lives in memory: after a crash, whoever takes files over opens them
    /// again, and reclaims the other [`Namespace::orphans`].
    ///
    /// # Errors
    /// `ENOENT`: it is gone; resolve the path again. `EIO`.
    pub fn open_ref(&self, fid: Fid) -> Result<()> {
        let mut state = self.state();
        self.read("open", |records| records.inode(fid))?;
        count_open(&mut state, fid)
    }

    /// As [`Namespace::open_ref`], if the caller may access it so. Opening for writing by anybody but the superuser
    /// takes away set-ID bits, as a write would: what comes to be in the file isn't its owner's alone.
    ///
    /// # Errors
    /// `EACCES`; as [`Namespace::open_ref`].
    pub fn open_for(&self, ctx: &OpCtx<'_>, fid: Fid, access: Access) -> Result<()> {
        let mut state = self.state();
        let inode = self.read("open", |records| records.inode(fid))?;
        ctx.caller.check("open", &inode, access)?;
        let mode = ctx.caller.mode_without_ids(&inode);
        let writes = access.includes(Access::WRITE) && inode.kind == Kind::File && !ctx.caller.is_superuser();
        if writes && mode != inode.mode {
            self.run(&mut state, "open", &OpCtx { id: None, ..*ctx }, |txn| {
                let now = txn.now;
                let inode = txn.edit(fid)?;
                (inode.mode, inode.ctime) = (mode, now);
                Ok(Reply::Done)
            })?;
        }
        count_open(&mut state, fid)
    }

    /// Files and folders that are open, each counted once.
    pub fn open_files(&self) -> usize {
        self.state().open.len()
    }

    /// Takes back one [`Namespace::open_ref`]. The last one removes an orphan: then the reply has a file's objects,
    /// which are to be destroyed now.
    ///
    /// # Errors
    /// `EBADF`: it isn't open. `EIO`: the orphan stays until it is reclaimed; it counts as closed all the same.
    pub fn close_ref(&self, fid: Fid) -> Result<Option<Doomed>> {
        let mut state = self.state();
        match state.open.get_mut(&fid) {
            None => return Err(Error::new(Errno::EBADF, "close", "it isn't open").on(fid)),
            Some(count) if *count > 1 => {
                *count -= 1;
                return Ok(None);
            }
            Some(_) => state.open.remove(&fid),
        };
        if !self.read("close", |records| records.inode(fid))?.orphan {
            return Ok(None);
        }
        self.drop_orphan(&mut state, "close", fid)
    }

    fn drop_orphan(&self, state: &mut State, op: &'static str, fid: Fid) -> Result<Option<Doomed>> {
        let reply = self.run(state, op, &OpCtx::at(0), |txn| {
            let kind = txn.inode(fid)?.kind;
            let destroy = txn.drop_inode(fid)?;
            Ok(Reply::Removed(Some(Removed { fid, kind, nlink: 0, destroy })))
        })?;
        Ok(reply.removed()?.destroy)
    }

    /// All files and directories without a name: those that somebody has open, and those that a crash left.
    ///
    /// # Errors
    /// `EBADMSG`: a record is damaged; `EIO`.
    pub fn nameless(&self) -> Result<Vec<Fid>> {
        let all = self.unlinked()?;
        Ok(all.into_iter().filter(|(_, record)| *record == Unlinked::Orphan).map(|(fid, _)| fid).collect())
    }

    /// The orphans that nobody has open: what a crash left. Each is to be reclaimed, or opened by whoever still
    /// uses it.
    ///
    /// # Errors
    /// `EBADMSG`: a record is damaged; `EIO`.
    pub fn orphans(&self) -> Result<Vec<Fid>> {
        let state = self.state();
        let all = self.unlinked()?;
        let orphans = all.into_iter().filter(|(_, record)| *record == Unlinked::Orphan).map(|(fid, _)| fid);
        Ok(orphans.filter(|fid| !state.open.contains_key(fid)).collect())
    }

    /// Removes an orphan that nobody has open. The reply has a file's objects, which are to be destroyed now.
    ///
    /// # Errors
    /// `EBUSY`: it is open. `EINVAL`: it still has a name. `ENOENT`; `EIO`.
    pub fn reclaim(&self, fid: Fid) -> Result<Option<Doomed>> {
        let mut state = self.state();
        if state.open.contains_key(&fid) {
            return Err(Error::new(Errno::EBUSY, "reclaim", "it is open").on(fid));
        }
        if !self.read("reclaim", |records| records.inode(fid))?.orphan {
            return Err(Error::new(Errno::EINVAL, "reclaim", "it still has a name").on(fid));
        }
        self.drop_orphan(&mut state, "reclaim", fid)
    }

    /// All files that have left the namespace and whose objects have not been reported destroyed: those of a crash,
    /// and those that are being destroyed right now. Destroying an object twice must do no harm, and does none.
    ///
    /// # Errors
    /// `EBADMSG`: a record is damaged; `EIO`.
    pub fn to_destroy(&self) -> Result<Vec<Doomed>> {
        let state = self.state();
        let doomed = self.unlinked()?.into_iter().filter_map(|(fid, record)| match record {
            Unlinked::Doomed { layout } if !state.destroyed.contains(&fid) => Some(Doomed { fid, layout }),
            _ => None,
        });
        Ok(doomed.collect())
    }

    /// The objects of `fid`, which has left the namespace, are destroyed: it is forgotten. Doing it twice is fine.
    /// That costs no batch of its own: it goes with the next operation, or a later call of this, or a sync. A crash
    /// before that makes [`Namespace::to_destroy`] name the file once more.
    ///
    /// # Errors
    /// `EBUSY`: `fid` is open, so that nobody was told to destroy its objects. `EIO`.
    pub fn destroyed(&self, fid: Fid) -> Result<()> {
        let mut state = self.state();
        if state.open.contains_key(&fid) {
            return Err(Error::new(Errno::EBUSY, "destroyed", "the file is open").on(fid));
        }
        state.destroyed.push(fid);
        match state.destroyed.len() {
            0..MAX_DESTROYED_WAITING => Ok(()),
            _ => self.commit(&mut state, Batch::default()),
        }
    }

    fn unlinked(&self) -> Result<Vec<(Fid, Unlinked)>> {
        let mut all = Vec::new();
        self.kv.view().scan(Space::Unlinked, &[], None, &mut |key, value| {
            // A key of another length is damage, which the check reports: there is nothing to give back for it.
            if let Ok(key) = key.try_into() {
                let fid = Fid::from_bytes(key);
                all.push((fid, Unlinked::decode(value).map_err(|e| e.on(fid))?));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }
}

fn count_open(state: &mut State, fid: Fid) -> Result<()> {
    let count = state.open.entry(fid).or_insert(0);
    *count = count.checked_add(1).ok_or_else(|| Error::new(Errno::ENFILE, "open", "open too often").on(fid))?;
    Ok(())
}
