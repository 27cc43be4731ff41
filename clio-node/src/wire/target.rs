//! Requests to targets and their answers: the messages of [`clio_core::target`], with arena offsets for memory.

use serde::{Deserialize, Serialize};

/// A FID, as [`clio_core::units::Fid::to_bytes`] has it.
type WireFid = [u8; 16];

/// A piece of bulk data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WireSegment {
    /// Byte offset in the object.
    pub offset: u64,
    /// Byte offset in the client's arena.
    pub at: u64,
    /// Bytes.
    pub len: u32,
}

/// Mode of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WireMode {
    /// Protected read.
    Pr,
    /// Protected write.
    Pw,
    /// Group of this id.
    Group(u64),
    /// Exclusive.
    Ex,
}

/// How an enqueue behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WireFlags {
    /// As in [`clio_core::target::EnqueueFlags`].
    pub try_lock: bool,
    /// As there.
    pub glimpse: bool,
    /// As there.
    pub mandatory: bool,
    /// As there.
    pub exact: bool,
}

/// Attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WireAttr {
    /// Size, KMS, blocks, atime, mtime, ctime.
    pub words: [u64; 6],
    /// Owner and group.
    pub owner: [u32; 2],
}

/// A lock value block: size, blocks, mtime, atime, ctime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WireLvb(pub [u64; 5]);

/// As [`clio_core::target::Op`]; ranges are start and end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the operation that it stands for")]
pub enum WireOp {
    Create(WireFid),
    Destroy(WireFid),
    Read {
        fid: WireFid,
        bulk: Vec<WireSegment>,
        checksum: bool,
    },
    Write {
        fid: WireFid,
        bulk: Vec<WireSegment>,
        checksum: Option<u32>,
        lock: Option<u64>,
        grant: u64,
        mtime: u64,
        sync: bool,
    },
    Punch {
        fid: WireFid,
        range: (u64, u64),
        lock: Option<u64>,
        mtime: u64,
    },
    GetAttr(WireFid),
    SetAttr {
        fid: WireFid,
        attr: WireAttr,
        mask: u32,
    },
    Sync(WireFid),
    Seek {
        fid: WireFid,
        offset: u64,
        hole: bool,
    },
    StatFs,
    Enqueue {
        fid: WireFid,
        range: (u64, u64),
        mode: WireMode,
        flags: WireFlags,
    },
    Cancel(u64),
    ReturnGrant(u64),
    Disconnect,
}

/// As [`clio_core::target::Reply`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the reply that it stands for")]
pub enum WireReply {
    Done,
    Read { size: u64, checksum: Option<u32> },
    Written { grant: u64, lvb: WireLvb },
    Attr(WireAttr),
    Offset(u64),
    StatFs { total: u64, free: u64, objects: u64 },
    Granted { handle: Option<u64>, mode: WireMode, range: (u64, u64), lvb: WireLvb, grant: u64, blocking: bool },
}
