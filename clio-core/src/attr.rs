//! Attributes of objects, and the lock value block that the lock manager carries.

use bitflags::bitflags;

/// Attributes that all layers share. Times are nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "cl_attr")]
pub struct Attr {
    /// Size in bytes, as far as this client knows; exact under a lock that reaches EOF.
    pub size: u64,
    /// Known minimum size in bytes: never above the true size while a lock is held.
    pub kms: u64,
    /// Space in use, in 512-byte units.
    pub blocks: u64,
    /// Last read.
    pub atime: u64,
    /// Last change of data.
    pub mtime: u64,
    /// Last change of attributes.
    pub ctime: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

bitflags! {
    /// Which attributes a call is about.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AttrMask: u32 {
        /// [`Attr::size`]
        const SIZE = 1;
        /// [`Attr::kms`]
        const KMS = 2;
        /// [`Attr::blocks`]
        const BLOCKS = 4;
        /// [`Attr::atime`]
        const ATIME = 8;
        /// [`Attr::mtime`]
        const MTIME = 16;
        /// [`Attr::ctime`]
        const CTIME = 32;
        /// [`Attr::uid`]
        const UID = 64;
        /// [`Attr::gid`]
        const GID = 128;
        /// All three times.
        const TIMES = Self::ATIME.bits() | Self::MTIME.bits() | Self::CTIME.bits();
    }
}

/// Lock value block: what a lock's grant or a glimpse tells of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lvb {
    /// Size in bytes.
    pub size: u64,
    /// Space in use, in 512-byte units.
    pub blocks: u64,
    /// Last change of data, nanoseconds since 1970.
    pub mtime: u64,
    /// Last read, nanoseconds since 1970.
    pub atime: u64,
    /// Last change of attributes, nanoseconds since 1970.
    pub ctime: u64,
}

impl Lvb {
    /// The newer of both for every field: sizes and times only grow between truncates.
    pub fn merge(self, o: Lvb) -> Lvb {
        Lvb {
            size: self.size.max(o.size),
            blocks: self.blocks.max(o.blocks),
            mtime: self.mtime.max(o.mtime),
            atime: self.atime.max(o.atime),
            ctime: self.ctime.max(o.ctime),
        }
    }
}
