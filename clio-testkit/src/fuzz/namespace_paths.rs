//! Paths of any kind, resolved while the tree changes.

use super::script::Script;
use super::{Verdict, refused};
use clio_core::units::Fid;
use clio_core::{Errno, Result};
use clio_namespace::{IfExists, Inode, Kind, Last, Namespace, NewNode, OpCtx, Parent, PathAt, RenameMode};
use clio_namespace::{MAX_NAME_BYTES, MAX_PATH_BYTES};

/// Longest script, in operations.
const MAX_OPERATIONS: u64 = 48;
/// What a path, a name or the tree can be the reason of: nothing here is damaged.
const DOCUMENTED: &[Errno] = &[
    Errno::EPERM,
    Errno::ENOENT,
    Errno::EBUSY,
    Errno::EEXIST,
    Errno::ENOTDIR,
    Errno::EISDIR,
    Errno::EINVAL,
    Errno::ENAMETOOLONG,
    Errno::ENOTEMPTY,
    Errno::ELOOP,
];

/// First byte of an operation.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Op {
    Resolve,
    CreateNew,
    CreateOrOpen,
    Mkdir,
    Symlink,
    Link,
    LinkFollowing,
    Unlink,
    Rmdir,
    Rename,
    RenameToNew,
    Exchange,
    Open,
    Close,
}

const OPS: [Op; 14] = {
    use Op::*;
    [
        Resolve,
        CreateNew,
        CreateOrOpen,
        Mkdir,
        Symlink,
        Link,
        LinkFollowing,
        Unlink,
        Rmdir,
        Rename,
        RenameToNew,
        Exchange,
        Open,
        Close,
    ]
};

/// A script: a byte for the operation, a path, and for those that take two another.
pub fn namespace_paths(input: &[u8]) -> Verdict {
    let mut script = Script::new(input);
    let mut world = World::new();
    let mut verdict = Verdict::Refused;
    for now in 1..=MAX_OPERATIONS {
        let (Some(op), Some(path)) = (script.byte(), script.string()) else { break };
        let op = OPS[usize::from(op) % OPS.len()];
        let two =
            matches!(op, Op::Symlink | Op::Link | Op::LinkFollowing | Op::Rename | Op::RenameToNew | Op::Exchange);
        let other = if two { script.string().unwrap_or_default() } else { Vec::new() };
        match world.apply(op, &OpCtx::at(now), &path, &other) {
            Ok(()) => verdict = Verdict::Accepted,
            Err(e) => drop(refused(&e, DOCUMENTED)),
        }
        world.look(&path);
        world.look(&other);
    }
    world.end();
    verdict
}

struct World {
    ns: Namespace,
    open: Vec<Fid>,
}

fn at(path: &[u8]) -> PathAt<'_> {
    PathAt::new(Namespace::ROOT, path)
}

impl World {
    /// A tree in which there is something to walk over.
    fn new() -> Self {
        let node = NewNode::new(0o755, 1, 1);
        let ctx = OpCtx::at(0);
        let ns = Namespace::in_memory(&node, 0).expect("a namespace in memory");
        for dir in ["/d", "/d/e"] {
            ns.mkdir_path(&ctx, dir, &node).expect(dir);
        }
        ns.create_path(&ctx, "/d/e/f", &node, IfExists::Fail).expect("/d/e/f");
        for (target, name) in [("d/e/..", "/up"), ("loop", "/loop"), ("/d/", "/abs"), ("nowhere", "/dangling")] {
            ns.symlink_path(&ctx, target.as_bytes(), name, &node).expect(name);
        }
        Self { ns, open: Vec::new() }
    }

    fn found(&self, path: &[u8], follow: bool) -> Option<Fid> {
        self.ns.resolve_parent(at(path), follow).ok()?.found.map(|i| i.fid)
    }

    /// Runs an operation, and checks that what it did can be seen.
    fn apply(&mut self, op: Op, ctx: &OpCtx, path: &[u8], other: &[u8]) -> Result<()> {
        let (ns, node) = (&self.ns, NewNode::new(0o644, 1, 1));
        match op {
            Op::Resolve => drop(ns.resolve(at(path), true)?),
            Op::CreateNew | Op::CreateOrOpen => {
                let open = matches!(op, Op::CreateOrOpen);
                let if_exists = if open { IfExists::Open } else { IfExists::Fail };
                let (inode, created) = ns.create_path(ctx, at(path), &node, if_exists)?;
                assert!(created || open);
                assert_eq!(self.found(path, open), Some(inode.fid));
            }
            Op::Mkdir => {
                let inode = ns.mkdir_path(ctx, at(path), &node)?;
                assert_eq!(self.found(path, false), Some(inode.fid));
            }
            Op::Symlink => {
                let inode = ns.symlink_path(ctx, other, at(path), &node)?;
                assert_eq!((self.found(path, false), &inode.target[..]), (Some(inode.fid), other));
            }
            Op::Link | Op::LinkFollowing => {
                let follow = matches!(op, Op::LinkFollowing);
                let inode = ns.link_path(ctx, at(path), follow, at(other))?;
                assert!(inode.nlink >= 2 && self.found(other, false) == Some(inode.fid));
            }
            Op::Unlink | Op::Rmdir => {
                let removed = match op {
                    Op::Unlink => ns.unlink_path(ctx, at(path))?,
                    _ => ns.rmdir_path(ctx, at(path))?,
                };
                assert_eq!(removed.kind == Kind::Dir, matches!(op, Op::Rmdir));
                assert_eq!(ns.resolve(at(path), false).map_err(|e| e.errno()), Err(Errno::ENOENT));
            }
            Op::Rename => self.rename(ctx, path, other, RenameMode::Replace)?,
            Op::RenameToNew => self.rename(ctx, path, other, RenameMode::NoReplace)?,
            Op::Exchange => self.rename(ctx, path, other, RenameMode::Exchange)?,
            Op::Open => {
                let fid = ns.resolve(at(path), true)?.fid;
                ns.open_ref(fid)?;
                self.open.push(fid);
            }
            Op::Close => {
                let Some(fid) = self.open.pop() else { return Ok(()) };
                let doomed = ns.close_ref(fid)?;
                doomed.map_or(Ok(()), |d| ns.destroyed(d.fid))?;
            }
        }
        Ok(())
    }

    /// A rename may change what its own paths mean, so that its outcome is looked up by directories and names.
    fn rename(&self, ctx: &OpCtx, old: &[u8], new: &[u8], mode: RenameMode) -> Result<()> {
        let ends = [old, new].map(|path| self.ns.resolve_parent(at(path), false));
        let there = |p: &Parent| match &p.last {
            Last::Name(name) => self.ns.lookup(p.dir, name).ok().map(|i| i.fid),
            _ => None,
        };
        self.ns.rename_path(ctx, at(old), at(new), mode)?;
        let [from, to] = ends.map(|end| end.expect("a path that renames resolves"));
        let moved = from.found.as_ref().map(|i| i.fid);
        assert!(moved.is_some() && there(&to) == moved, "{moved:?} is at its new place");
        if mode == RenameMode::Exchange {
            assert_eq!(there(&from), to.found.map(|i| i.fid));
        }
        Ok(())
    }

    /// The laws of resolution.
    fn look(&self, path: &[u8]) {
        self.follow(path);
        for follow in [false, true] {
            match self.ns.resolve(at(path), follow) {
                Ok(inode) => self.agree(path, follow, &inode),
                Err(e) => drop(refused(&e, DOCUMENTED)),
            }
        }
    }

    /// A symbolic link stands for what its target is, seen from the link's directory.
    fn follow(&self, path: &[u8]) {
        let Ok(Parent { dir, found: Some(link), slash: false, .. }) = self.ns.resolve_parent(at(path), false) else {
            return;
        };
        if link.kind == Kind::Symlink {
            let by_target = self.ns.resolve(PathAt::new(dir, &link.target), true).map(|i| i.fid);
            match self.ns.resolve(at(path), true) {
                Err(e) if e.errno() == Errno::ELOOP => {} // it may have followed more links on the way
                through => assert_eq!(through.map(|i| i.fid).ok(), by_target.ok()),
            }
        }
    }

    /// `inode` is what `path` stands for: all other ways of asking, and of writing the path, say so too.
    fn agree(&self, path: &[u8], follow: bool, inode: &Inode) {
        assert!(!follow || inode.kind != Kind::Symlink, "links are followed");
        assert_eq!(self.ns.getattr(inode.fid).as_ref().ok(), Some(inode));
        let end = self.ns.resolve_parent(at(path), follow).expect("what resolves has a place");
        if let (Last::Name(name), true) = (&end.last, follow) {
            assert!((1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(&b'/'));
            assert_eq!(self.ns.lookup(end.dir, name).map(|i| i.fid).ok(), Some(inode.fid));
        }
        let doubled: Vec<u8> = path.iter().flat_map(|b| std::iter::repeat_n(*b, 1 + usize::from(*b == b'/'))).collect();
        let mut same = vec![[b"/./", path].concat(), doubled];
        if inode.kind == Kind::Dir {
            same.extend([[path, b"/."].concat(), [path, b"//"].concat()]);
            let listed = self.ns.readdir(inode.fid, None, usize::MAX).expect("a directory can be listed");
            assert_eq!(listed.len() as u64, inode.entries);
        }
        for spelling in same.iter().filter(|s| s.len() <= MAX_PATH_BYTES) {
            let again = self.ns.resolve(at(spelling), follow).map(|i| i.fid);
            assert_eq!(again.ok(), Some(inode.fid), "{}", String::from_utf8_lossy(spelling));
        }
    }

    /// The records fit together, while files are open and after.
    fn end(self) {
        self.check();
        for fid in &self.open {
            self.ns.close_ref(*fid).expect("it was open");
        }
        for doomed in self.ns.to_destroy().expect("a namespace in memory") {
            self.ns.destroyed(doomed.fid).expect("it was to be destroyed");
        }
        assert_eq!(self.ns.orphans().expect("a namespace in memory"), []);
        self.check();
    }

    fn check(&self) {
        let report = self.ns.check().expect("a namespace in memory");
        assert!(report.is_clean(), "{report:?}");
    }
}
