//! One test for each operation: what it does, and each errno.

use crate::*;
use clio_core::units::{ClientId, Fid};
use clio_core::{Errno, Result};

const ROOT: Fid = Namespace::ROOT;
const NODE: NewNode<'static> = NewNode { mode: 0o644, uid: 1, gid: 2, layout: None };

fn ns() -> Namespace {
    Namespace::in_memory(&NewNode::new(0o755, 0, 0), 1).unwrap()
}

fn at(now: u64) -> OpCtx {
    OpCtx::at(now)
}

#[track_caller]
fn fails<T>(result: Result<T>, errno: Errno) {
    match result {
        Ok(_) => panic!("succeeded instead of {errno:?}"),
        Err(e) => assert_eq!(e.errno(), errno, "{e}"),
    }
}

fn file(ns: &Namespace, path: &str) -> Fid {
    ns.create_path(&at(2), path, &NODE, IfExists::Fail).unwrap().0.fid
}

fn dir(ns: &Namespace, path: &str) -> Fid {
    ns.mkdir_path(&at(2), path, &NODE).unwrap().fid
}

fn link(ns: &Namespace, target: &str, path: &str) -> Fid {
    ns.symlink_path(&at(2), target.as_bytes(), path, &NODE).unwrap().fid
}

#[test]
fn create() {
    let ns = ns();
    let (made, created) = ns.create(&at(5), ROOT, b"f", &NODE, IfExists::Fail).unwrap();
    assert!(created);
    assert_eq!((made.kind, made.mode, made.uid, made.gid, made.nlink), (Kind::File, 0o644, 1, 2, 1));
    assert_eq!((made.atime, made.mtime, made.ctime, made.size_hint), (5, 5, 5, None));
    assert_eq!(ns.lookup(ROOT, b"f").unwrap(), made);
    let root = ns.getattr(ROOT).unwrap();
    assert_eq!((root.mtime, root.ctime, root.entries, root.nlink), (5, 5, 1, 2));
    assert_eq!(ns.create(&at(6), ROOT, b"f", &NODE, IfExists::Open).unwrap(), (made.clone(), false));
    assert_eq!(ns.getattr(ROOT).unwrap().mtime, 5);

    let open = |parent, name: &[u8]| ns.create(&at(7), parent, name, &NODE, IfExists::Open);
    fails(ns.create(&at(7), ROOT, b"f", &NODE, IfExists::Fail), Errno::EEXIST);
    dir(&ns, "/d");
    link(&ns, "f", "/l");
    fails(open(ROOT, b"d"), Errno::EISDIR);
    fails(open(ROOT, b"l"), Errno::ELOOP);
    fails(open(made.fid, b"x"), Errno::ENOTDIR);
    fails(open(Fid::new(9, 9), b"x"), Errno::ENOENT);
    fails(open(ROOT, &[b'x'; 256]), Errno::ENAMETOOLONG);
    assert!(open(ROOT, &[b'x'; 255]).is_ok());
    for (name, errno) in
        [(&b""[..], Errno::ENOENT), (b".", Errno::EINVAL), (b"a/b", Errno::EINVAL), (b"\0", Errno::EINVAL)]
    {
        fails(open(ROOT, name), errno);
    }
    let large = vec![0; MAX_LAYOUT_BYTES + 1];
    fails(ns.create(&at(7), ROOT, b"y", &NewNode { layout: Some(&large), ..NODE }, IfExists::Open), Errno::E2BIG);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn names_are_bytes() {
    let ns = ns();
    let name = b"\xff\xfe\n";
    ns.create(&at(5), ROOT, name, &NODE, IfExists::Fail).unwrap();
    assert_eq!(ns.readdir(ROOT, None, 9).unwrap()[0].name, name);
    assert!(ns.resolve(PathAt::new(ROOT, b"/\xff\xfe\n"), true).is_ok());
}

#[test]
fn mkdir_and_parents() {
    let ns = ns();
    let a = dir(&ns, "/a");
    let b = dir(&ns, "/a/b/");
    assert_eq!(ns.getattr(a).unwrap().nlink, 3);
    assert_eq!((ns.getattr(b).unwrap().nlink, ns.getattr(b).unwrap().parent), (2, a));
    assert_eq!(ns.getattr(ROOT).unwrap().nlink, 3);
    for path in ["/a", "/a/b/..", "/a/.", "/"] {
        fails(ns.mkdir_path(&at(3), path, &NODE), Errno::EEXIST);
    }
    fails(ns.mkdir_path(&at(3), "/no/x", &NODE), Errno::ENOENT);
    file(&ns, "/f");
    fails(ns.mkdir_path(&at(3), "/f/x", &NODE), Errno::ENOTDIR);
}

#[test]
fn group_is_inherited_where_the_directory_says_so() {
    let ns = ns();
    ns.mkdir(&at(2), ROOT, b"d", &NewNode::new(0o2755, 1, 77)).unwrap();
    assert_eq!(ns.getattr(file(&ns, "/d/f")).unwrap().gid, 77);
    let sub = ns.getattr(dir(&ns, "/d/s")).unwrap();
    assert_eq!((sub.gid, sub.mode), (77, 0o2644));
}

#[test]
fn layouts_are_inherited() {
    let ns = ns();
    let d = dir(&ns, "/d");
    ns.set_layout(&at(3), d, b"striped").unwrap();
    let (sub, f) = (dir(&ns, "/d/s"), file(&ns, "/d/f"));
    let deep = file(&ns, "/d/s/f");
    for fid in [d, sub, f, deep] {
        assert_eq!(ns.get_layout(fid).unwrap(), b"striped");
    }
    let own = NewNode { layout: Some(b"own"), ..NODE };
    let (own, _) = ns.create(&at(4), d, b"own", &own, IfExists::Fail).unwrap();
    assert_eq!(own.layout, b"own");
    ns.set_layout(&at(9), f, b"new").unwrap();
    let inode = ns.getattr(f).unwrap();
    assert_eq!((&inode.layout[..], inode.ctime, inode.mtime), (&b"new"[..], 9, 2));
    let l = link(&ns, "x", "/l");
    fails(ns.set_layout(&at(3), l, b"x"), Errno::EINVAL);
    fails(ns.get_layout(l), Errno::EINVAL);
    fails(ns.set_layout(&at(3), f, &vec![0; MAX_LAYOUT_BYTES + 1]), Errno::E2BIG);
    fails(ns.set_layout(&at(3), Fid::new(9, 9), b""), Errno::ENOENT);
}

#[test]
fn setattr() {
    let ns = ns();
    let f = file(&ns, "/f");
    let set = SetAttr { mode: Some(0o170777), uid: Some(7), size_hint: Some(Some(99)), ..SetAttr::default() };
    let i = ns.setattr(&at(8), f, &set).unwrap();
    assert_eq!((i.mode, i.uid, i.gid, i.size_hint), (0o777, 7, 2, Some(99)));
    assert_eq!((i.atime, i.mtime, i.ctime), (2, 2, 8));
    let i = ns.setattr(&at(9), f, &SetAttr { mtime: Some(1), ..SetAttr::default() }).unwrap();
    assert_eq!((i.mtime, i.ctime), (1, 9));
    let late = SetAttr { mtime: Some(0), atime: Some(5), only_raise_times: true, ..SetAttr::default() };
    let i = ns.setattr(&at(4), f, &late).unwrap();
    assert_eq!((i.atime, i.mtime, i.ctime), (5, 1, 9));
    assert_eq!(ns.setattr(&at(50), f, &SetAttr::default()).unwrap().ctime, 9);
    fails(ns.setattr(&at(1), ROOT, &SetAttr { size_hint: Some(None), ..SetAttr::default() }), Errno::EINVAL);
    fails(ns.setattr(&at(1), Fid::new(9, 9), &SetAttr::default()), Errno::ENOENT);
}

#[test]
fn readdir_pages_stay_put() {
    let ns = ns();
    let names: Vec<_> = (0..25).map(|n| format!("n{n:02}")).collect();
    for name in &names {
        file(&ns, &format!("/{name}"));
    }
    let mut seen = Vec::new();
    loop {
        let page = ns.readdir(ROOT, seen.last().map(Vec::as_slice), 4).unwrap();
        seen.extend(page.iter().map(|e| e.name.clone()));
        if page.len() < 4 {
            break;
        }
        // The last name seen goes, another comes behind the cursor.
        ns.unlink(&at(3), ROOT, seen.last().unwrap()).unwrap();
        ns.create(&at(3), ROOT, format!("a{}", seen.len()).as_bytes(), &NODE, IfExists::Fail).unwrap();
    }
    assert_eq!(seen, names.iter().map(|n| n.as_bytes().to_vec()).collect::<Vec<_>>());
    assert_eq!(ns.readdir(ROOT, None, 0).unwrap(), []);
    fails(ns.readdir(file(&ns, "/f"), None, 9), Errno::ENOTDIR);
    fails(ns.readdir(Fid::new(9, 9), None, 9), Errno::ENOENT);
}

#[test]
fn unlink_and_its_objects() {
    let ns = ns();
    let f = file(&ns, "/f");
    ns.set_layout(&at(2), f, b"L").unwrap();
    ns.link_path(&at(3), "/f", false, "/g").unwrap();
    let r = ns.unlink_path(&at(4), "/f").unwrap();
    assert_eq!((r.fid, r.kind, r.nlink, r.destroy), (f, Kind::File, 1, None));
    assert_eq!(ns.getattr(f).unwrap().ctime, 4);
    let doomed = ns.unlink_path(&at(5), "/g").unwrap().destroy.unwrap();
    assert_eq!(doomed, Doomed { fid: f, layout: b"L".to_vec() });
    fails(ns.getattr(f), Errno::ENOENT);
    assert_eq!(ns.to_destroy().unwrap(), [doomed]);
    ns.destroyed(f).unwrap();
    ns.destroyed(f).unwrap();
    assert_eq!(ns.to_destroy().unwrap(), []);
    link(&ns, "x", "/l");
    assert_eq!(ns.unlink_path(&at(6), "/l").unwrap().destroy, None);
    assert_eq!(ns.to_destroy().unwrap(), []);

    fails(ns.unlink_path(&at(6), "/l"), Errno::ENOENT);
    dir(&ns, "/d");
    file(&ns, "/f");
    for path in ["/d", "/d/", "/", "/d/.", "/d/.."] {
        fails(ns.unlink_path(&at(6), path), Errno::EISDIR);
    }
    fails(ns.unlink_path(&at(6), "/f/"), Errno::ENOTDIR);
    fails(ns.unlink_path(&at(6), "/f/x"), Errno::ENOTDIR);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn rmdir() {
    let ns = ns();
    let d = dir(&ns, "/d");
    dir(&ns, "/d/e");
    file(&ns, "/f");
    link(&ns, "d", "/l");
    for (path, errno) in [
        ("/d", Errno::ENOTEMPTY),
        ("/d/e/.", Errno::EINVAL),
        ("/d/e/..", Errno::ENOTEMPTY),
        ("/", Errno::EBUSY),
        ("/f", Errno::ENOTDIR),
        ("/l", Errno::ENOTDIR),
        ("/l/", Errno::ENOTDIR),
        ("/x", Errno::ENOENT),
    ] {
        fails(ns.rmdir_path(&at(3), path), errno);
    }
    ns.rmdir_path(&at(3), "/d/e/").unwrap();
    assert_eq!(ns.getattr(d).unwrap().nlink, 2);
    ns.rmdir_path(&at(3), "/d").unwrap();
    fails(ns.create(&at(3), d, b"x", &NODE, IfExists::Fail), Errno::ENOENT);
    assert_eq!(ns.getattr(ROOT).unwrap().nlink, 2);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn an_open_directory_that_was_removed_stays_empty() {
    let ns = ns();
    let d = dir(&ns, "/d");
    ns.open_ref(d).unwrap();
    ns.rmdir_path(&at(3), "/d").unwrap();
    assert_eq!(ns.readdir(d, None, 9).unwrap(), []);
    fails(ns.create(&at(3), d, b"x", &NODE, IfExists::Fail), Errno::ENOENT);
    fails(ns.rename(&at(3), (d, b"x"), (ROOT, b"x"), RenameMode::Replace), Errno::ENOENT);
    assert!(ns.check().unwrap().is_clean());
    assert_eq!(ns.close_ref(d).unwrap(), None);
    fails(ns.getattr(d), Errno::ENOENT);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn links() {
    let ns = ns();
    let (f, d) = (file(&ns, "/f"), dir(&ns, "/d"));
    link(&ns, "f", "/l");
    assert_eq!(ns.link_path(&at(7), "/l", true, "/d/f2").unwrap().nlink, 2);
    assert_eq!(ns.getattr(f).unwrap().ctime, 7);
    assert_eq!(ns.link_path(&at(7), "/l", false, "/d/l2").unwrap().kind, Kind::Symlink);
    fails(ns.link_path(&at(7), "/d", false, "/d2"), Errno::EPERM);
    fails(ns.link_path(&at(7), "/f", false, "/d"), Errno::EEXIST);
    fails(ns.link_path(&at(7), "/f", false, "/x/"), Errno::ENOENT);
    fails(ns.link_path(&at(7), "/f", false, "/."), Errno::EEXIST);
    fails(ns.link_path(&at(7), "/x", false, "/y"), Errno::ENOENT);
    fails(ns.link(&at(7), f, f, b"y"), Errno::ENOTDIR);
    for n in 2..MAX_LINKS {
        ns.link(&at(8), f, d, n.to_string().as_bytes()).unwrap();
    }
    fails(ns.link(&at(8), f, d, b"more"), Errno::EMLINK);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn a_file_without_a_name_gets_none_again() {
    let ns = ns();
    let f = file(&ns, "/f");
    ns.open_ref(f).unwrap();
    ns.unlink_path(&at(3), "/f").unwrap();
    fails(ns.link(&at(4), f, ROOT, b"g"), Errno::ENOENT);
}

#[test]
fn symlinks() {
    let ns = ns();
    let l = link(&ns, "to/where", "/l");
    assert_eq!(ns.readlink(l).unwrap(), b"to/where");
    fails(ns.readlink(ROOT), Errno::EINVAL);
    let make = |target: &[u8], path: &str| ns.symlink_path(&at(3), target, path, &NODE);
    fails(make(b"", "/m"), Errno::ENOENT);
    fails(make(&[b'x'; 4096], "/m"), Errno::ENAMETOOLONG);
    fails(make(b"a\0b", "/m"), Errno::EINVAL);
    fails(make(b"x", "/l"), Errno::EEXIST);
    fails(make(b"x", "/l/"), Errno::EEXIST);
    fails(make(b"x", "/m/"), Errno::ENOENT);
    assert!(make(&[b'x'; 4095], "/m").is_ok());
}

#[test]
fn resolution() {
    let ns = ns();
    let (a, b) = (dir(&ns, "/a"), dir(&ns, "/a/b"));
    let f = file(&ns, "/a/b/f");
    link(&ns, "a/b", "/rel");
    link(&ns, "/a/b/f", "/a/abs");
    link(&ns, "..", "/a/b/up");
    link(&ns, "nothing", "/broken");
    link(&ns, "loop", "/loop");
    let get = |path: &str, follow| ns.resolve(path, follow).map(|i| i.fid);
    for (path, fid) in [
        ("/", ROOT),
        ("//", ROOT),
        (".", ROOT),
        ("..", ROOT),
        ("/../..", ROOT),
        ("a", a),
        ("/a/", a),
        ("/a//b/.", b),
        ("/a/b/..", a),
        ("/rel/", b),
        ("/rel/f", f),
        ("/a/abs", f),
        ("/rel/..", a),
        ("/rel/up/b/up/abs", f),
    ] {
        assert_eq!(get(path, true).unwrap(), fid, "{path}");
    }
    assert_eq!(ns.resolve(PathAt::new(b, b"../abs"), true).unwrap().fid, f);
    assert_eq!(ns.resolve("/rel", false).unwrap().kind, Kind::Symlink);
    assert_eq!(get("/rel/", false).unwrap(), b);
    for (path, errno) in [
        ("", Errno::ENOENT),
        ("/x", Errno::ENOENT),
        ("/x/y", Errno::ENOENT),
        ("/broken", Errno::ENOENT),
        ("/a/b/f/", Errno::ENOTDIR),
        ("/a/b/f/x", Errno::ENOTDIR),
        ("/a/b/f/..", Errno::ENOTDIR),
        ("/a/abs/", Errno::ENOTDIR),
        ("/loop", Errno::ELOOP),
        ("/loop/x", Errno::ELOOP),
        ("/a\0", Errno::EINVAL),
        (&format!("/{}", "x".repeat(256)), Errno::ENAMETOOLONG),
        (&format!("/a{}", "/".repeat(4094)), Errno::ENAMETOOLONG),
    ] {
        fails(ns.resolve(path, true), errno);
    }
    assert_eq!(get(&format!("/a{}", "/".repeat(4093)), true).unwrap(), a);
    fails(ns.resolve(PathAt::new(f, b"x"), true), Errno::ENOTDIR);
    let e = ns.resolve("/a/none", true).unwrap_err();
    assert!(e.to_string().starts_with("resolve '/a/none': "), "{e}");
}

#[test]
fn forty_links_and_no_more() {
    let ns = ns();
    file(&ns, "/s0");
    for n in 1..=41 {
        link(&ns, &format!("s{}", n - 1), &format!("/s{n}"));
    }
    assert_eq!(ns.resolve("/s40", true).unwrap().kind, Kind::File);
    fails(ns.resolve("/s41", true), Errno::ELOOP);
}

#[test]
fn create_by_path() {
    let ns = ns();
    dir(&ns, "/d");
    link(&ns, "d/made", "/l");
    link(&ns, "no/made", "/m");
    let open = |path: &str| ns.create_path(&at(3), path, &NODE, IfExists::Open);
    let (made, created) = open("/l").unwrap();
    assert!(created);
    assert_eq!(ns.resolve("/d/made", false).unwrap(), made);
    assert_eq!(open("/l").unwrap(), (made, false));
    fails(ns.create_path(&at(3), "/l", &NODE, IfExists::Fail), Errno::EEXIST);
    fails(open("/m"), Errno::ENOENT);
    for path in ["/d", "/d/", "/x/", "/", "/d/.."] {
        fails(open(path), Errno::EISDIR);
    }
    fails(ns.create_path(&at(3), "/", &NODE, IfExists::Fail), Errno::EEXIST);
    fails(ns.create_path(&at(3), "/x/", &NODE, IfExists::Fail), Errno::EISDIR);
    let e = open("/no/x").unwrap_err();
    assert!(e.to_string().contains("'/no/x'"), "{e}");
}

#[test]
fn resolve_parent_says_where() {
    let ns = ns();
    let d = dir(&ns, "/d");
    link(&ns, "d/new", "/l");
    let p = ns.resolve_parent("/l", true).unwrap();
    assert_eq!((p.dir, p.last, p.found, p.slash), (d, Last::Name(b"new".to_vec()), None, false));
    let p = ns.resolve_parent("/l", false).unwrap();
    assert_eq!((p.dir, p.last), (ROOT, Last::Name(b"l".to_vec())));
    assert_eq!(ns.resolve_parent("/d/..", false).unwrap().last, Last::DotDot);
    assert_eq!(ns.resolve_parent("/", false).unwrap().last, Last::Root);
    assert!(ns.resolve_parent("/d/", false).unwrap().slash);
}

#[test]
fn xattrs() {
    let ns = ns();
    let f = file(&ns, "/f");
    let set = |name: &[u8], value: &[u8], mode| ns.set_xattr(&at(9), f, name, value, mode);
    set(b"user.b", b"1", XattrMode::Set).unwrap();
    set(b"user.a", b"", XattrMode::Create).unwrap();
    fails(set(b"user.a", b"", XattrMode::Create), Errno::EEXIST);
    fails(set(b"user.c", b"", XattrMode::Replace), Errno::ENODATA);
    set(b"user.b", b"two", XattrMode::Replace).unwrap();
    assert_eq!(ns.get_xattr(f, b"user.b").unwrap(), b"two");
    assert_eq!(ns.get_xattr(f, b"user.a").unwrap(), b"");
    assert_eq!(ns.list_xattrs(f).unwrap(), [b"user.a", b"user.b"]);
    assert_eq!((ns.getattr(f).unwrap().ctime, ns.getattr(f).unwrap().mtime), (9, 2));
    ns.remove_xattr(&at(9), f, b"user.a").unwrap();
    fails(ns.remove_xattr(&at(9), f, b"user.a"), Errno::ENODATA);
    fails(ns.get_xattr(f, b"user.a"), Errno::ENODATA);
    fails(set(b"", b"", XattrMode::Set), Errno::ERANGE);
    fails(set(&[b'x'; 256], b"", XattrMode::Set), Errno::ERANGE);
    fails(set(b"a\0", b"", XattrMode::Set), Errno::EINVAL);
    fails(set(b"user.b", &vec![0; MAX_XATTRS_BYTES + 1], XattrMode::Set), Errno::E2BIG);
    fails(set(b"user.b", &vec![0; MAX_XATTRS_BYTES], XattrMode::Set), Errno::ENOSPC);
    set(b"user.b", &vec![7; MAX_XATTRS_BYTES - 6], XattrMode::Set).unwrap();
    fails(set(b"user.c", b"", XattrMode::Set), Errno::ENOSPC);
    fails(ns.list_xattrs(Fid::new(9, 9)), Errno::ENOENT);
}

#[test]
fn orphans_live_until_the_last_close() {
    let ns = ns();
    let f = file(&ns, "/f");
    ns.open_ref(f).unwrap();
    ns.open_ref(f).unwrap();
    let r = ns.unlink_path(&at(3), "/f").unwrap();
    assert_eq!((r.nlink, r.destroy), (0, None));
    let i = ns.getattr(f).unwrap();
    assert!(i.orphan && i.nlink == 0);
    ns.set_layout(&at(4), f, b"late").unwrap();
    assert_eq!(ns.orphans().unwrap(), []);
    fails(ns.reclaim(f), Errno::EBUSY);
    fails(ns.destroyed(f), Errno::EBUSY);
    assert!(ns.check().unwrap().is_clean());
    assert_eq!(ns.close_ref(f).unwrap(), None);
    let doomed = ns.close_ref(f).unwrap().unwrap();
    assert_eq!(doomed.layout, b"late");
    fails(ns.close_ref(f), Errno::EBADF);
    fails(ns.open_ref(f), Errno::ENOENT);
    ns.destroyed(f).unwrap();
    let g = file(&ns, "/g");
    ns.open_ref(g).unwrap();
    assert_eq!(ns.close_ref(g).unwrap(), None);
    fails(ns.reclaim(g), Errno::EINVAL);
}

#[test]
fn orphans_of_a_crash_are_reclaimed() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Namespace::open(folder.path(), &NODE, 1).unwrap();
    let (f, g, d) = {
        let ns = open();
        let all = (file(&ns, "/f"), file(&ns, "/g"), dir(&ns, "/d"));
        for fid in [all.0, all.1, all.2] {
            ns.open_ref(fid).unwrap();
        }
        ns.unlink_path(&at(3), "/f").unwrap();
        ns.unlink_path(&at(3), "/g").unwrap();
        ns.rmdir_path(&at(3), "/d").unwrap();
        all
    };
    let ns = open();
    assert_eq!(ns.orphans().unwrap(), [f, g, d]);
    ns.open_ref(g).unwrap();
    assert_eq!(ns.orphans().unwrap(), [f, d]);
    assert_eq!(ns.reclaim(f).unwrap().unwrap().fid, f);
    assert_eq!(ns.reclaim(d).unwrap(), None);
    assert_eq!(ns.close_ref(g).unwrap().unwrap().fid, g);
    assert_eq!(ns.orphans().unwrap(), []);
    drop(ns);
    let ns = open();
    let doomed: Vec<_> = ns.to_destroy().unwrap().into_iter().map(|d| d.fid).collect();
    assert_eq!(doomed, [f, g]);
    assert!(ns.check().unwrap().is_clean());
    assert!(file(&ns, "/new") > d, "no FID is used twice");
}

#[test]
fn a_resent_operation_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    let client = ClientId(4);
    let op = |xid| at(5).with_id(client, xid);
    let mut ns = Namespace::open(folder.path(), &NODE, 1).unwrap();
    let made = ns.create(&op(1), ROOT, b"f", &NODE, IfExists::Fail).unwrap();
    let removed = ns.unlink(&op(2), ROOT, b"f").unwrap();
    ns.create(&at(6), ROOT, b"f", &NODE, IfExists::Fail).unwrap();
    for _ in 0..2 {
        assert_eq!(ns.create(&op(1), ROOT, b"f", &NODE, IfExists::Fail).unwrap(), made);
        assert_eq!(ns.unlink(&op(2), ROOT, b"f").unwrap(), removed);
        drop(ns);
        ns = Namespace::open(folder.path(), &NODE, 1).unwrap();
    }
    assert!(ns.lookup(ROOT, b"f").is_ok());
    fails(ns.unlink(&op(1), ROOT, b"f"), Errno::EPROTO);
    fails(ns.create(&op(3), ROOT, b"f", &NODE, IfExists::Fail), Errno::EEXIST);
    ns.forget_client(client).unwrap();
    assert!(ns.unlink(&op(2), ROOT, b"f").is_ok());
}

#[test]
fn a_resent_operation_needs_its_path_no_more() {
    let ns = ns();
    let op = |xid| at(5).with_id(ClientId(4), xid);
    let run = || {
        let made = ns.create_path(&op(1), "/f", &NODE, IfExists::Fail).unwrap().0;
        let d = ns.mkdir_path(&op(2), "/d", &NODE).unwrap();
        let l = ns.symlink_path(&op(3), b"f", "/l", &NODE).unwrap();
        let linked = ns.link_path(&op(4), "/f", false, "/g").unwrap();
        let moved = ns.rename_path(&op(5), "/g", "/l", RenameMode::Replace).unwrap();
        let gone = [ns.unlink_path(&op(6), "/f").unwrap(), ns.unlink_path(&op(7), "/l").unwrap()];
        (made, d, l, linked, moved, gone, ns.rmdir_path(&op(8), "/d").unwrap())
    };
    let first = run();
    assert_eq!(ns.getattr(ROOT).unwrap().entries, 0);
    assert_eq!(run(), first);
    assert_eq!(ns.getattr(ROOT).unwrap().entries, 0);
}

#[test]
fn replies_are_bounded() {
    let ns = ns();
    let op = |xid| at(5).with_id(ClientId(1), xid);
    let n = REPLIES_PER_CLIENT as u64;
    for xid in 1..=n + 10 {
        ns.mkdir(&op(xid), ROOT, xid.to_string().as_bytes(), &NODE).unwrap();
    }
    fails(ns.mkdir(&op(10), ROOT, b"10", &NODE), Errno::ESTALE);
    assert!(ns.mkdir(&op(11), ROOT, b"11", &NODE).is_ok());
    assert!(ns.mkdir(&op(1).with_id(ClientId(2), 1), ROOT, b"other", &NODE).is_ok());
    let mut kept = 0;
    ns.kv
        .view()
        .scan(crate::kv::Space::Replies, &[], None, &mut |_, _| {
            kept += 1;
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(kept, n + 1);
}

#[test]
fn many_threads_at_once() {
    let folder = tempfile::tempdir().unwrap();
    churn(&ns());
    churn(&Namespace::open(folder.path(), &NODE, 1).unwrap());
}

/// Four threads create files and rename them over one name, while they read.
fn churn(ns: &Namespace) {
    let threads = 4u64;
    std::thread::scope(|s| {
        for t in 0..threads {
            s.spawn(move || {
                for n in 0..200 {
                    let name = format!("{t}-{n}");
                    let f = ns.create(&at(n), ROOT, name.as_bytes(), &NODE, IfExists::Fail).unwrap().0.fid;
                    ns.open_ref(f).unwrap();
                    let shared = (ROOT, &b"shared"[..]);
                    ns.rename(&at(n), (ROOT, name.as_bytes()), shared, RenameMode::Replace).unwrap();
                    ns.readdir(ROOT, None, 100).unwrap();
                    let _ = ns.lookup(ROOT, b"shared").unwrap();
                    ns.close_ref(f).unwrap();
                }
            });
        }
    });
    assert_eq!(ns.readdir(ROOT, None, 9).unwrap().len(), 1);
    assert_eq!(ns.to_destroy().unwrap().len() as u64, threads * 200 - 1);
    assert!(ns.check().unwrap().is_clean());
}
