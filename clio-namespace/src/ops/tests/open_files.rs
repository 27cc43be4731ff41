//! What outlives its name, operations sent again, and many threads at once.

use super::*;

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
fn a_new_file_is_unmade_while_it_is_nobody_elses() {
    let ns = ns();
    let unmade = |path: &str, known: &Inode| ns.unmake_path(&at(5), path, known).unwrap();
    let f = ns.getattr(file(&ns, "/f")).unwrap();
    link(&ns, "/f", "/l");
    ns.open_ref(f.fid).unwrap();
    assert_eq!(unmade("/f", &f), None, "it is open");
    ns.close_ref(f.fid).unwrap();
    ns.set_layout(&at(3), f.fid, b"stripes").unwrap();
    assert_eq!(unmade("/f", &f), None, "it was changed");
    let f = ns.getattr(f.fid).unwrap();
    ns.link_path(&at(4), "/f", false, "/g").unwrap();
    let linked = ns.getattr(f.fid).unwrap();
    assert_eq!(unmade("/f", &linked), None, "it has another name");
    ns.unlink_path(&at(4), "/g").unwrap();
    let f = ns.getattr(f.fid).unwrap();
    ns.rename_path(&at(4), "/f", "/h", RenameMode::Replace).unwrap();
    let other = file(&ns, "/f");
    assert_eq!(unmade("/f", &f), None, "the name is another's");
    assert_eq!((unmade("/nothing", &f), unmade("/", &f)), (None, None));
    assert_eq!(ns.resolve("/f", true).unwrap().fid, other);
    let other = ns.getattr(other).unwrap();
    assert_eq!(unmade("/l", &other).map(|r| (r.fid, r.nlink)), Some((other.fid, 0)), "where the link leads");
    fails(ns.resolve("/f", true), Errno::ENOENT);
    assert!(ns.resolve("/l", false).is_ok(), "the link stays");
    assert!(ns.check().unwrap().is_clean());
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
