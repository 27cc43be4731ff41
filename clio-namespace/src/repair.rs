//! Making the records of a store fit together again. Nothing is thrown away: inodes without a name go to
//! `/lost+found`, records that can't be read are kept aside.

use crate::check::Finding;
use crate::fids;
use crate::kv::{Batch, Space};
use crate::namespace::{Namespace, OpCtx, State, root_inode};
use crate::ops::create::{NewNode, add};
use crate::record::{Entry, Inode, Kind, Reply, Unlinked, entry_key};
use crate::txn::Txn;
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};

/// Where inodes without a name go.
const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Under this prefix in the meta space lie the records that could not be read.
const ASIDE: &[u8] = b"damaged/";
/// A repair can bring something to light that it hid; it takes a few rounds at most.
const MAX_ROUNDS: usize = 32;

impl Namespace {
    /// Repairs all that [`Namespace::check`] finds; gives all that was found. New directories are dated `now`
    /// (nanoseconds since 1970). Other operations wait; files may be open.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a newer release wrote some records, nothing was changed. `EIO`: the store can't be read or
    /// written, or is still not clean.
    pub fn repair(&self, now: u64) -> Result<Vec<Finding>> {
        let mut state = self.state();
        let mut all = Vec::new();
        self.commit(&mut state, Batch::default())?;
        for _ in 0..MAX_ROUNDS {
            let report = self.check()?;
            if report.is_clean() {
                return Ok(all);
            }
            if report.findings.iter().any(|f| matches!(f, Finding::Unreadable { newer: true, .. })) {
                let why = "a newer Clio release wrote some of the records; repair the store with that one";
                return Err(Error::new(Errno::EOPNOTSUPP, "repair", why));
            }
            // Directories first: once they are back, what is in them fits again.
            let lost = |f: &Finding| matches!(f, Finding::MissingRoot | Finding::LostDirectory { .. });
            let only_lost = report.findings.iter().any(lost);
            for finding in report.findings {
                if only_lost && !lost(&finding) && !matches!(finding, Finding::Unreadable { .. }) {
                    continue;
                }
                self.fix(&mut state, &finding, now)?;
                all.push(finding);
            }
        }
        Err(Error::new(Errno::EIO, "repair", "the store is still not clean; restore it from a copy"))
    }

    fn fix(&self, state: &mut State, finding: &Finding, now: u64) -> Result<()> {
        tracing::warn!(target: "clio::namespace", %finding, "repairing");
        state.dirs.clear();
        match finding {
            Finding::Unreadable { space, key, .. } => self.put_aside(space, key),
            Finding::MissingRoot => {
                let root = root_inode(&NewNode::new(0o755, 0, 0), now);
                let mut batch = Batch::default();
                batch.put(Space::Inodes, fids::ROOT.to_bytes(), root.encode());
                self.kv.commit(batch)
            }
            Finding::LostDirectory { dir, fid, .. } => {
                let inode = Inode { parent: *dir, ..NewNode::new(0o700, 0, 0).inode(*fid, Kind::Dir, now) };
                let mut batch = Batch::default();
                batch.put(Space::Inodes, fid.to_bytes(), inode.encode());
                self.kv.commit(batch)
            }
            Finding::EntryInNoDirectory(dir, name) | Finding::Dangling(dir, name) | Finding::SecondName(dir, name) => {
                let mut batch = Batch::default();
                batch.remove(Space::Entries, entry_key(*dir, name));
                self.kv.commit(batch)
            }
            Finding::WrongKind(dir, name) => self.repair_step(state, now, |txn| {
                if let Some(entry) = txn.records.entry(*dir, name)? {
                    let kind = txn.inode(entry.fid)?.kind;
                    txn.put_entry(*dir, name, Entry { kind, ..entry });
                }
                Ok(())
            }),
            Finding::WrongInode { fid, what, counted, .. } => self.edit(state, *fid, |inode| match *what {
                "link count" => inode.nlink = *counted as u32,
                "count of entries" => inode.entries = *counted,
                _ => inode.orphan = false,
            }),
            Finding::WrongParent { fid, parent } => self.edit(state, *fid, |inode| inode.parent = *parent),
            Finding::Unreachable(fid) => self.repair_step(state, now, |txn| attach(txn, *fid)),
            Finding::Ring(fid) => self.open_ring(*fid),
            Finding::WrongUnlinked(fid) => self.repair_step(state, now, |txn| {
                let orphan = match txn.inode(*fid) {
                    Ok(inode) => inode.orphan,
                    Err(e) if e.errno() == Errno::ENOENT => false,
                    Err(e) => return Err(e),
                };
                txn.set_unlinked(*fid, orphan.then_some(&Unlinked::Orphan));
                Ok(())
            }),
            Finding::FidAhead(fid) => {
                let mut range = state.fids;
                range.skip(*fid);
                let mut batch = Batch::default();
                batch.put(Space::Meta, fids::KEY, range.encode());
                self.kv.commit(batch)?;
                state.fids = range;
                Ok(())
            }
        }
    }

    fn repair_step(&self, state: &mut State, now: u64, step: impl FnOnce(&mut Txn<'_>) -> Result<()>) -> Result<()> {
        self.run(state, "repair", &OpCtx::at(now), |txn| step(txn).map(|()| Reply::Done))?.done()
    }

    fn edit(&self, state: &mut State, fid: Fid, change: impl FnOnce(&mut Inode)) -> Result<()> {
        self.repair_step(state, 0, |txn| {
            change(txn.edit(fid)?);
            Ok(())
        })
    }

    fn put_aside(&self, space: &str, key: &[u8]) -> Result<()> {
        let Some(space) = Space::ALL.into_iter().find(|s| s.name() == space) else { return Ok(()) };
        let Some(record) = self.kv.view().get(space, key)? else { return Ok(()) };
        let mut batch = Batch::default();
        batch.put(Space::Meta, [ASIDE, space.name().as_bytes(), b"/", key].concat(), record.to_vec());
        batch.remove(space, key);
        self.kv.commit(batch)
    }

    /// Removes the one entry of directory `fid`; the next round finds it without a name.
    fn open_ring(&self, fid: Fid) -> Result<()> {
        let mut batch = Batch::default();
        self.kv.view().scan(Space::Entries, &[], None, &mut |key, value| {
            if Entry::decode(value).is_ok_and(|e| e.fid == fid) {
                batch.remove(Space::Entries, key);
                return Ok(std::ops::ControlFlow::Break(()));
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        self.kv.commit(batch)
    }
}

/// Gives the inode `fid`, which has no name, one in `/lost+found`.
fn attach(txn: &mut Txn<'_>, fid: Fid) -> Result<()> {
    let home = lost_and_found(txn)?;
    let kind = txn.inode(fid)?.kind;
    txn.put_entry(home, fid.to_string().as_bytes(), Entry { fid, kind });
    txn.update_dir(home, 1, i32::from(kind == Kind::Dir))?;
    let inode = txn.edit(fid)?;
    match kind {
        Kind::Dir => inode.parent = home,
        _ => inode.nlink = 1,
    }
    Ok(())
}

/// The directory for what has no name, made if need be.
fn lost_and_found(txn: &mut Txn<'_>) -> Result<Fid> {
    let mut name = LOST_AND_FOUND.to_vec();
    loop {
        match txn.records.entry(Namespace::ROOT, &name)? {
            Some(Entry { fid, kind: Kind::Dir }) => return Ok(fid),
            Some(_) => name.push(b'+'), // somebody's file has that name
            None => {
                let made = add(txn, Namespace::ROOT, &name, Kind::Dir, &NewNode::new(0o700, 0, 0), &[])?;
                return Ok(made.node()?.0.fid);
            }
        }
    }
}

#[cfg(test)]
mod tests;
