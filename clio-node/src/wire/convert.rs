//! Between messages and what they stand for. What comes from a peer is checked here as far as it can be without tables.

use super::{WireAttr, WireFlags, WireIfExists, WireLvb, WireMode, WireOp, WirePath, WireRename, WireReply, WireSet};
use super::{WireSegment, WireXattr};
use clio_core::attr::{Attr, AttrMask, Lvb};
use clio_core::target::{Bulk, DlmHandle, EnqueueFlags, LockMode, Op, Reply};
use clio_core::units::{Extent, Fid};
use clio_core::{Errno, Error, Result};
use clio_namespace::{IfExists, PathAt, RenameMode, SetAttr, XattrMode};

/// The message for `op`, whose bulk data lies where `place` says.
///
/// # Errors
/// What `place` gives.
pub(crate) fn op_to_wire(op: &Op, place: impl FnOnce(&Bulk) -> Result<Vec<WireSegment>>) -> Result<WireOp> {
    Ok(match op {
        Op::Create(fid) => WireOp::Create(fid.to_bytes()),
        Op::Destroy(fid) => WireOp::Destroy(fid.to_bytes()),
        Op::Read { fid, bulk, checksum } => {
            WireOp::Read { fid: fid.to_bytes(), bulk: place(bulk)?, checksum: *checksum }
        }
        Op::Write { fid, bulk, checksum, lock, grant, mtime, sync } => WireOp::Write {
            fid: fid.to_bytes(),
            bulk: place(bulk)?,
            checksum: *checksum,
            lock: lock.map(|l| l.0),
            grant: *grant,
            mtime: *mtime,
            sync: *sync,
        },
        Op::Punch { fid, extent, lock, mtime } => {
            WireOp::Punch { fid: fid.to_bytes(), range: range(*extent), lock: lock.map(|l| l.0), mtime: *mtime }
        }
        Op::GetAttr(fid) => WireOp::GetAttr(fid.to_bytes()),
        Op::SetAttr { fid, attr, mask } => {
            WireOp::SetAttr { fid: fid.to_bytes(), attr: (*attr).into(), mask: mask.bits() }
        }
        Op::Sync(fid) => WireOp::Sync(fid.to_bytes()),
        Op::Seek { fid, offset, hole } => WireOp::Seek { fid: fid.to_bytes(), offset: *offset, hole: *hole },
        Op::StatFs => WireOp::StatFs,
        Op::Enqueue { fid, extent, mode, flags } => WireOp::Enqueue {
            fid: fid.to_bytes(),
            range: range(*extent),
            mode: (*mode).into(),
            flags: WireFlags {
                try_lock: flags.try_lock,
                glimpse: flags.glimpse,
                mandatory: flags.mandatory,
                exact: flags.exact,
            },
        },
        Op::Cancel(handle) => WireOp::Cancel(handle.0),
        Op::ReturnGrant { bytes } => WireOp::ReturnGrant(*bytes),
        Op::Disconnect => WireOp::Disconnect,
    })
}

/// What a peer asks of a target; `find` turns the places of its bulk data into memory.
///
/// # Errors
/// `EINVAL` for values that no client of this release sends, and what `find` gives.
pub(crate) fn op_from_wire(op: WireOp, find: impl FnOnce(Vec<WireSegment>) -> Result<Bulk>) -> Result<Op> {
    Ok(match op {
        WireOp::Create(fid) => Op::Create(Fid::from_bytes(fid)),
        WireOp::Destroy(fid) => Op::Destroy(Fid::from_bytes(fid)),
        WireOp::Read { fid, bulk, checksum } => Op::Read { fid: Fid::from_bytes(fid), bulk: find(bulk)?, checksum },
        WireOp::Write { fid, bulk, checksum, lock, grant, mtime, sync } => {
            let (fid, lock) = (Fid::from_bytes(fid), lock.map(DlmHandle));
            Op::Write { fid, bulk: find(bulk)?, checksum, lock, grant, mtime, sync }
        }
        WireOp::Punch { fid, range, lock, mtime } => {
            Op::Punch { fid: Fid::from_bytes(fid), extent: extent(range)?, lock: lock.map(DlmHandle), mtime }
        }
        WireOp::GetAttr(fid) => Op::GetAttr(Fid::from_bytes(fid)),
        WireOp::SetAttr { fid, attr, mask } => {
            let mask = AttrMask::from_bits(mask).ok_or_else(|| refused("unknown attributes"))?;
            Op::SetAttr { fid: Fid::from_bytes(fid), attr: attr.into(), mask }
        }
        WireOp::Sync(fid) => Op::Sync(Fid::from_bytes(fid)),
        WireOp::Seek { fid, offset, hole } => Op::Seek { fid: Fid::from_bytes(fid), offset, hole },
        WireOp::StatFs => Op::StatFs,
        WireOp::Enqueue { fid, range, mode, flags } => Op::Enqueue {
            fid: Fid::from_bytes(fid),
            extent: extent(range)?,
            mode: mode.into(),
            flags: EnqueueFlags {
                try_lock: flags.try_lock,
                glimpse: flags.glimpse,
                mandatory: flags.mandatory,
                exact: flags.exact,
            },
        },
        WireOp::Cancel(handle) => Op::Cancel(DlmHandle(handle)),
        WireOp::ReturnGrant(bytes) => Op::ReturnGrant { bytes },
        WireOp::Disconnect => Op::Disconnect,
    })
}

fn range(extent: Extent) -> (u64, u64) {
    (extent.start, extent.end)
}

fn extent((start, end): (u64, u64)) -> Result<Extent> {
    match start <= end {
        true => Ok(Extent::new(start, end)),
        false => Err(refused("a range ends before it starts")),
    }
}

fn refused(why: &'static str) -> Error {
    Error::new(Errno::EINVAL, "request", why)
}

impl From<Reply> for WireReply {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Done => WireReply::Done,
            Reply::Read { size, checksum } => WireReply::Read { size, checksum },
            Reply::Written { grant, lvb } => WireReply::Written { grant, lvb: lvb.into() },
            Reply::Attr(attr) => WireReply::Attr(attr.into()),
            Reply::Offset(offset) => WireReply::Offset(offset),
            Reply::StatFs { total, free, objects } => WireReply::StatFs { total, free, objects },
            Reply::Granted { handle, mode, extent, lvb, grant, blocking } => WireReply::Granted {
                handle: handle.map(|h| h.0),
                mode: mode.into(),
                range: range(extent),
                lvb: lvb.into(),
                grant,
                blocking,
            },
        }
    }
}

impl TryFrom<WireReply> for Reply {
    type Error = Error;

    fn try_from(reply: WireReply) -> Result<Self> {
        Ok(match reply {
            WireReply::Done => Reply::Done,
            WireReply::Read { size, checksum } => Reply::Read { size, checksum },
            WireReply::Written { grant, lvb } => Reply::Written { grant, lvb: lvb.into() },
            WireReply::Attr(attr) => Reply::Attr(attr.into()),
            WireReply::Offset(offset) => Reply::Offset(offset),
            WireReply::StatFs { total, free, objects } => Reply::StatFs { total, free, objects },
            WireReply::Granted { handle, mode, range, lvb, grant, blocking } => Reply::Granted {
                handle: handle.map(DlmHandle),
                mode: mode.into(),
                extent: extent(range)?,
                lvb: lvb.into(),
                grant,
                blocking,
            },
        })
    }
}

impl From<LockMode> for WireMode {
    fn from(mode: LockMode) -> Self {
        match mode {
            LockMode::Pr => WireMode::Pr,
            LockMode::Pw => WireMode::Pw,
            LockMode::Group(id) => WireMode::Group(id),
            LockMode::Ex => WireMode::Ex,
        }
    }
}

impl From<WireMode> for LockMode {
    fn from(mode: WireMode) -> Self {
        match mode {
            WireMode::Pr => LockMode::Pr,
            WireMode::Pw => LockMode::Pw,
            WireMode::Group(id) => LockMode::Group(id),
            WireMode::Ex => LockMode::Ex,
        }
    }
}

impl From<Attr> for WireAttr {
    fn from(a: Attr) -> Self {
        Self { words: [a.size, a.kms, a.blocks, a.atime, a.mtime, a.ctime], owner: [a.uid, a.gid] }
    }
}

impl From<WireAttr> for Attr {
    fn from(a: WireAttr) -> Self {
        let ([size, kms, blocks, atime, mtime, ctime], [uid, gid]) = (a.words, a.owner);
        Self { size, kms, blocks, atime, mtime, ctime, uid, gid }
    }
}

impl From<Lvb> for WireLvb {
    fn from(l: Lvb) -> Self {
        Self([l.size, l.blocks, l.mtime, l.atime, l.ctime])
    }
}

impl From<WireLvb> for Lvb {
    fn from(WireLvb([size, blocks, mtime, atime, ctime]): WireLvb) -> Self {
        Self { size, blocks, mtime, atime, ctime }
    }
}

impl From<PathAt<'_>> for WirePath {
    fn from(p: PathAt<'_>) -> Self {
        Self { base: p.base.to_bytes(), path: p.path.to_vec() }
    }
}

impl<'a> From<&'a WirePath> for PathAt<'a> {
    fn from(p: &'a WirePath) -> Self {
        PathAt::new(Fid::from_bytes(p.base), &p.path)
    }
}

impl From<IfExists> for WireIfExists {
    fn from(i: IfExists) -> Self {
        match i {
            IfExists::Fail => WireIfExists::Fail,
            IfExists::Open => WireIfExists::Open,
        }
    }
}

impl From<WireIfExists> for IfExists {
    fn from(i: WireIfExists) -> Self {
        match i {
            WireIfExists::Fail => IfExists::Fail,
            WireIfExists::Open => IfExists::Open,
        }
    }
}

impl From<RenameMode> for WireRename {
    fn from(m: RenameMode) -> Self {
        match m {
            RenameMode::Replace => WireRename::Replace,
            RenameMode::NoReplace => WireRename::NoReplace,
            RenameMode::Exchange => WireRename::Exchange,
        }
    }
}

impl From<WireRename> for RenameMode {
    fn from(m: WireRename) -> Self {
        match m {
            WireRename::Replace => RenameMode::Replace,
            WireRename::NoReplace => RenameMode::NoReplace,
            WireRename::Exchange => RenameMode::Exchange,
        }
    }
}

impl From<XattrMode> for WireXattr {
    fn from(m: XattrMode) -> Self {
        match m {
            XattrMode::Set => WireXattr::Set,
            XattrMode::Create => WireXattr::Create,
            XattrMode::Replace => WireXattr::Replace,
        }
    }
}

impl From<WireXattr> for XattrMode {
    fn from(m: WireXattr) -> Self {
        match m {
            WireXattr::Set => XattrMode::Set,
            WireXattr::Create => XattrMode::Create,
            WireXattr::Replace => XattrMode::Replace,
        }
    }
}

impl From<&SetAttr> for WireSet {
    fn from(s: &SetAttr) -> Self {
        let SetAttr { mode, uid, gid, size_hint, atime, mtime, only_raise_times } = *s;
        Self { mode, uid, gid, size_hint, atime, mtime, only_raise_times }
    }
}

impl From<WireSet> for SetAttr {
    fn from(s: WireSet) -> Self {
        let WireSet { mode, uid, gid, size_hint, atime, mtime, only_raise_times } = s;
        Self { mode, uid, gid, size_hint, atime, mtime, only_raise_times }
    }
}
