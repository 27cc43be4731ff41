//! The daemon's namespace, as if it were here.

use super::connection::Connection;
use super::line::unexpected;
use crate::wire::{Answer, NamesOp, NamesReply, Request, WireNode};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use clio_namespace::{
    Access, DirEntry, Doomed, IfExists, Inode, Kind, Names, NewNode, OpCtx, PathAt, Removed, RenameMode, Reply,
    SetAttr, XattrMode,
};
use std::sync::Arc;

/// Names kept by the daemon. It stamps what is done to them, owns what is made to the client's user, and destroys the
/// objects of what goes: an answer that says so has no layout.
#[derive(Debug)]
pub struct NodeNames(Arc<Connection>);

impl NodeNames {
    /// The names of the store that `connection` leads to.
    pub fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }

    fn ask(&self, op: NamesOp) -> Result<NamesReply> {
        let answer = if op.is_change() { self.0.call_once(op) } else { self.0.call(Request::Names(op)) };
        match answer? {
            Answer::Names(reply) => Ok(reply),
            answer => Err(unexpected(&answer)),
        }
    }

    fn done(&self, op: NamesOp) -> Result<()> {
        match self.ask(op)? {
            NamesReply::Done => Ok(()),
            reply => Err(odd(&reply)),
        }
    }

    fn inode(&self, op: NamesOp) -> Result<Inode> {
        match self.ask(op)? {
            NamesReply::Inode(bytes) => Inode::decode(&bytes),
            reply => Err(odd(&reply)),
        }
    }

    fn bytes(&self, op: NamesOp) -> Result<Vec<u8>> {
        match self.ask(op)? {
            NamesReply::Bytes(bytes) => Ok(bytes),
            reply => Err(odd(&reply)),
        }
    }

    fn changed(&self, op: NamesOp) -> Result<Reply> {
        match self.ask(op)? {
            NamesReply::Changed(bytes) => Reply::decode(&bytes),
            reply => Err(odd(&reply)),
        }
    }

    fn node(&self, op: NamesOp) -> Result<(Inode, bool)> {
        match self.changed(op)? {
            Reply::Node { inode, created } => Ok((inode, created)),
            reply => Err(odd(&reply)),
        }
    }

    fn removed(&self, op: NamesOp) -> Result<Option<Removed>> {
        match self.changed(op)? {
            Reply::Removed(removed) => Ok(removed),
            reply => Err(odd(&reply)),
        }
    }
}

impl Names for NodeNames {
    fn resolve(&self, path: PathAt<'_>, follow: bool) -> Result<Inode> {
        self.inode(NamesOp::Resolve { path: path.into(), follow })
    }

    fn getattr(&self, fid: Fid) -> Result<Inode> {
        self.inode(NamesOp::GetAttr(fid.to_bytes()))
    }

    fn readdir(&self, dir: Fid, after: Option<&[u8]>, limit: usize) -> Result<Vec<DirEntry>> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let mut all: Vec<DirEntry> = Vec::new();
        let mut after = after.map(<[u8]>::to_vec);
        // The daemon gives fewer than asked for where more would not fit into a message.
        loop {
            let left = limit - all.len() as u32;
            let op = NamesOp::ReadDir { dir: dir.to_bytes(), after: after.take(), limit: left };
            let NamesReply::Entries(entries) = self.ask(op)? else {
                return Err(Error::new(Errno::EPROTO, "readdir", "the daemon's answer has no entries"));
            };
            if entries.is_empty() {
                return Ok(all);
            }
            for entry in entries {
                let kind = Kind::from_u8(entry.kind).ok_or_else(|| odd(&entry))?;
                all.push(DirEntry { name: entry.name, fid: Fid::from_bytes(entry.fid), kind });
            }
            if all.len() as u64 >= u64::from(limit) {
                return Ok(all);
            }
            after = all.last().map(|e| e.name.clone());
        }
    }

    fn readlink(&self, fid: Fid) -> Result<Vec<u8>> {
        self.bytes(NamesOp::ReadLink(fid.to_bytes()))
    }

    fn create(&self, _: &OpCtx<'_>, path: PathAt<'_>, new: &NewNode<'_>, if_exists: IfExists) -> Result<(Inode, bool)> {
        self.node(NamesOp::Create { path: path.into(), new: node(new), if_exists: if_exists.into() })
    }

    fn mkdir(&self, _: &OpCtx<'_>, path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode> {
        self.node(NamesOp::Mkdir { path: path.into(), new: node(new) }).map(|(inode, _)| inode)
    }

    fn symlink(&self, _: &OpCtx<'_>, target: &[u8], path: PathAt<'_>, new: &NewNode<'_>) -> Result<Inode> {
        let op = NamesOp::Symlink { target: target.to_vec(), path: path.into(), new: node(new) };
        self.node(op).map(|(inode, _)| inode)
    }

    fn link(&self, _: &OpCtx<'_>, old: PathAt<'_>, follow: bool, new: PathAt<'_>) -> Result<Inode> {
        self.node(NamesOp::Link { old: old.into(), follow, new: new.into() }).map(|(inode, _)| inode)
    }

    fn unlink(&self, _: &OpCtx<'_>, path: PathAt<'_>) -> Result<Removed> {
        self.removed(NamesOp::Unlink(path.into()))?.ok_or_else(nothing_removed)
    }

    fn unmake(&self, _: &OpCtx<'_>, path: PathAt<'_>, known: &Inode) -> Result<Option<Removed>> {
        self.removed(NamesOp::Unmake { path: path.into(), known: known.encode() })
    }

    fn rmdir(&self, _: &OpCtx<'_>, path: PathAt<'_>) -> Result<Removed> {
        self.removed(NamesOp::Rmdir(path.into()))?.ok_or_else(nothing_removed)
    }

    fn rename(&self, _: &OpCtx<'_>, old: PathAt<'_>, new: PathAt<'_>, mode: RenameMode) -> Result<Option<Removed>> {
        self.removed(NamesOp::Rename { old: old.into(), new: new.into(), mode: mode.into() })
    }

    fn setattr(&self, _: &OpCtx<'_>, fid: Fid, set: &SetAttr) -> Result<Inode> {
        self.inode(NamesOp::SetAttr { fid: fid.to_bytes(), set: set.into() })
    }

    fn get_layout(&self, fid: Fid) -> Result<Vec<u8>> {
        self.bytes(NamesOp::GetLayout(fid.to_bytes()))
    }

    fn set_layout(&self, _: &OpCtx<'_>, fid: Fid, layout: &[u8]) -> Result<()> {
        self.done(NamesOp::SetLayout { fid: fid.to_bytes(), layout: layout.to_vec() })
    }

    fn replace_layout(&self, _: &OpCtx<'_>, fid: Fid, old: &[u8], new: &[u8]) -> Result<Vec<u8>> {
        self.bytes(NamesOp::ReplaceLayout { fid: fid.to_bytes(), old: old.to_vec(), new: new.to_vec() })
    }

    fn set_xattr(&self, _: &OpCtx<'_>, fid: Fid, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let (fid, name, value) = (fid.to_bytes(), name.to_vec(), value.to_vec());
        self.done(NamesOp::SetXattr { fid, name, value, mode: mode.into() })
    }

    fn get_xattr(&self, fid: Fid, name: &[u8]) -> Result<Vec<u8>> {
        self.bytes(NamesOp::GetXattr { fid: fid.to_bytes(), name: name.to_vec() })
    }

    fn list_xattrs(&self, fid: Fid) -> Result<Vec<Vec<u8>>> {
        match self.ask(NamesOp::ListXattrs(fid.to_bytes()))? {
            NamesReply::List(names) => Ok(names),
            reply => Err(odd(&reply)),
        }
    }

    fn remove_xattr(&self, _: &OpCtx<'_>, fid: Fid, name: &[u8]) -> Result<()> {
        self.done(NamesOp::RemoveXattr { fid: fid.to_bytes(), name: name.to_vec() })
    }

    fn touch(&self, _: &OpCtx<'_>, fid: Fid) -> Result<()> {
        self.done(NamesOp::Touch(fid.to_bytes()))
    }

    fn access(&self, path: PathAt<'_>, access: Access) -> Result<()> {
        self.done(NamesOp::Access { path: path.into(), access: access.bits() })
    }

    fn open_ref(&self, fid: Fid, access: Access) -> Result<()> {
        self.0.open_file(fid, access)
    }

    fn close_ref(&self, fid: Fid) -> Result<Option<Doomed>> {
        Ok(self.0.close_file(fid)?.then(|| Doomed { fid, layout: Vec::new() }))
    }

    fn note_read(&self, _: &OpCtx<'_>, fid: Fid, changed: u64) -> Result<()> {
        self.done(NamesOp::NoteRead { fid: fid.to_bytes(), changed })
    }

    fn sync(&self) -> Result<()> {
        self.done(NamesOp::Sync)
    }
}

fn node(new: &NewNode<'_>) -> WireNode {
    WireNode { mode: new.mode, layout: new.layout.map(<[u8]>::to_vec) }
}

fn odd(reply: &impl std::fmt::Debug) -> Error {
    Error::new(Errno::EPROTO, "names", format!("the daemon's answer is another's: {reply:?}"))
}

fn nothing_removed() -> Error {
    Error::new(Errno::EPROTO, "names", "the daemon says that nothing was removed")
}
