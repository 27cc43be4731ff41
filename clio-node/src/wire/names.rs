//! Operations on names and their answers: the messages of [`clio_namespace::Names`].

use serde::{Deserialize, Serialize};

type WireFid = [u8; 16];

/// A path and where a relative one starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WirePath {
    /// The directory that it starts from.
    pub base: WireFid,
    /// The path.
    pub path: Vec<u8>,
}

/// What a new inode is to be. Its owner is whom the daemon knows the client to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WireNode {
    /// Permission bits.
    pub mode: u32,
    /// A layout of its own.
    pub layout: Option<Vec<u8>>,
}

/// What making a file does where one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WireIfExists {
    /// Fails.
    Fail,
    /// Gives that one.
    Open,
}

/// What a rename does with what is at the new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WireRename {
    /// Replaces it.
    Replace,
    /// Fails.
    NoReplace,
    /// Gives it the old name.
    Exchange,
}

/// What setting an extended attribute does if it exists, or doesn't.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WireXattr {
    /// Sets it.
    Set,
    /// Fails if it exists.
    Create,
    /// Fails if it doesn't.
    Replace,
}

/// Attributes to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WireSet {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// The size hint, or that there is none.
    pub size_hint: Option<Option<u64>>,
    /// Last read.
    pub atime: Option<u64>,
    /// Last change.
    pub mtime: Option<u64>,
    /// Whether times may only grow.
    pub only_raise_times: bool,
}

/// As the methods of [`clio_namespace::Names`]; a known inode is an encoded [`clio_namespace::Inode`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the method that it stands for")]
pub enum NamesOp {
    Resolve {
        path: WirePath,
        follow: bool,
    },
    GetAttr(WireFid),
    ReadDir {
        dir: WireFid,
        after: Option<Vec<u8>>,
        limit: u32,
    },
    ReadLink(WireFid),
    Create {
        path: WirePath,
        new: WireNode,
        if_exists: WireIfExists,
    },
    Mkdir {
        path: WirePath,
        new: WireNode,
    },
    Symlink {
        target: Vec<u8>,
        path: WirePath,
        new: WireNode,
    },
    Link {
        old: WirePath,
        follow: bool,
        new: WirePath,
    },
    Unlink(WirePath),
    Rmdir(WirePath),
    Rename {
        old: WirePath,
        new: WirePath,
        mode: WireRename,
    },
    SetAttr {
        fid: WireFid,
        set: WireSet,
    },
    GetLayout(WireFid),
    SetLayout {
        fid: WireFid,
        layout: Vec<u8>,
    },
    ReplaceLayout {
        fid: WireFid,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    SetXattr {
        fid: WireFid,
        name: Vec<u8>,
        value: Vec<u8>,
        mode: WireXattr,
    },
    GetXattr {
        fid: WireFid,
        name: Vec<u8>,
    },
    ListXattrs(WireFid),
    RemoveXattr {
        fid: WireFid,
        name: Vec<u8>,
    },
    OpenRef(WireFid),
    CloseRef(WireFid),
    NoteRead {
        fid: WireFid,
        changed: u64,
    },
    Sync,
    Unmake {
        path: WirePath,
        known: Vec<u8>,
    },
    /// [`clio_namespace::Names::open_ref`]; `OpenRef` gives no rights to data.
    Open {
        fid: WireFid,
        access: u8,
    },
    Access {
        path: WirePath,
        access: u8,
    },
    Touch(WireFid),
}

impl NamesOp {
    /// Whether it changes names so that doing it twice would not be the same.
    pub fn is_change(&self) -> bool {
        match self {
            NamesOp::Create { .. }
            | NamesOp::Mkdir { .. }
            | NamesOp::Symlink { .. }
            | NamesOp::Link { .. }
            | NamesOp::Unlink(_)
            | NamesOp::Unmake { .. }
            | NamesOp::Rmdir(_)
            | NamesOp::Rename { .. }
            | NamesOp::SetAttr { .. }
            | NamesOp::SetLayout { .. }
            | NamesOp::ReplaceLayout { .. }
            | NamesOp::SetXattr { .. }
            | NamesOp::RemoveXattr { .. }
            | NamesOp::Touch(_) => true,
            NamesOp::Resolve { .. }
            | NamesOp::GetAttr(_)
            | NamesOp::ReadDir { .. }
            | NamesOp::ReadLink(_)
            | NamesOp::GetLayout(_)
            | NamesOp::GetXattr { .. }
            | NamesOp::ListXattrs(_)
            | NamesOp::OpenRef(_)
            | NamesOp::Open { .. }
            | NamesOp::Access { .. }
            | NamesOp::CloseRef(_)
            | NamesOp::NoteRead { .. }
            | NamesOp::Sync => false,
        }
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WireEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it stands for.
    pub fid: WireFid,
    /// The kind of that, as the namespace's records number kinds.
    pub kind: u8,
}

/// What the namespace answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NamesReply {
    /// Nothing to tell.
    Done,
    /// What a changing operation did: an encoded [`clio_namespace::Reply`].
    Changed(Vec<u8>),
    /// An encoded [`clio_namespace::Inode`].
    Inode(Vec<u8>),
    /// Bytes: a layout, a link's target, an attribute's value.
    Bytes(Vec<u8>),
    /// Names of attributes.
    List(Vec<Vec<u8>>),
    /// Entries.
    Entries(Vec<WireEntry>),
    /// A file was closed; whether it is gone with that.
    Closed {
        /// Its objects are destroyed: nothing of it need be kept.
        gone: bool,
    },
}
