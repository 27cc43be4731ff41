//! What goes into the state machine, and what comes out.

use clio_core::Errno;
use clio_core::attr::Lvb;
use clio_core::target::{DlmHandle, EnqueueFlags, LockMode};
use clio_core::units::{ClientId, Extent, Fid};

/// Something that happened, for [`Dlm::step`](crate::Dlm::step).
///
/// Events of clients that are not connected, and events that name a lock which is gone or belongs to somebody
/// else, change nothing: messages may arrive late, twice, or after an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client comes. Without effect if it is connected already.
    Connect {
        /// Never used before by another client of this lock manager.
        client: ClientId,
    },
    /// A client asks for a lock. Exactly one of [`Effect::Granted`], [`Effect::GlimpseAnswer`] and
    /// [`Effect::Refused`] with the same `request` follows, in this step or a later one.
    Enqueue {
        /// Who asks.
        client: ClientId,
        /// The caller's name for the request, echoed in the answer. It is not looked at here.
        request: u64,
        /// The resource.
        fid: Fid,
        /// What is asked for, in bytes; aligned outwards to blocks. An empty one is refused with `EINVAL`.
        extent: Extent,
        /// Mode asked for. A glimpse is always for [`LockMode::Pr`].
        mode: LockMode,
        /// Behaviour.
        flags: EnqueueFlags,
        /// The object's attributes as stored, needed if [`Dlm::lvb_known`](crate::Dlm::lvb_known) is false for
        /// `fid`, ignored otherwise. `None` for an unknown resource stands for an empty object.
        initial_lvb: Option<Lvb>,
    },
    /// A client gives a lock back. Idempotent.
    Cancel {
        /// The holder.
        client: ClientId,
        /// The lock.
        handle: DlmHandle,
    },
    /// A client changes the mode of a lock. A weaker mode is always taken at once; a stronger one only if nobody,
    /// holding or waiting, conflicts (two holders that wait to upgrade would wait for each other for ever).
    /// [`Effect::Converted`] tells the mode in force afterwards.
    Convert {
        /// The holder.
        client: ClientId,
        /// The lock.
        handle: DlmHandle,
        /// Mode wanted.
        mode: LockMode,
    },
    /// I/O under the lock goes on: if a blocking AST is outstanding, its timeout starts anew.
    Prolong {
        /// The holder.
        client: ClientId,
        /// The lock.
        handle: DlmHandle,
    },
    /// A client answers [`Effect::GlimpseAst`]. It has to tell what it wrote under the lock until that is stored,
    /// also while it gives the lock back.
    GlimpseReply {
        /// The holder that was asked.
        client: ClientId,
        /// The lock that was named.
        handle: DlmHandle,
        /// [`Effect::GlimpseAst::glimpse`].
        glimpse: u64,
        /// The best attributes that the holder knows; `None` for "none better than yours".
        lvb: Option<Lvb>,
    },
    /// The stored object changed (a write, a truncate, a change of times). Ignored for a resource that has no
    /// lock: its attributes are read anew at the next enqueue.
    LvbUpdate {
        /// The resource.
        fid: Fid,
        /// Attributes of the stored object.
        lvb: Lvb,
        /// Take `lvb` as it is, even if smaller; otherwise each field only grows.
        truncate: bool,
    },
    /// A client goes: its locks go, its outstanding requests are refused with `ESHUTDOWN`.
    Disconnect {
        /// Who goes.
        client: ClientId,
    },
    /// Time has passed: look for timeouts. Due at [`Dlm::next_deadline`](crate::Dlm::next_deadline).
    Tick,
}

/// What the caller has to do after a step, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A request was granted.
    Granted {
        /// Who asked.
        client: ClientId,
        /// Which request.
        request: u64,
        /// The lock's name: never used before.
        handle: DlmHandle,
        /// Mode granted: the one asked for.
        mode: LockMode,
        /// Extent granted: covers what was asked, and more where nobody conflicts.
        extent: Extent,
        /// Attributes of the stored object.
        lvb: Lvb,
        /// Somebody waits for this lock already. It stands for a [`Effect::BlockingAst`], which won't follow: the
        /// holder has to give the lock back after its first use.
        blocking: bool,
    },
    /// A glimpse met a conflict: no lock, but the attributes, with what the holders of write locks told.
    GlimpseAnswer {
        /// Who asked.
        client: ClientId,
        /// Which request.
        request: u64,
        /// The attributes.
        lvb: Lvb,
    },
    /// A request was refused: `EAGAIN` (try-lock met a conflict), `EUSERS` (contended: do without a lock),
    /// `EINVAL` (empty extent), `ESTALE` (not connected, or evicted meanwhile), `ESHUTDOWN` (disconnected).
    Refused {
        /// Who asked.
        client: ClientId,
        /// Which request.
        request: u64,
        /// Why.
        errno: Errno,
    },
    /// The holder has to finish what it does under the lock, write out, and cancel. Sent once for each lock.
    BlockingAst {
        /// The holder.
        client: ClientId,
        /// The lock.
        handle: DlmHandle,
    },
    /// The holder is asked for the attributes it knows, without giving up its lock: [`Event::GlimpseReply`].
    GlimpseAst {
        /// The holder.
        client: ClientId,
        /// Its lock.
        handle: DlmHandle,
        /// Names the question: to be echoed in the reply.
        glimpse: u64,
    },
    /// The outcome of [`Event::Convert`].
    Converted {
        /// The holder.
        client: ClientId,
        /// The lock.
        handle: DlmHandle,
        /// Mode in force now: the old one if the change was not possible.
        mode: LockMode,
    },
    /// A client did not answer a blocking AST in time and lost all its locks here. It stays connected and may ask
    /// anew; writes under the old handles have to be refused ([`Dlm::covers`](crate::Dlm::covers) says so).
    Evicted {
        /// Who.
        client: ClientId,
        /// The locks it lost, ascending.
        handles: Vec<DlmHandle>,
    },
}

/// A lock as [`Dlm::locks`](crate::Dlm::locks) shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockInfo {
    /// Its name; `None` for a request that waits.
    pub handle: Option<DlmHandle>,
    /// Holder, or who waits.
    pub client: ClientId,
    /// Mode.
    pub mode: LockMode,
    /// Extent granted; for a request that waits, the one asked for, aligned to blocks.
    pub extent: Extent,
    /// Whether the holder was told to give the lock back.
    pub blocking: bool,
}

/// How much there is in a lock manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Connected clients.
    pub clients: usize,
    /// Resources with at least one lock or request.
    pub resources: usize,
    /// Granted locks.
    pub granted: usize,
    /// Requests that wait for a lock.
    pub waiting: usize,
    /// Glimpses that wait for an answer.
    pub glimpses: usize,
}
