//! Every case of rename.

use crate::*;
use clio_core::Errno;
use clio_core::units::Fid;

const NODE: NewNode<'static> = NewNode { mode: 0o644, uid: 1, gid: 2, layout: None };

/// A tree with one of everything: /f, /g (hard link of f), /h; directories /e (empty), /d (with s/t and x);
/// /l → d.
struct Tree {
    ns: Namespace,
    f: Fid,
    h: Fid,
    d: Fid,
    e: Fid,
    s: Fid,
}

fn tree() -> Tree {
    let ns = Namespace::in_memory(&NewNode::new(0o755, 0, 0), 1).unwrap();
    let at = OpCtx::at(2);
    let file = |p: &str| ns.create_path(&at, p, &NODE, IfExists::Fail).unwrap().0.fid;
    let dir = |p: &str| ns.mkdir_path(&at, p, &NODE).unwrap().fid;
    let (f, h, d, e) = (file("/f"), file("/h"), dir("/d"), dir("/e"));
    let s = dir("/d/s");
    dir("/d/s/t");
    file("/d/x");
    ns.link_path(&at, "/f", false, "/g").unwrap();
    ns.symlink_path(&at, b"d", "/l", &NODE).unwrap();
    Tree { ns, f, h, d, e, s }
}

impl Tree {
    fn mv(&self, old: &str, new: &str, mode: RenameMode) -> clio_core::Result<Option<Removed>> {
        let r = self.ns.rename_path(&OpCtx::at(9), old, new, mode);
        assert!(self.ns.check().unwrap().is_clean(), "{old} to {new}: {:?}", self.ns.check().unwrap());
        r
    }

    fn fid(&self, path: &str) -> Option<Fid> {
        self.ns.resolve(path, false).ok().map(|i| i.fid)
    }
}

#[test]
fn errors() {
    use Errno::*;
    use RenameMode::*;
    let t = tree();
    let table = [
        ("/no", "/x", Replace, ENOENT),
        ("/no/x", "/x", Replace, ENOENT),
        ("/f", "/no/x", Replace, ENOENT),
        ("/f/x", "/x", Replace, ENOTDIR),
        ("/f", "/h/x", Replace, ENOTDIR),
        ("/", "/x", Replace, EBUSY),
        ("/f", "/", Replace, EBUSY),
        ("/d/.", "/x", Replace, EBUSY),
        ("/d/s/..", "/x", Replace, EBUSY),
        ("/f", "/d/..", Replace, EBUSY),
        ("/d", "/d/s/new", Replace, EINVAL),
        ("/d", "/d/x", Replace, EINVAL),
        ("/d/s", "/d/s/t", Replace, EINVAL),
        ("/d/s/t", "/d", Replace, ENOTEMPTY),
        ("/d/x", "/d", Replace, ENOTEMPTY),
        ("/e", "/d", Replace, ENOTEMPTY),
        ("/e", "/f", Replace, ENOTDIR),
        ("/f", "/e", Replace, EISDIR),
        ("/f", "/d", Replace, EISDIR),
        ("/f/", "/x", Replace, ENOTDIR),
        ("/f", "/x/", Replace, ENOTDIR),
        ("/l/", "/x", Replace, ENOTDIR),
        ("/f", "/h", NoReplace, EEXIST),
        ("/f", "/f", NoReplace, EEXIST),
        ("/f", "/g", NoReplace, EEXIST),
        ("/d", "/d/x", NoReplace, EEXIST),
        ("/f", "/x", Exchange, ENOENT),
        ("/d", "/d/x", Exchange, EINVAL),
        ("/d/s/t", "/d", Exchange, EINVAL),
        ("/d", "/f/", Exchange, ENOTDIR),
    ];
    let before = dump(&t.ns);
    for (old, new, mode, errno) in table {
        match t.mv(old, new, mode) {
            Ok(_) => panic!("rename {old} to {new}, {mode:?}: succeeded"),
            Err(e) => assert_eq!(e.errno(), errno, "rename {old} to {new}, {mode:?}: {e}"),
        }
    }
    let long = "x".repeat(256);
    assert_eq!(t.mv("/f", &format!("/{long}"), Replace).unwrap_err().errno(), ENAMETOOLONG);
    assert_eq!(dump(&t.ns), before, "a rename that fails changes nothing");
}

/// All inodes and names of a namespace.
fn dump(ns: &Namespace) -> Vec<(String, Inode)> {
    let mut all = vec![("/".to_string(), ns.getattr(Namespace::ROOT).unwrap())];
    let mut at = 0;
    while at < all.len() {
        let (path, inode) = all[at].clone();
        if inode.kind == Kind::Dir {
            for e in ns.readdir(inode.fid, None, usize::MAX).unwrap() {
                let path = format!("{path}{}/", String::from_utf8(e.name).unwrap());
                all.push((path, ns.getattr(e.fid).unwrap()));
            }
        }
        at += 1;
    }
    all
}

#[test]
fn to_a_new_name() {
    let t = tree();
    assert_eq!(t.mv("/f", "/d/f", RenameMode::Replace).unwrap(), None);
    assert_eq!((t.fid("/f"), t.fid("/d/f")), (None, Some(t.f)));
    let (f, root, d) = (t.ns.getattr(t.f).unwrap(), t.ns.getattr(Namespace::ROOT).unwrap(), t.ns.getattr(t.d).unwrap());
    assert_eq!((f.ctime, f.mtime, root.mtime, d.mtime), (9, 2, 9, 9));
    assert_eq!((root.nlink, d.nlink), (4, 3));
    t.mv("/h", "/h2", RenameMode::NoReplace).unwrap();
    assert_eq!(t.fid("/h2"), Some(t.h));
}

#[test]
fn a_directory_moves_with_all_below() {
    let t = tree();
    t.mv("/d/s", "/e/s2/", RenameMode::Replace).unwrap();
    let [root, d, e, s] = [Namespace::ROOT, t.d, t.e, t.s].map(|f| t.ns.getattr(f).unwrap());
    assert_eq!((root.nlink, d.nlink, e.nlink, s.parent), (4, 2, 3, t.e));
    assert_eq!(t.fid("/e/s2/t/../.."), Some(t.e));
    t.mv("/e", "/d/e", RenameMode::Replace).unwrap();
    assert_eq!(t.fid("/d/e/s2/t/../../.."), Some(t.d));
}

#[test]
fn over_a_file() {
    let t = tree();
    let removed = t.mv("/f", "/h", RenameMode::Replace).unwrap().unwrap();
    assert_eq!((removed.fid, removed.nlink), (t.h, 0));
    assert_eq!(removed.destroy.unwrap().fid, t.h);
    assert_eq!((t.fid("/f"), t.fid("/h")), (None, Some(t.f)));
}

#[test]
fn over_one_of_two_names() {
    let t = tree();
    let removed = t.mv("/h", "/g", RenameMode::Replace).unwrap().unwrap();
    assert_eq!((removed.fid, removed.nlink, removed.destroy), (t.f, 1, None));
}

#[test]
fn over_an_open_file() {
    let t = tree();
    t.ns.open_ref(t.h).unwrap();
    assert_eq!(t.mv("/f", "/h", RenameMode::Replace).unwrap().unwrap().destroy, None);
    assert_eq!(t.ns.close_ref(t.h).unwrap().unwrap().fid, t.h);
}

#[test]
fn over_an_empty_directory() {
    let t = tree();
    let removed = t.mv("/d/s", "/e", RenameMode::Replace).unwrap().unwrap();
    assert_eq!((removed.fid, removed.kind, removed.destroy), (t.e, Kind::Dir, None));
    let [root, d, s] = [Namespace::ROOT, t.d, t.s].map(|f| t.ns.getattr(f).unwrap());
    assert_eq!((root.nlink, root.entries, d.nlink, s.parent), (4, 6, 2, Namespace::ROOT));
}

#[test]
fn two_names_of_one_file_stay() {
    let t = tree();
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        for (old, new) in [("/f", "/g"), ("/f", "/f"), ("/d", "/d")] {
            assert_eq!(t.mv(old, new, mode).unwrap(), None);
            assert!(t.fid(old).is_some() && t.fid(new).is_some());
        }
    }
    assert_eq!(t.ns.getattr(t.f).unwrap().nlink, 2);
}

#[test]
fn exchange() {
    let t = tree();
    t.mv("/h", "/d/s", RenameMode::Exchange).unwrap();
    assert_eq!((t.fid("/h"), t.fid("/d/s")), (Some(t.s), Some(t.h)));
    let [root, d, s] = [Namespace::ROOT, t.d, t.s].map(|f| t.ns.getattr(f).unwrap());
    assert_eq!((root.nlink, d.nlink, s.parent), (5, 2, Namespace::ROOT));
    t.mv("/d", "/e", RenameMode::Exchange).unwrap();
    assert_eq!((t.fid("/e"), t.fid("/d")), (Some(t.d), Some(t.e)));
    t.mv("/h/t", "/e/", RenameMode::Exchange).unwrap();
    assert_eq!(t.fid("/h/t"), Some(t.d));
}
