//! Names, and attributes of what they name.

use super::*;

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
    let d = ns.mkdir(&at(2), ROOT, b"d", &NewNode::new(0o755, 1, 77)).unwrap().fid;
    ns.setattr(&at(2), d, &SetAttr { mode: Some(0o2755), ..SetAttr::default() }).unwrap();
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
fn a_layout_is_replaced_only_if_nobody_was_faster() {
    let ns = ns();
    let f = file(&ns, "/f");
    assert_eq!(ns.replace_layout(&at(3), f, b"", b"first").unwrap(), b"first");
    assert_eq!(ns.replace_layout(&at(4), f, b"", b"second").unwrap(), b"first");
    assert_eq!(ns.getattr(f).unwrap().ctime, 3, "nothing was changed");
    assert_eq!(ns.replace_layout(&at(5), f, b"first", b"second").unwrap(), b"second");
    assert_eq!(ns.get_layout(f).unwrap(), b"second");
    let id = OpCtx::at(6).with_id(ClientId(1), 1);
    assert_eq!(ns.replace_layout(&id, f, b"second", b"third").unwrap(), b"third");
    assert_eq!(ns.replace_layout(&id, f, b"second", b"third").unwrap(), b"third", "a resent one is answered as before");
    fails(ns.replace_layout(&at(7), f, b"third", &vec![0; MAX_LAYOUT_BYTES + 1]), Errno::E2BIG);
    assert_eq!(ns.get_layout(f).unwrap(), b"third");
}

#[test]
fn a_read_is_dated_after_a_change_and_is_none_itself() {
    let ns = ns();
    let f = file(&ns, "/f");
    let before = ns.getattr(f).unwrap();
    ns.note_read(&at(before.ctime + 10), f, before.mtime).unwrap();
    let after = ns.getattr(f).unwrap();
    assert_eq!((after.atime, after.ctime, after.mtime), (before.ctime + 10, before.ctime, before.mtime));
    ns.note_read(&at(before.ctime + 20), f, before.mtime).unwrap();
    assert_eq!(ns.getattr(f).unwrap().atime, before.ctime + 10, "not changed since");
    ns.note_read(&at(before.ctime + 20), f, before.ctime + 15).unwrap();
    assert_eq!(ns.getattr(f).unwrap().atime, before.ctime + 20);
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
