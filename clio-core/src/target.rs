//! The interface between the transfer layer (OSC) and whatever stores objects: memory, folders, a daemon, a cluster.
//!
//! A [`Target`] is asynchronous throughout: [`Target::submit`] never blocks on a peer or a disk for longer than it
//! takes to queue the request, and calls the completion exactly once, from any thread, possibly before it returns.
//! The lock manager's callbacks to the client (ASTs) arrive through [`TargetClient`].

use crate::attr::{Attr, AttrMask, Lvb};
use crate::error::{Errno, Error, Result};
use crate::memory::MemRef;
use crate::units::{ClientId, Extent, Fid, TargetIndex};
use smallvec::SmallVec;
use std::fmt::Debug;
use std::sync::Arc;

/// Mode of a lock. Compatible pairs: PR with PR, GROUP with GROUP of the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockMode {
    /// Protected read: many holders, clean pages may be cached.
    Pr,
    /// Protected write: one holder, dirty pages may be cached.
    Pw,
    /// Group: all holders name the same id and cooperate.
    Group(u64),
    /// Exclusive.
    Ex,
}

impl LockMode {
    /// Whether two locks of these modes may overlap.
    pub fn compatible(self, other: LockMode) -> bool {
        match (self, other) {
            (LockMode::Pr, LockMode::Pr) => true,
            (LockMode::Group(a), LockMode::Group(b)) => a == b,
            _ => false,
        }
    }

    /// Whether a lock of this mode serves where `need` is asked for: PW and EX serve PR.
    pub fn serves(self, need: LockMode) -> bool {
        self == need
            || matches!((self, need), (LockMode::Ex, LockMode::Pr | LockMode::Pw) | (LockMode::Pw, LockMode::Pr))
    }

    /// Whether pages may be dirtied under a lock of this mode.
    pub fn can_write(self) -> bool {
        !matches!(self, LockMode::Pr)
    }

    /// The weakest mode that serves both.
    pub fn stronger(self, other: LockMode) -> LockMode {
        if self.serves(other) {
            self
        } else if other.serves(self) {
            other
        } else {
            LockMode::Ex
        }
    }
}

/// Names a lock at its target. Never reused within the life of a target; a later lock has a larger number, below 2^63.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DlmHandle(pub u64);

/// How an enqueue behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EnqueueFlags {
    /// Fail with `EAGAIN` instead of waiting for conflicting locks.
    pub try_lock: bool,
    /// Glimpse: if a conflict exists, grant nothing, but ask the holder of the highest write lock for its LVB
    /// and answer with that.
    pub glimpse: bool,
    /// Never answer `EUSERS`: append, truncate, group locks.
    pub mandatory: bool,
    /// Don't grow the extent beyond what was asked.
    pub exact: bool,
}

/// One piece of bulk data: memory and the byte offset in the object that it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct BulkSegment {
    /// Byte offset in the object.
    pub offset: u64,
    /// The memory: valid until the request's completion has been called.
    pub mem: MemRef,
}

impl BulkSegment {
    /// The bytes of the object that this segment covers.
    pub fn extent(&self) -> Extent {
        Extent::with_len(self.offset, self.mem.len() as u64)
    }
}

/// Vectored bulk data in ascending order of offset, without overlap.
pub type Bulk = SmallVec<[BulkSegment; 8]>;

/// What is asked of a target.
#[derive(Debug)]
pub enum Op {
    /// Make the object; `EEXIST` if it exists.
    Create(Fid),
    /// Remove the object and its data; `ENOENT` if it does not exist.
    Destroy(Fid),
    /// Read into `bulk`. Holes, and what lies beyond the object's end, read as zeros; an object that doesn't
    /// exist reads as an empty one. Replies [`Reply::Read`].
    Read {
        /// Object.
        fid: Fid,
        /// Where the data goes.
        bulk: Bulk,
        /// Whether the reply shall carry a crc32c of the data.
        checksum: bool,
    },
    /// Write from `bulk`, making the object if need be. Replies [`Reply::Written`].
    Write {
        /// Object.
        fid: Fid,
        /// The data.
        bulk: Bulk,
        /// crc32c over all segments in order; the target answers `EBADMSG` if it computes another.
        checksum: Option<u32>,
        /// The lock that covers the write; `None` for a lockless write, for which the target takes its own.
        /// A write under a lock that was evicted is refused with `ESTALE`.
        lock: Option<DlmHandle>,
        /// Bytes of grant that this write uses up; 0 for a synchronous write without grant.
        grant: u64,
        /// Modification time to set (never lowered), nanoseconds.
        mtime: u64,
        /// Whether the data must be durable before the reply.
        sync: bool,
    },
    /// Deallocate `extent`; an end of [`Extent::EOF`] truncates the object to `extent.start`, up or down.
    Punch {
        /// Object.
        fid: Fid,
        /// What to deallocate.
        extent: Extent,
        /// The lock that covers it, as for a write: refused with `ESTALE` if that was evicted. `None` takes none.
        lock: Option<DlmHandle>,
        /// Modification time to set.
        mtime: u64,
    },
    /// Attributes of the object, all zero for one that doesn't exist. Replies [`Reply::Attr`].
    GetAttr(Fid),
    /// Set the attributes of `mask` (times and owner).
    SetAttr {
        /// Object.
        fid: Fid,
        /// Values.
        attr: Attr,
        /// Which of them.
        mask: AttrMask,
    },
    /// Make the object's data durable.
    Sync(Fid),
    /// The next data (or hole) at or after `offset`. Replies [`Reply::Offset`], or `ENXIO` beyond the end.
    Seek {
        /// Object.
        fid: Fid,
        /// Where to start, in bytes.
        offset: u64,
        /// Look for a hole instead of data.
        hole: bool,
    },
    /// Space of the target. Replies [`Reply::StatFs`].
    StatFs,
    /// Ask for a lock. Replies [`Reply::Granted`] when granted (at once or after the conflicts went), `EAGAIN`
    /// for a refused try-lock, `EUSERS` if the object is contended and lockless I/O is asked for.
    Enqueue {
        /// Object.
        fid: Fid,
        /// Block-aligned extent.
        extent: Extent,
        /// Mode.
        mode: LockMode,
        /// Behaviour.
        flags: EnqueueFlags,
    },
    /// Give a lock back. All data under it must have been written. Idempotent.
    Cancel(DlmHandle),
    /// Give grant back.
    ReturnGrant {
        /// Bytes.
        bytes: u64,
    },
    /// The client goes: its locks and grants are released.
    Disconnect,
}

/// What a target answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Done, nothing to tell.
    Done,
    /// Data was read.
    Read {
        /// Size of the object in bytes at the time of the read.
        size: u64,
        /// crc32c of the data over all segments in order, if asked for.
        checksum: Option<u32>,
    },
    /// Data was written.
    Written {
        /// Bytes of new grant given with this reply.
        grant: u64,
        /// Attributes after the write.
        lvb: Lvb,
    },
    /// Attributes.
    Attr(Attr),
    /// An offset found.
    Offset(u64),
    /// Space of a target.
    StatFs {
        /// Bytes in all.
        total: u64,
        /// Bytes free.
        free: u64,
        /// Objects stored.
        objects: u64,
    },
    /// A lock, or a glimpse's answer.
    Granted {
        /// The lock; `None` for a glimpse that met a conflict.
        handle: Option<DlmHandle>,
        /// Mode granted.
        mode: LockMode,
        /// Extent granted: covers what was asked, and more where nobody conflicts.
        extent: Extent,
        /// The object's attributes.
        lvb: Lvb,
        /// Bytes of grant given with this reply.
        grant: u64,
        /// A blocking AST was already due at the grant: give the lock back after first use.
        blocking: bool,
    },
}

/// Called once with the outcome of a request. It must not block, and must not take a lock that the submitter
/// may hold while it calls [`Target::submit`].
pub type Completion = Box<dyn FnOnce(Result<Reply>) + Send>;

/// Answers a glimpse AST; dropping it unanswered means "no better value than yours".
pub type GlimpseReply = Box<dyn FnOnce(Lvb) + Send>;

/// The client's side of a connection: what the lock manager tells it. No method may block or take a lock that is
/// held while calling a target (LU-1274, LU-4861): record, queue, return.
pub trait TargetClient: Send + Sync {
    /// Somebody wants what `handle` covers: finish, write out, cancel.
    fn blocking_ast(&self, target: TargetIndex, handle: DlmHandle);
    /// Somebody wants to know the object's size: answer with the best LVB known here.
    fn glimpse_ast(&self, target: TargetIndex, handle: DlmHandle, reply: GlimpseReply);
    /// This client was evicted from the target: its locks and grants there are gone.
    fn evicted(&self, target: TargetIndex);
}

/// A storage target.
pub trait Target: Send + Sync + Debug {
    /// Its index in the store.
    fn index(&self) -> TargetIndex;

    /// Registers a client; `callbacks` gets its ASTs. Returns the id to submit with and the first grant in bytes.
    ///
    /// # Errors
    /// `ESHUTDOWN` if the target is going away.
    fn connect(&self, callbacks: Arc<dyn TargetClient>) -> Result<(ClientId, u64)>;

    /// As [`Target::connect`], for a client that was registered with this target before it was started anew, and held
    /// `grant` bytes of grant then: it holds them still. The locks that it had it asks for again.
    ///
    /// # Errors
    /// As there; `EOPNOTSUPP` where no client outlives the target.
    fn resume(&self, callbacks: Arc<dyn TargetClient>, grant: u64) -> Result<ClientId> {
        let _ = (callbacks, grant);
        Err(Error::new(Errno::EOPNOTSUPP, "connect", "no client outlives this target"))
    }

    /// Starts `op` for `client`; `done` is called exactly once.
    ///
    /// # Safety of bulk memory
    /// The memory named by `op` must stay valid and, for reads, unused until `done` is called: the submitter
    /// guarantees it by keeping its blocks in transfer (see [`crate::page`]).
    fn submit(&self, client: ClientId, op: Op, done: Completion);
}

#[cfg(test)]
mod tests {
    use super::LockMode::{self, *};

    #[test]
    fn modes() {
        let all = [Pr, Pw, Group(1), Group(2), Ex];
        for a in all {
            for b in all {
                assert_eq!(a.compatible(b), b.compatible(a));
                let s: LockMode = a.stronger(b);
                assert!(s == Ex || (s.serves(a) && s.serves(b)), "{a:?} {b:?} {s:?}");
            }
        }
        assert!(Pr.compatible(Pr) && !Pr.compatible(Pw) && !Pw.compatible(Pw));
        assert!(Group(1).compatible(Group(1)) && !Group(1).compatible(Group(2)) && !Group(1).compatible(Pr));
        assert!(Pw.serves(Pr) && !Pr.serves(Pw));
    }
}
