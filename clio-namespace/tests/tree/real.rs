//! The namespace under test, made to answer in the words of the model.

use super::ops::Op;
use super::reference::Outcome;
use clio_core::units::{ClientId, Fid};
use clio_core::{Errno, Error};
use clio_namespace::{Doomed, Inode, Kind, Namespace, NewNode, OpCtx, PathAt, Removed, SetAttr};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub struct Real {
    /// `None` only while it is being opened again.
    ns: Option<Namespace>,
    /// `None` for one in memory, which can't be opened again.
    folder: Option<PathBuf>,
    open: Vec<Fid>,
    /// If set, operations carry this client's ids.
    client: Option<ClientId>,
}

const NODE: NewNode<'static> = NewNode { mode: 0o640, uid: 1, gid: 2, layout: None };

fn kind(kind: Kind) -> char {
    match kind {
        Kind::File => 'f',
        Kind::Dir => 'd',
        Kind::Symlink => 'l',
    }
}

fn describe(i: &Inode) -> String {
    format!("{}{} {:o}", kind(i.kind), i.nlink, i.mode)
}

fn destroy(d: Option<Doomed>) -> String {
    d.map_or(String::new(), |d| format!(" destroy {:?}", d.layout))
}

fn removed(r: Removed) -> String {
    format!("{}{}{}", kind(r.kind), r.nlink, destroy(r.destroy))
}

impl Real {
    pub fn in_memory() -> Self {
        let ns = Namespace::in_memory(&NewNode::new(0o755, 0, 0), 0).unwrap();
        Self { ns: Some(ns), folder: None, open: vec![], client: None }
    }

    pub fn on_disk(folder: &Path, client: Option<ClientId>) -> Self {
        let ns = Namespace::open(folder, &NewNode::new(0o755, 0, 0), 0).unwrap();
        Self { ns: Some(ns), folder: Some(folder.into()), open: vec![], client }
    }

    pub fn ns(&self) -> &Namespace {
        self.ns.as_ref().unwrap()
    }

    fn reopen(&mut self) -> Result<String, Error> {
        self.open.clear();
        let folder = self.folder.clone().unwrap();
        self.ns = None;
        self.ns = Some(Namespace::open(&folder, &NewNode::new(0o755, 0, 0), 0)?);
        let mut text = String::new();
        for fid in self.ns().orphans()? {
            text += &format!("orphan{}", destroy(self.ns().reclaim(fid)?));
        }
        Ok(text)
    }

    fn close(&mut self, n: usize) -> Result<String, Error> {
        match self.open.len() {
            0 => Ok(String::new()),
            len => {
                let fid = self.open.remove(n % len);
                Ok(destroy(self.ns().close_ref(fid)?))
            }
        }
    }

    /// Runs `op` at time `now`, which is its xid, too.
    pub fn apply(&mut self, op: &Op, now: u64) -> Outcome {
        self.try_apply(op, now).map_err(|e| {
            assert_ne!(e.errno(), Errno::EIO, "{op:?}: {e}");
            e.errno()
        })
    }

    fn try_apply(&mut self, op: &Op, now: u64) -> Result<String, Error> {
        let mut ctx = OpCtx::at(now);
        if let Some(client) = self.client {
            ctx = ctx.with_id(client, now);
        }
        let ns = self.ns();
        match op {
            Op::Create(p, if_exists) => {
                ns.create_path(&ctx, p, &NODE, *if_exists).map(|(i, made)| format!("{made} {}", describe(&i)))
            }
            Op::Mkdir(p) => ns.mkdir_path(&ctx, p, &NODE).map(|i| describe(&i)),
            Op::Symlink(t, p) => {
                ns.symlink_path(&ctx, t.as_bytes(), p, &NewNode { mode: 0o640, ..NODE }).map(|i| describe(&i))
            }
            Op::Link(old, follow, new) => ns.link_path(&ctx, old, *follow, new).map(|i| describe(&i)),
            Op::Unlink(p) => ns.unlink_path(&ctx, p).map(removed),
            Op::Rmdir(p) => ns.rmdir_path(&ctx, p).map(removed),
            Op::Rename(old, new, mode) => {
                ns.rename_path(&ctx, old, new, *mode).map(|r| r.map_or("nothing".into(), removed))
            }
            Op::Chmod(p, mode) => {
                let set = SetAttr { mode: Some(*mode), ..SetAttr::default() };
                ns.setattr(&ctx, ns.resolve(p, true)?.fid, &set).map(|i| describe(&i))
            }
            Op::SetXattr(p, n, mode) => {
                let (name, value) = (format!("user.{n}"), now.to_string());
                let fid = ns.resolve(p, true)?.fid;
                ns.set_xattr(&ctx, fid, name.as_bytes(), value.as_bytes(), *mode).map(|()| String::new())
            }
            Op::RemoveXattr(p, n) => {
                let fid = ns.resolve(p, true)?.fid;
                ns.remove_xattr(&ctx, fid, format!("user.{n}").as_bytes()).map(|()| String::new())
            }
            Op::SetLayout(p, byte) => ns.set_layout(&ctx, ns.resolve(p, false)?.fid, &[*byte]).map(|()| String::new()),
            Op::Resolve(p, follow) => {
                ns.resolve(PathAt::new(Namespace::ROOT, p.as_bytes()), *follow).map(|i| describe(&i))
            }
            Op::List(p) => {
                let list = ns.readdir(ns.resolve(p, true)?.fid, None, usize::MAX)?;
                Ok(list.iter().map(|e| format!("{}{} ", String::from_utf8_lossy(&e.name), kind(e.kind))).collect())
            }
            Op::Open(p) => {
                let inode = ns.resolve(p, true)?;
                ns.open_ref(inode.fid)?;
                self.open.push(inode.fid);
                Ok(describe(&inode))
            }
            Op::Close(n) => self.close(*n),
            Op::Reopen => self.reopen(),
        }
    }

    /// As the model's.
    pub fn dump(&self) -> String {
        let (mut text, mut seen) = (String::new(), Vec::new());
        self.dump_dir(Namespace::ROOT, "", &mut text, &mut seen);
        text
    }

    fn dump_dir(&self, fid: Fid, path: &str, text: &mut String, seen: &mut Vec<Fid>) {
        let number = seen.iter().position(|s| *s == fid).unwrap_or_else(|| {
            seen.push(fid);
            seen.len() - 1
        });
        let node = self.ns().getattr(fid).unwrap();
        let body = match node.kind {
            Kind::File => format!("{:?}", node.layout),
            Kind::Dir => format!("{} {:?}", node.entries, node.default_layout),
            Kind::Symlink => String::from_utf8(node.target.clone()).unwrap(),
        };
        let xattrs: BTreeMap<_, _> =
            node.xattrs.iter().map(|(n, v)| (String::from_utf8(n.clone()).unwrap(), v.clone())).collect();
        let times = format!("{} {}", node.mtime, node.ctime);
        writeln!(text, "{path}/ {number} {} {times} {body} {xattrs:?}", describe(&node)).unwrap();
        if node.kind == Kind::Dir {
            for e in self.ns().readdir(fid, None, usize::MAX).unwrap() {
                self.dump_dir(e.fid, &format!("{path}/{}", String::from_utf8(e.name).unwrap()), text, seen);
            }
        }
    }
}
