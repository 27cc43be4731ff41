//! What client and daemon say to each other.
//!
//! A message is one packet of a `SOCK_SEQPACKET` socket: a postcard encoding of [`FromClient`] or [`FromDaemon`], of at
//! most [`MAX_MESSAGE_BYTES`]. The first one each way is [`Hello`] and [`Welcome`]. Bulk data never travels in a message:
//! it lies in the client's arena, and messages name it by offset and length. Nothing in a message is trusted: decoding is
//! total, and every value is checked against the daemon's own tables before it is used.
//!
//! Within a major version, messages only grow: new kinds go to the end of each enum.

mod convert;
mod error;
mod figures;
mod handles;
mod names;
mod target;

pub(crate) use convert::{op_from_wire, op_to_wire};
pub use error::WireError;
pub use figures::{Figures, TargetFigures};
pub(crate) use handles::Salt;
pub use names::{NamesOp, NamesReply, WireEntry, WireIfExists, WireNode, WirePath, WireRename, WireSet, WireXattr};
pub use target::{WireAttr, WireFlags, WireLvb, WireMode, WireOp, WireReply, WireSegment};

use clio_core::{Errno, Error, Result};
use serde::{Deserialize, Serialize};

/// First bytes of every [`Hello`].
pub const MAGIC: [u8; 4] = *b"clio";
/// A daemon serves clients of its own major version.
pub const MAJOR: u16 = 1;
/// What was added since the major version began.
pub const MINOR: u16 = 1;
/// Longest message in bytes: an inode with the longest layout and attributes fits.
pub const MAX_MESSAGE_BYTES: usize = 192 << 10;
/// Most segments of one bulk transfer.
pub const MAX_SEGMENTS: usize = 4096;

/// The first message of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: [u8; 4],
    /// The client's version.
    pub major: u16,
    /// The client's version.
    pub minor: u16,
    /// Size of the arena that it wishes for, in bytes.
    pub arena_bytes: u64,
    /// It has one already, whose descriptor comes with this.
    pub brings_arena: bool,
    /// Chosen at random by the client, for as long as it lives: by this a later daemon knows it again.
    pub token: u64,
}

/// The daemon's answer to a [`Hello`]. With it comes the descriptor of the arena.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Welcome {
    /// The client is served.
    Served {
        /// The daemon's minor version.
        minor: u16,
        /// Targets of the store.
        targets: u16,
        /// An earlier daemon had this client, and this one waits for it: it may take up again what it held, until it
        /// says [`Request::Recovered`].
        is_awaited: bool,
    },
    /// It is not, and why.
    Refused(WireError),
}

/// What a client says after its [`Hello`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromClient {
    /// Asks for something; the answer carries the same number.
    Request {
        /// Chosen by the client; not in use for another open request.
        id: u64,
        /// What.
        request: Request,
    },
    /// Answers [`Event::Glimpse`].
    Glimpsed {
        /// The event's.
        token: u64,
        /// The best that the client knows; `None` if no better than the target.
        lvb: Option<WireLvb>,
    },
    /// The client doesn't come back: nothing need be kept for it.
    Bye,
}

/// What is asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Registers with a target, by its index: [`Answer::Connected`].
    Connect(u16),
    /// Has a target do something: [`Answer::Target`].
    Target {
        /// Index of the target.
        target: u16,
        /// The id that it gave.
        client: u64,
        /// What.
        op: WireOp,
    },
    /// An operation on names: [`Answer::Names`].
    Names(NamesOp),
    /// How the daemon is: [`Answer::Status`].
    Status,
    /// Ends the daemon: [`Answer::Stopping`], then the end of the connection.
    Shutdown,
    /// Makes all that the targets hold and all names durable: [`Answer::Synced`].
    Sync,
    /// As [`Request::Connect`], for a client that held so many bytes of grant at the target with an earlier daemon: none,
    /// unless it is awaited, and has not said that it is done (`EPERM`).
    Resume {
        /// Index of the target.
        target: u16,
        /// Bytes.
        grant: u64,
    },
    /// An awaited client has taken up what it held: [`Answer::Recovered`], once all others have too. Said once; `EINVAL` from
    /// others.
    Recovered,
    /// As [`Request::Names`], for an operation that must not happen twice: sent again, it is answered as before.
    Once {
        /// The client's number for the operation: larger than that of any operation that it has been answered.
        xid: u64,
        /// What.
        op: NamesOp,
    },
    /// What the daemon has counted: [`Answer::Figures`].
    Figures,
}

/// What the daemon says after its [`Welcome`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromDaemon {
    /// The outcome of a request.
    Reply {
        /// The request's.
        id: u64,
        /// What came of it.
        result: std::result::Result<Answer, WireError>,
    },
    /// A callback of the lock manager.
    Event {
        /// Index of the target.
        target: u16,
        /// Whom it is for.
        client: u64,
        /// What.
        event: Event,
    },
    /// The daemon ends before long: the client writes out what it has, and gives its locks back.
    Stopping,
}

/// A good outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The client is registered.
    Connected {
        /// Its id at this target.
        client: u64,
        /// Bytes of first grant.
        grant: u64,
    },
    /// What a target answers.
    Target(WireReply),
    /// What the namespace answers.
    Names(NamesReply),
    /// How the daemon is.
    Status(Status),
    /// It ends.
    Stopping,
    /// Everything is durable.
    Synced,
    /// All clients of an earlier daemon are there, or given up.
    Recovered,
    /// What the daemon has counted.
    Figures(Figures),
}

/// How a daemon is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// Clients now, the one that asks among them.
    pub clients: u32,
}

/// A callback.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// Somebody wants what the lock covers.
    Blocking(u64),
    /// Somebody wants to know the object's size.
    Glimpse {
        /// The lock.
        handle: u64,
        /// To answer with.
        token: u64,
    },
    /// All locks and grants at this target are gone.
    Evicted,
}

/// Encodes a message.
///
/// # Errors
/// `E2BIG` beyond [`MAX_MESSAGE_BYTES`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message);
    let bytes = bytes.map_err(|e| Error::new(Errno::EPROTO, "encode", "a message can't be encoded").with_cause(e))?;
    match bytes.len() <= MAX_MESSAGE_BYTES {
        true => Ok(bytes),
        false => Err(Error::new(Errno::E2BIG, "encode", format!("a message of {} bytes is too long", bytes.len()))),
    }
}

/// Decodes a message. Never panics, whatever the bytes.
///
/// # Errors
/// `EPROTO` for anything but exactly one message.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    let damaged = |why| Error::new(Errno::EPROTO, "decode", why);
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(damaged("bytes follow the message")),
        Err(e) => Err(damaged("this is no message that this version knows").with_cause(e)),
    }
}
