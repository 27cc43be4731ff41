//! A store is damaged in every way that the check knows; it is found, repaired, and nothing is lost.

use crate::check::Finding;
use crate::fids;
use crate::kv::{Batch, Space};
use crate::record::{Entry, StoreHeader, Unlinked, entry_key};
use crate::*;
use clio_core::Errno;
use clio_core::units::Fid;

const NODE: NewNode<'static> = NewNode { mode: 0o644, uid: 1, gid: 2, layout: None };

/// /f; /d with /d/g and /d/s/t.
fn tree() -> Namespace {
    let ns = Namespace::in_memory(&NewNode::new(0o755, 0, 0), 1).unwrap();
    let at = OpCtx::at(2);
    ns.create_path(&at, "/f", &NODE, IfExists::Fail).unwrap();
    for d in ["/d", "/d/s", "/d/s/t"] {
        ns.mkdir_path(&at, d, &NODE).unwrap();
    }
    ns.create_path(&at, "/d/g", &NODE, IfExists::Fail).unwrap();
    assert!(ns.check().unwrap().is_clean());
    ns
}

fn fid(ns: &Namespace, path: &str) -> Fid {
    ns.resolve(path, false).unwrap().fid
}

fn put(ns: &Namespace, space: Space, key: &[u8], value: &[u8]) {
    let mut batch = Batch::default();
    batch.put(space, key, value.to_vec());
    ns.kv.commit(batch).unwrap();
}

fn remove(ns: &Namespace, space: Space, key: &[u8]) {
    let mut batch = Batch::default();
    batch.remove(space, key);
    ns.kv.commit(batch).unwrap();
}

fn edit(ns: &Namespace, fid: Fid, change: impl FnOnce(&mut Inode)) {
    let mut inode = ns.getattr(fid).unwrap();
    change(&mut inode);
    put(ns, Space::Inodes, &fid.to_bytes(), &inode.encode());
}

/// Repairs; the first check must have found `expected` among others.
#[track_caller]
fn repaired(ns: &Namespace, expected: Finding) {
    let before = ns.check().unwrap();
    assert!(before.findings.contains(&expected), "{expected:?} not in {before:?}");
    for f in &before.findings {
        assert!(!f.to_string().is_empty());
    }
    ns.repair(7).unwrap();
    assert_eq!(ns.check().unwrap().findings, []);
}

#[test]
fn unreadable_inode_of_a_directory() {
    let ns = tree();
    let (d, g) = (fid(&ns, "/d"), fid(&ns, "/d/g"));
    put(&ns, Space::Inodes, &d.to_bytes(), b"\x01garbage");
    assert_eq!(ns.resolve("/d", true).unwrap_err().errno(), Errno::EBADMSG);
    repaired(&ns, Finding::Unreadable { space: "inodes", key: d.to_bytes().to_vec(), newer: false });
    assert_eq!((fid(&ns, "/d"), fid(&ns, "/d/g")), (d, g));
    assert!(ns.resolve("/d/s/t", true).is_ok());
    assert_eq!((ns.getattr(d).unwrap().mode, ns.getattr(d).unwrap().uid), (0o700, 0));
    let aside = [b"damaged/inodes/", &d.to_bytes()[..]].concat();
    assert!(ns.kv.view().get(Space::Meta, &aside).unwrap().is_some());
}

#[test]
fn unreadable_inode_of_a_file() {
    let ns = tree();
    let g = fid(&ns, "/d/g");
    put(&ns, Space::Inodes, &g.to_bytes(), b"");
    repaired(&ns, Finding::Dangling(fid(&ns, "/d"), b"g".to_vec()));
    assert_eq!(ns.resolve("/d/g", true).unwrap_err().errno(), Errno::ENOENT);
}

#[test]
fn unreadable_entry() {
    let ns = tree();
    let f = fid(&ns, "/f");
    let key = entry_key(Namespace::ROOT, b"f");
    put(&ns, Space::Entries, &key, b"");
    repaired(&ns, Finding::Unreadable { space: "entries", key, newer: false });
    assert_eq!(fid(&ns, &format!("/lost+found/{f}")), f);
}

#[test]
fn records_of_a_newer_release_are_left_alone() {
    let ns = tree();
    let f = fid(&ns, "/f");
    put(&ns, Space::Inodes, &f.to_bytes(), &[99]);
    assert_eq!(ns.repair(7).unwrap_err().errno(), Errno::EOPNOTSUPP);
    assert_eq!(ns.kv.view().get(Space::Inodes, &f.to_bytes()).unwrap().as_deref(), Some(&[99][..]));
}

#[test]
fn dangling_and_misplaced_entries() {
    let ns = tree();
    let f = fid(&ns, "/f");
    let entry = Entry { fid: Fid::new(1, 999), kind: Kind::File }.encode();
    put(&ns, Space::Entries, &entry_key(Namespace::ROOT, b"x"), &entry);
    assert_eq!(ns.resolve("/x", true).unwrap_err().errno(), Errno::EIO);
    repaired(&ns, Finding::Dangling(Namespace::ROOT, b"x".to_vec()));
    let entry = Entry { fid: f, kind: Kind::File }.encode();
    put(&ns, Space::Entries, &entry_key(f, b"x"), &entry);
    repaired(&ns, Finding::EntryInNoDirectory(f, b"x".to_vec()));
    let d = fid(&ns, "/d");
    put(&ns, Space::Entries, &entry_key(Namespace::ROOT, b"z"), &Entry { fid: d, kind: Kind::Dir }.encode());
    repaired(&ns, Finding::SecondName(Namespace::ROOT, b"z".to_vec()));
    put(&ns, Space::Entries, &entry_key(Namespace::ROOT, b"f"), &Entry { fid: f, kind: Kind::Dir }.encode());
    repaired(&ns, Finding::WrongKind(Namespace::ROOT, b"f".to_vec()));
    assert_eq!(fid(&ns, "/f"), f);
}

#[test]
fn wrong_counts() {
    let ns = tree();
    let (f, d) = (fid(&ns, "/f"), fid(&ns, "/d"));
    let wrong = |fid, what, stored, counted| Finding::WrongInode { fid, what, stored, counted };
    edit(&ns, f, |i| i.nlink = 5);
    repaired(&ns, wrong(f, "link count", 5, 1));
    edit(&ns, d, |i| i.nlink = 0);
    repaired(&ns, wrong(d, "link count", 0, 3));
    edit(&ns, d, |i| i.entries = 0);
    repaired(&ns, wrong(d, "count of entries", 0, 2));
    edit(&ns, d, |i| i.parent = Fid::new(5, 5));
    repaired(&ns, Finding::WrongParent { fid: d, parent: Namespace::ROOT });
    edit(&ns, f, |i| i.orphan = true);
    repaired(&ns, wrong(f, "orphan mark", 1, 0));
    assert_eq!(ns.unlink_path(&OpCtx::at(3), "/f").unwrap().destroy.unwrap().fid, f);
}

#[test]
fn names_lost() {
    let ns = tree();
    let (d, s) = (fid(&ns, "/d"), fid(&ns, "/d/s"));
    remove(&ns, Space::Entries, &entry_key(d, b"s"));
    ns.create_path(&OpCtx::at(2), "/lost+found", &NODE, IfExists::Fail).unwrap();
    repaired(&ns, Finding::Unreachable(s));
    assert_eq!(ns.resolve(&format!("/lost+found+/{s}/t/.."), true).unwrap().fid, s);
}

#[test]
fn a_ring_of_directories() {
    let ns = tree();
    let (d, s, t) = (fid(&ns, "/d"), fid(&ns, "/d/s"), fid(&ns, "/d/s/t"));
    remove(&ns, Space::Entries, &entry_key(Namespace::ROOT, b"d"));
    put(&ns, Space::Entries, &entry_key(t, b"d"), &Entry { fid: d, kind: Kind::Dir }.encode());
    repaired(&ns, Finding::Ring(d.min(s).min(t)));
    assert!(ns.resolve(&format!("/lost+found/{d}/s/t"), true).is_ok());
}

#[test]
fn the_root_itself() {
    let ns = tree();
    let f = fid(&ns, "/f");
    remove(&ns, Space::Inodes, &Namespace::ROOT.to_bytes());
    repaired(&ns, Finding::MissingRoot);
    assert_eq!(fid(&ns, "/f"), f);
}

#[test]
fn unlinked_records() {
    let ns = tree();
    let f = fid(&ns, "/f");
    for record in [Unlinked::Orphan, Unlinked::Doomed { layout: vec![] }] {
        put(&ns, Space::Unlinked, &f.to_bytes(), &record.encode());
        repaired(&ns, Finding::WrongUnlinked(f));
        assert_eq!(ns.to_destroy().unwrap(), [], "a living file's objects are not to be destroyed");
    }
    ns.open_ref(f).unwrap();
    ns.unlink_path(&OpCtx::at(3), "/f").unwrap();
    remove(&ns, Space::Unlinked, &f.to_bytes());
    repaired(&ns, Finding::WrongUnlinked(f));
    assert_eq!(ns.close_ref(f).unwrap().unwrap().fid, f);
    put(&ns, Space::Unlinked, b"short", b"x");
    repaired(&ns, Finding::Unreadable { space: "unlinked", key: b"short".to_vec(), newer: false });
    put(&ns, Space::Replies, b"short", b"x");
    repaired(&ns, Finding::Unreadable { space: "replies", key: b"short".to_vec(), newer: false });
}

#[test]
fn fids_that_were_never_handed_out() {
    let ns = tree();
    let far = Fid::new(1, 1 << 20);
    let inode = Inode { fid: far, ..ns.getattr(fid(&ns, "/f")).unwrap() };
    put(&ns, Space::Inodes, &far.to_bytes(), &inode.encode());
    put(&ns, Space::Entries, &entry_key(Namespace::ROOT, b"far"), &Entry { fid: far, kind: Kind::File }.encode());
    repaired(&ns, Finding::FidAhead(far));
    let (next, _) = ns.create_path(&OpCtx::at(3), "/next", &NODE, IfExists::Fail).unwrap();
    assert!(next.fid > far);
}

#[test]
fn stores_that_cannot_be_opened_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Namespace::open(dir.path(), &NODE, 1);
    let ns = open().unwrap();
    put(&ns, Space::Meta, b"header", &StoreHeader { format: 2 }.encode());
    drop(ns);
    let e = open().unwrap_err();
    assert_eq!(e.errno(), Errno::EOPNOTSUPP);
    assert!(e.to_string().contains("newer") && e.to_string().contains(dir.path().to_str().unwrap()), "{e}");

    let raw = |change: &dyn Fn(&mut Batch)| {
        let kv = kv::DiskKv::open(dir.path()).unwrap();
        let mut batch = Batch::default();
        change(&mut batch);
        kv::Kv::commit(&kv, batch).unwrap();
    };
    raw(&|b| b.remove(Space::Meta, &b"header"[..]));
    assert_eq!(open().unwrap_err().errno(), Errno::EBADMSG);
    raw(&|b| {
        b.put(Space::Meta, &b"header"[..], StoreHeader { format: FORMAT_VERSION }.encode());
        b.put(Space::Meta, fids::KEY, vec![1]);
    });
    assert_eq!(open().unwrap_err().errno(), Errno::EBADMSG);
}
