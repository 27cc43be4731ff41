//! Paths and symbolic links.

use super::*;

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
