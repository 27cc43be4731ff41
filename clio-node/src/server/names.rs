//! Operations on names, for a client.

use super::Served;
use crate::wire::{MAX_MESSAGE_BYTES, NamesOp, NamesReply, WireEntry, WireNode};
use clio_core::clock::now_ns;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::units::{ClientId, Fid};
use clio_core::{Errno, Error, Result};
use clio_namespace::{Access, Caller, Doomed, Inode, Namespace, NewNode, OpCtx, Opened, Removed, Reply};

/// Most entries of a directory that are read at once.
const MAX_ENTRIES: usize = 4096;
/// Bytes that an entry takes beside its name.
const ENTRY_BYTES: usize = 32;

/// The files that a client has open, how often, and with which rights.
pub(super) struct OpenFiles(RankedMutex<Files>);

#[derive(Default)]
struct Files {
    opened: Opened,
    /// The client is gone.
    is_closed: bool,
}

impl Default for OpenFiles {
    fn default() -> Self {
        Self(RankedMutex::new(LockRank::Leaf, Files::default()))
    }
}

impl OpenFiles {
    /// Opens a file for `caller`; without an `access`, the reference gives no right to it.
    fn open(&self, served: &dyn Served, ctx: &OpCtx<'_>, fid: Fid, access: Option<Access>) -> Result<()> {
        let made = access.is_some() && self.0.lock().opened.take_made(fid);
        match access {
            Some(access) if !made => served.namespace().open_for(ctx, fid, access)?,
            _ => served.namespace().open_ref(fid)?,
        }
        let mut files = self.0.lock();
        if files.is_closed {
            drop(files);
            close(served, fid)?;
            return Err(Error::new(Errno::ESHUTDOWN, "open", "the client is gone"));
        }
        files.opened.open(fid, access.unwrap_or(Access::NONE));
        Ok(())
    }

    fn close(&self, served: &dyn Served, fid: Fid) -> Result<bool> {
        self.0.lock().opened.close(fid)?;
        close(served, fid)
    }

    /// The client is gone: nothing is open any more.
    pub(super) fn close_all(&self, served: &dyn Served) {
        let counts = {
            let mut files = self.0.lock();
            files.is_closed = true;
            files.opened.take()
        };
        for (fid, count) in counts {
            for _ in 0..count {
                if let Err(e) = close(served, fid) {
                    tracing::warn!(target: "clio::node", %fid, error = %e, "a file of a client that is gone");
                }
            }
        }
    }
}

/// Takes back one open reference; whether the file is gone with it.
fn close(served: &dyn Served, fid: Fid) -> Result<bool> {
    let doomed = served.namespace().close_ref(fid)?;
    if let Some(doomed) = &doomed {
        served.destroy(doomed);
    }
    Ok(doomed.is_some())
}

/// Carries out `op` for a client that has `files` open and is `caller`; `once` is the client and its number for an operation
/// that must not happen twice. Blocks.
///
/// # Errors
/// Those of the namespace.
pub(super) fn run(
    served: &dyn Served,
    files: &OpenFiles,
    caller: &Caller,
    op: NamesOp,
    once: Option<(ClientId, u64)>,
) -> Result<NamesReply> {
    let names = served.namespace();
    let (ctx, owner) = (OpCtx::at(now_ns()).by(caller), (caller.uid(), caller.gid()));
    let ctx = once.map_or(ctx, |(client, xid)| ctx.with_id(client, xid));
    let fid = Fid::from_bytes;
    match op {
        NamesOp::Resolve { path, follow } => names.resolve_as(caller, &path, follow).map(inode),
        NamesOp::GetAttr(f) => names.getattr(fid(f)).map(inode),
        NamesOp::ReadDir { dir, after, limit } => {
            entries(names, caller, fid(dir), after.as_deref(), (limit as usize).min(MAX_ENTRIES))
        }
        NamesOp::ReadLink(f) => names.readlink(fid(f)).map(NamesReply::Bytes),
        NamesOp::Create { path, new, if_exists } => {
            let made = names.create_path(&ctx, &path, &node(&new, owner), if_exists.into())?;
            files.0.lock().opened.created(&made);
            Ok(changed(&Reply::Node { inode: made.0, created: made.1 }))
        }
        NamesOp::Mkdir { path, new } => names.mkdir_path(&ctx, &path, &node(&new, owner)).map(made),
        NamesOp::Symlink { target, path, new } => {
            names.symlink_path(&ctx, &target, &path, &node(&new, owner)).map(made)
        }
        NamesOp::Link { old, follow, new } => names.link_path(&ctx, &old, follow, &new).map(made),
        NamesOp::Unlink(path) => names.unlink_path(&ctx, &path).map(|r| removed(served, Some(r))),
        NamesOp::Rmdir(path) => names.rmdir_path(&ctx, &path).map(|r| removed(served, Some(r))),
        NamesOp::Rename { old, new, mode } => {
            names.rename_path(&ctx, &old, &new, mode.into()).map(|r| removed(served, r))
        }
        NamesOp::SetAttr { fid: f, set } => names.setattr(&ctx, fid(f), &set.into()).map(inode),
        NamesOp::GetLayout(f) => names.get_layout(fid(f)).map(NamesReply::Bytes),
        NamesOp::SetLayout { fid: f, layout } => names.set_layout(&ctx, fid(f), &layout).map(|()| NamesReply::Done),
        NamesOp::ReplaceLayout { fid: f, old, new } => {
            let caller = files.0.lock().opened.layout_caller(fid(f), caller);
            names.replace_layout(&ctx.by(caller), fid(f), &old, &new).map(NamesReply::Bytes)
        }
        NamesOp::SetXattr { fid: f, name, value, mode } => {
            names.set_xattr(&ctx, fid(f), &name, &value, mode.into()).map(|()| NamesReply::Done)
        }
        NamesOp::GetXattr { fid: f, name } => names.get_xattr_as(caller, fid(f), &name).map(NamesReply::Bytes),
        NamesOp::ListXattrs(f) => names.list_xattrs_as(caller, fid(f)).map(NamesReply::List),
        NamesOp::RemoveXattr { fid: f, name } => names.remove_xattr(&ctx, fid(f), &name).map(|()| NamesReply::Done),
        NamesOp::OpenRef(f) => files.open(served, &ctx, fid(f), None).map(|()| NamesReply::Done),
        NamesOp::Open { fid: f, access } => {
            files.open(served, &ctx, fid(f), Some(Access::from_bits(access))).map(|()| NamesReply::Done)
        }
        NamesOp::Access { path, access } => {
            names.access(caller, &path, Access::from_bits(access)).map(|()| NamesReply::Done)
        }
        NamesOp::Touch(f) => names.touch(&ctx, fid(f)).map(|()| NamesReply::Done),
        NamesOp::CloseRef(f) => files.close(served, fid(f)).map(|gone| NamesReply::Closed { gone }),
        NamesOp::NoteRead { fid: f, changed } => names.note_read(&ctx, fid(f), changed).map(|()| NamesReply::Done),
        NamesOp::Sync => names.sync().map(|()| NamesReply::Done),
        NamesOp::Unmake { path, known } => {
            names.unmake_path(&ctx, &path, &Inode::decode(&known)?).map(|r| removed(served, r))
        }
    }
}

fn inode(inode: Inode) -> NamesReply {
    NamesReply::Inode(inode.encode())
}

fn made(inode: Inode) -> NamesReply {
    changed(&Reply::Node { inode, created: true })
}

fn changed(reply: &Reply) -> NamesReply {
    NamesReply::Changed(reply.encode())
}

/// Destroys what is to be destroyed, and tells the client only that it is gone.
fn removed(served: &dyn Served, removed: Option<Removed>) -> NamesReply {
    let removed = removed.map(|r| {
        let destroy = r.destroy.map(|doomed| {
            served.destroy(&doomed);
            Doomed { fid: doomed.fid, layout: Vec::new() }
        });
        Removed { destroy, ..r }
    });
    changed(&Reply::Removed(removed))
}

fn node(new: &WireNode, (uid, gid): (u32, u32)) -> NewNode<'_> {
    NewNode { layout: new.layout.as_deref(), ..NewNode::new(new.mode, uid, gid) }
}

/// As many entries as fit into a message.
fn entries(names: &Namespace, caller: &Caller, dir: Fid, after: Option<&[u8]>, limit: usize) -> Result<NamesReply> {
    let mut bytes = 0;
    let fits = |e: &clio_namespace::DirEntry| {
        bytes += ENTRY_BYTES + e.name.len();
        bytes <= MAX_MESSAGE_BYTES / 2
    };
    let all = names.readdir_as(caller, dir, after, limit)?.into_iter().take_while(fits);
    let entry = |e: clio_namespace::DirEntry| WireEntry { name: e.name, fid: e.fid.to_bytes(), kind: e.kind as u8 };
    Ok(NamesReply::Entries(all.map(entry).collect()))
}
