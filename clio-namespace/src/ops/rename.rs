//! Rename, with all its cases.

use super::create::exists;
use super::remove::named;
use super::rights::{may_change_entries, may_move, may_remove};
use crate::namespace::{Namespace, OpCtx};
use crate::record::{Entry, Kind, Removed, Reply};
use crate::records::check_name;
use crate::txn::Txn;
use clio_core::units::Fid;
use clio_core::{Errno, Result};

/// What a rename does with what is at the new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replaces it: a directory an empty directory, anything else anything else.
    Replace,
    /// Fails with `EEXIST` (RENAME_NOREPLACE).
    NoReplace,
    /// Gives it the old name; it must exist (RENAME_EXCHANGE).
    Exchange,
}

/// Directories above each other before a chain of parents is taken for damage.
const MAX_DEPTH: usize = 1 << 20;

impl Namespace {
    /// Renames `name` of directory `dir` to `new_name` of directory `new_dir`, atomically. Where both are names of
    /// one file, nothing happens. What it replaced is in the reply, and to be treated as after
    /// [`Namespace::unlink`].
    ///
    /// # Errors
    /// `EACCES`: a directory may not be changed, or not be moved. `EPERM`: one is sticky.
    /// `ENOENT`: no `name`, or none to exchange with. `EEXIST` for [`RenameMode::NoReplace`]. `EINVAL`: a directory
    /// would go below itself. `ENOTEMPTY`: the one to replace has entries, or holds the old name. `ENOTDIR`: a
    /// directory would replace something else; `EISDIR`: the reverse. `ENOENT`, `ENOTDIR` for the directories;
    /// `ENAMETOOLONG`, `EINVAL` for the names; `EMLINK`; `EIO`.
    pub fn rename(
        &self,
        ctx: &OpCtx<'_>,
        (dir, name): (Fid, &[u8]),
        (new_dir, new_name): (Fid, &[u8]),
        mode: RenameMode,
    ) -> Result<Option<Removed>> {
        let plan = |txn: &mut Txn<'_>| {
            let (from, to) = (Place { dir, name }, Place { dir: new_dir, name: new_name });
            let moved = named(txn, dir, name)?;
            txn.dir(new_dir)?;
            check_name("rename", new_name)?;
            let there = txn.records.entry(new_dir, new_name)?;
            match (there, mode) {
                (Some(_), RenameMode::NoReplace) => return Err(exists(txn)),
                (None, RenameMode::Exchange) => {
                    return Err(txn.err(Errno::ENOENT, "there is nothing to exchange with"));
                }
                _ => check_loops(txn, (dir, moved), (new_dir, there), mode)?,
            }
            match (there, mode) {
                (Some(there), _) if there.fid == moved.fid => Ok(Reply::Removed(None)),
                (Some(there), RenameMode::Exchange) => exchange(txn, (from, moved), (to, there)),
                (there, _) => replace(txn, (from, moved), (to, there)),
            }
        };
        self.change("rename", ctx, plan)?.maybe_removed()
    }
}

#[derive(Clone, Copy)]
struct Place<'a> {
    dir: Fid,
    name: &'a [u8],
}

/// That neither side lies below the other.
fn check_loops(
    txn: &mut Txn<'_>,
    (dir, moved): (Fid, Entry),
    (new_dir, there): (Fid, Option<Entry>),
    mode: RenameMode,
) -> Result<()> {
    if dir == new_dir {
        return Ok(());
    }
    if moved.kind == Kind::Dir && is_within(txn, new_dir, moved.fid)? {
        return Err(txn.err(Errno::EINVAL, "a directory can't be moved below itself").on(moved.fid));
    }
    match there {
        Some(there) if there.kind == Kind::Dir && is_within(txn, dir, there.fid)? => Err(match mode {
            RenameMode::Exchange => txn.err(Errno::EINVAL, "a directory can't be exchanged with one above it"),
            RenameMode::Replace | RenameMode::NoReplace => {
                txn.err(Errno::ENOTEMPTY, "the directory to replace isn't empty").on(there.fid)
            }
        }),
        _ => Ok(()),
    }
}

/// Whether directory `dir` is `above` or lies below it.
fn is_within(txn: &mut Txn<'_>, mut dir: Fid, above: Fid) -> Result<bool> {
    for _ in 0..MAX_DEPTH {
        if dir == above {
            return Ok(true);
        } else if dir == Namespace::ROOT {
            return Ok(false);
        }
        dir = txn.entry_inode(Entry { fid: dir, kind: Kind::Dir })?.parent;
    }
    Err(txn.err(Errno::EIO, "the directories' parents form a ring; run `clio check --repair`").on(dir))
}

fn replace(
    txn: &mut Txn<'_>,
    (from, moved): (Place<'_>, Entry),
    (to, there): (Place<'_>, Option<Entry>),
) -> Result<Reply> {
    let is_dir = moved.kind == Kind::Dir;
    let mut removed = None;
    may_replace(txn, (from, moved), (to, there))?;
    if let Some(there) = there {
        if is_dir && txn.entry_inode(there)?.entries != 0 {
            return Err(txn.err(Errno::ENOTEMPTY, "the directory to replace isn't empty").on(there.fid));
        }
        removed = Some(txn.drop_link(there.fid)?);
        txn.update_dir(to.dir, -1, -i32::from(is_dir))?;
    } else if is_dir && txn.dir(to.dir)?.nlink == u32::MAX {
        return Err(txn.err(Errno::EMLINK, "the directory has as many subdirectories as it can").on(to.dir));
    }
    relocate(txn, moved, to.dir)?;
    txn.remove_entry(from.dir, from.name);
    txn.put_entry(to.dir, to.name, moved);
    txn.update_dir(from.dir, -1, -i32::from(is_dir))?;
    txn.update_dir(to.dir, 1, i32::from(is_dir))?;
    Ok(Reply::Removed(removed))
}

/// That the caller may, and that a directory meets a directory.
fn may_replace(
    txn: &mut Txn<'_>,
    (from, moved): (Place<'_>, Entry),
    (to, there): (Place<'_>, Option<Entry>),
) -> Result<()> {
    may_remove(txn, from.dir, moved)?;
    match there {
        None => may_change_entries(txn, to.dir)?,
        Some(there) => {
            may_remove(txn, to.dir, there)?;
            match (moved.kind == Kind::Dir, txn.entry_inode(there)?.kind == Kind::Dir) {
                (true, false) => return Err(txn.err(Errno::ENOTDIR, "a directory can't replace something else")),
                (false, true) => return Err(txn.err(Errno::EISDIR, "only a directory can replace a directory")),
                _ => {}
            }
        }
    }
    if from.dir == to.dir { Ok(()) } else { may_move(txn, moved) }
}

fn exchange(txn: &mut Txn<'_>, (from, moved): (Place<'_>, Entry), (to, there): (Place<'_>, Entry)) -> Result<Reply> {
    may_remove(txn, from.dir, moved)?;
    may_remove(txn, to.dir, there)?;
    if from.dir != to.dir {
        may_move(txn, moved)?;
        may_move(txn, there)?;
    }
    relocate(txn, moved, to.dir)?;
    relocate(txn, there, from.dir)?;
    txn.put_entry(from.dir, from.name, there);
    txn.put_entry(to.dir, to.name, moved);
    let [m, t] = [moved, there].map(|e| i32::from(e.kind == Kind::Dir));
    txn.update_dir(from.dir, 0, t - m)?;
    txn.update_dir(to.dir, 0, m - t)?;
    Ok(Reply::Removed(None))
}

/// Dates the inode's change, and says where a directory now is.
fn relocate(txn: &mut Txn<'_>, entry: Entry, dir: Fid) -> Result<()> {
    txn.entry_inode(entry)?;
    let now = txn.now;
    let inode = txn.edit(entry.fid)?;
    inode.ctime = now;
    if inode.kind == Kind::Dir {
        inode.parent = dir;
    }
    Ok(())
}
