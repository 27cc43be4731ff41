//! One operation in the making: reads a view, edits inodes in memory, ends as a batch.

use crate::fids::{self, FidRange};
use crate::kv::{Batch, Space};
use crate::limits::MAX_LINKS;
use crate::namespace::State;
use crate::record::{Doomed, Entry, Inode, Kind, Removed, Unlinked, entry_key};
use crate::records::{Records, check_dir, dangling};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use smallvec::SmallVec;
use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Clean,
    Dirty,
    Gone,
}

struct Slot {
    inode: Inode,
    state: SlotState,
}

/// See the module. Inodes are read once and edited in place, so that an operation which meets one inode in two
/// roles (both directories of a rename, say) sees its own edits. Entries are written through: none is read after.
pub(crate) struct Txn<'v> {
    pub(crate) records: Records<'v>,
    /// Time of the operation, nanoseconds since 1970.
    pub(crate) now: u64,
    state: &'v State,
    fids: FidRange,
    slots: SmallVec<[Slot; 4]>,
    batch: Batch,
}

impl<'v> Txn<'v> {
    pub(crate) fn new(records: Records<'v>, now: u64, state: &'v State) -> Self {
        Self { records, now, state, fids: state.fids, slots: SmallVec::new(), batch: Batch::default() }
    }

    /// An error of this operation.
    pub(crate) fn err(&self, errno: Errno, why: &'static str) -> Error {
        self.records.err(errno, why)
    }

    fn slot(&mut self, fid: Fid) -> Result<&mut Slot> {
        let at = match self.slots.iter().position(|s| s.inode.fid == fid) {
            Some(at) => at,
            None => {
                let inode = match self.state.dirs.get(fid) {
                    Some(dir) => dir.clone(),
                    None => self.records.inode(fid)?,
                };
                self.slots.push(Slot { inode, state: SlotState::Clean });
                self.slots.len() - 1
            }
        };
        match self.slots[at].state {
            SlotState::Gone => Err(self.err(Errno::ENOENT, "removed by this operation").on(fid)),
            _ => Ok(&mut self.slots[at]),
        }
    }

    /// The inode `fid`, as a caller names it. `ENOENT`: there is none.
    pub(crate) fn inode(&mut self, fid: Fid) -> Result<&Inode> {
        self.slot(fid).map(|s| &s.inode)
    }

    /// The inode `fid`, to be changed; it is written at the end.
    pub(crate) fn edit(&mut self, fid: Fid) -> Result<&mut Inode> {
        self.slot(fid).map(|s| {
            s.state = SlotState::Dirty;
            &mut s.inode
        })
    }

    /// The inode that `entry` stands for. `EIO`: there is none, which is damage.
    pub(crate) fn entry_inode(&mut self, entry: Entry) -> Result<&Inode> {
        let op = self.records.op;
        self.inode(entry.fid).map_err(|e| match e.errno() {
            Errno::ENOENT => dangling(op, entry.fid),
            _ => e,
        })
    }

    /// The directory `fid`. `ENOENT`: removed; `ENOTDIR`: something else.
    pub(crate) fn dir(&mut self, fid: Fid) -> Result<&Inode> {
        let op = self.records.op;
        let inode = self.inode(fid)?;
        check_dir(op, inode)?;
        Ok(inode)
    }

    /// A new inode under a new FID.
    pub(crate) fn add_inode(&mut self, make: impl FnOnce(Fid) -> Inode) -> Result<Inode> {
        let (fid, grew) = self.fids.allocate()?;
        if grew {
            self.batch.put(Space::Meta, fids::KEY, self.fids.encode());
        }
        let inode = make(fid);
        self.slots.push(Slot { inode: inode.clone(), state: SlotState::Dirty });
        Ok(inode)
    }

    /// Writes the entry `name` of `dir`. The directory's counts are the caller's business.
    pub(crate) fn put_entry(&mut self, dir: Fid, name: &[u8], entry: Entry) {
        self.batch.put(Space::Entries, entry_key(dir, name), entry.encode());
    }

    /// Removes the entry `name` of `dir`. The directory's counts are the caller's business.
    pub(crate) fn remove_entry(&mut self, dir: Fid, name: &[u8]) {
        self.batch.remove(Space::Entries, entry_key(dir, name));
    }

    /// Writes or removes the record of an inode without a name.
    pub(crate) fn set_unlinked(&mut self, fid: Fid, record: Option<&Unlinked>) {
        match record {
            Some(r) => self.batch.put(Space::Unlinked, fid.to_bytes(), r.encode()),
            None => self.batch.remove(Space::Unlinked, fid.to_bytes()),
        }
    }

    /// Books a change of a directory's entries: counts (`subdirs` is what changes its link count) and times.
    pub(crate) fn update_dir(&mut self, dir: Fid, entries: i64, subdirs: i32) -> Result<()> {
        let now = self.now;
        let inode = self.edit(dir)?;
        let counts = (inode.entries.checked_add_signed(entries), inode.nlink.checked_add_signed(subdirs));
        (inode.mtime, inode.ctime) = (now, now);
        match counts {
            (Some(e), Some(n)) => {
                (inode.entries, inode.nlink) = (e, n);
                Ok(())
            }
            _ => Err(self.err(Errno::EIO, "the directory's counts are wrong; run `clio check --repair`").on(dir)),
        }
    }

    /// Adds a link to `fid`, which isn't a directory. `EMLINK`: it has as many as it can.
    pub(crate) fn add_link(&mut self, fid: Fid) -> Result<()> {
        if self.inode(fid)?.nlink >= MAX_LINKS {
            return Err(self.err(Errno::EMLINK, "the file has 65000 links, the most there can be; copy it").on(fid));
        }
        let now = self.now;
        let inode = self.edit(fid)?;
        inode.nlink += 1;
        inode.ctime = now;
        Ok(())
    }

    /// Whether somebody has `fid` open.
    pub(crate) fn is_open(&self, fid: Fid) -> bool {
        self.state.open.contains_key(&fid)
    }

    /// Takes a name from `fid`, a directory's only one. The last one that goes takes the inode with it, or makes it
    /// an orphan if it is open.
    pub(crate) fn drop_link(&mut self, fid: Fid) -> Result<Removed> {
        let now = self.now;
        let open = self.is_open(fid);
        let inode = self.edit(fid)?;
        let kind = inode.kind;
        inode.nlink = if kind == Kind::Dir { 0 } else { inode.nlink.saturating_sub(1) };
        inode.ctime = now;
        let nlink = inode.nlink;
        let mut destroy = None;
        if nlink == 0 && open {
            inode.orphan = true;
            self.set_unlinked(fid, Some(&Unlinked::Orphan));
        } else if nlink == 0 {
            destroy = self.drop_inode(fid)?;
        }
        Ok(Removed { fid, kind, nlink, destroy })
    }

    /// Removes the inode `fid`; a file's objects are remembered as doomed and returned.
    pub(crate) fn drop_inode(&mut self, fid: Fid) -> Result<Option<Doomed>> {
        let slot = self.slot(fid)?;
        slot.state = SlotState::Gone;
        if slot.inode.kind != Kind::File {
            self.set_unlinked(fid, None);
            return Ok(None);
        }
        let layout = std::mem::take(&mut slot.inode.layout);
        self.set_unlinked(fid, Some(&Unlinked::Doomed { layout: layout.clone() }));
        Ok(Some(Doomed { fid, layout }))
    }

    /// What is to be committed, and to be kept in mind once it is.
    pub(crate) fn finish(mut self) -> Planned {
        let mut dirs = SmallVec::new();
        for slot in self.slots {
            let (fid, is_dir) = (slot.inode.fid, slot.inode.kind == Kind::Dir);
            match slot.state {
                SlotState::Clean => {}
                SlotState::Dirty => self.batch.put(Space::Inodes, fid.to_bytes(), slot.inode.encode()),
                SlotState::Gone => self.batch.remove(Space::Inodes, fid.to_bytes()),
            }
            if is_dir {
                dirs.push((fid, (slot.state != SlotState::Gone).then_some(slot.inode)));
            }
        }
        Planned { batch: self.batch, fids: self.fids, dirs }
    }
}

/// An operation, planned but not committed.
pub(crate) struct Planned {
    pub(crate) batch: Batch,
    /// What is left of the FIDs.
    pub(crate) fids: FidRange,
    /// The directories it met, as they are afterwards; `None` for one that is gone.
    pub(crate) dirs: SmallVec<[(Fid, Option<Inode>); 2]>,
}

/// The directories that changed lately, so that the next change of one needs not read it. Directories only: they
/// are what one operation after another meets.
#[derive(Debug, Default)]
pub(crate) struct DirCache(HashMap<Fid, Inode>);

impl DirCache {
    /// Most directories kept; then all are dropped.
    const MAX: usize = 256;

    fn get(&self, fid: Fid) -> Option<&Inode> {
        self.0.get(&fid)
    }

    /// Takes in what an operation that has been committed left.
    pub(crate) fn update(&mut self, dirs: impl IntoIterator<Item = (Fid, Option<Inode>)>) {
        for (fid, inode) in dirs {
            if self.0.len() >= Self::MAX {
                self.0.clear();
            }
            match inode {
                Some(inode) => drop(self.0.insert(fid, inode)),
                None => drop(self.0.remove(&fid)),
            }
        }
    }

    /// Forgets all: the records were changed past it.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
