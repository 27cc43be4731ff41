//! Whom an operation is done for, and what that one may do with an inode.

use crate::record::{Inode, Kind};
use clio_core::{Errno, Error, Result};
use std::ops::BitOr;

/// Set-user-ID.
pub(crate) const SETUID: u32 = 0o4000;
/// Set-group-ID: on a directory, what is made in it gets its group.
pub(crate) const SETGID: u32 = 0o2000;
/// Sticky: from such a directory, names are removed by the owner of it or of what they name alone.
pub(crate) const STICKY: u32 = 0o1000;
pub(crate) const GROUP_EXECUTE: u32 = 0o010;

/// Kinds of access to an inode: any of read, write and execute, which for a directory is search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access(u8);

impl Access {
    /// None: the inode need only be there.
    pub const NONE: Access = Access(0);
    /// Reading data, or listing a directory.
    pub const READ: Access = Access(4);
    /// Writing data, or changing a directory's entries.
    pub const WRITE: Access = Access(2);
    /// Executing, or searching a directory.
    pub const EXECUTE: Access = Access(1);

    /// As three bits, in the order of a mode's.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The inverse of [`Access::bits`]; other bits are ignored.
    pub fn from_bits(bits: u8) -> Access {
        Access(bits & 7)
    }

    /// Whether it has all of `other`.
    pub fn includes(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Access;
    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Effective user, group and supplementary groups of whoever asks for an operation. User 0 is the superuser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    uid: u32,
    gid: u32,
    /// Sorted.
    groups: Vec<u32>,
}

/// The superuser: for what a store does by itself.
pub(crate) static SUPERUSER: Caller = Caller { uid: 0, gid: 0, groups: Vec::new() };

impl Caller {
    /// A caller with effective user `uid`, group `gid` and the supplementary `groups`.
    pub fn new(uid: u32, gid: u32, mut groups: Vec<u32>) -> Self {
        groups.sort_unstable();
        Self { uid, gid, groups }
    }

    /// Effective user.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Effective group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    pub(crate) fn is_superuser(&self) -> bool {
        self.uid == 0
    }

    /// Whether `gid` is one of the caller's groups.
    fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// Whether the caller may do what members of `gid` may.
    pub(crate) fn acts_for_group(&self, gid: u32) -> bool {
        self.is_superuser() || self.is_in(gid)
    }

    /// Whether the caller may do what the owner of `inode` may.
    pub(crate) fn acts_for_owner(&self, inode: &Inode) -> bool {
        self.is_superuser() || self.uid == inode.uid
    }

    /// Whether the caller has all of `wanted` to `inode`. The bits of the first class that it is in count: owner, group,
    /// others. The superuser has all, but for executing what nobody may execute.
    pub fn may(&self, inode: &Inode, wanted: Access) -> bool {
        let mode = inode.mode;
        if self.is_superuser() {
            return !wanted.includes(Access::EXECUTE) || inode.kind == Kind::Dir || mode & 0o111 != 0;
        }
        let class = match inode.uid == self.uid {
            true => 6,
            false if self.is_in(inode.gid) => 3,
            false => 0,
        };
        Access::from_bits((mode >> class) as u8).includes(wanted)
    }

    /// That [`Caller::may`].
    ///
    /// # Errors
    /// `EACCES`.
    pub(crate) fn check(&self, op: &'static str, inode: &Inode, wanted: Access) -> Result<()> {
        match self.may(inode, wanted) {
            true => Ok(()),
            false => Err(Error::new(Errno::EACCES, op, "permission denied by its mode and owner").on(inode.fid)),
        }
    }

    /// The mode that `inode` has once the caller has written to it or changed its owner: the set-ID bits go that would give
    /// others' rights to what the caller made of it.
    pub(crate) fn mode_without_ids(&self, inode: &Inode) -> u32 {
        let mode = inode.mode & !SETUID;
        let is_lent = mode & GROUP_EXECUTE != 0 || !self.acts_for_group(inode.gid);
        if is_lent { mode & !SETGID } else { mode }
    }

    /// Whether a sticky `dir` keeps the caller from removing or renaming the name of `inode` in it.
    pub(crate) fn is_kept_by_sticky(&self, dir: &Inode, inode: &Inode) -> bool {
        dir.mode & STICKY != 0 && !self.acts_for_owner(dir) && !self.acts_for_owner(inode)
    }
}
