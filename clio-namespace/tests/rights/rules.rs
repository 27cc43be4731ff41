//! Each rule, with the errno that Linux has for it.

use clio_core::units::Fid;
use clio_core::{Errno, Result};
use clio_namespace::{
    Access, Caller, IfExists, Inode, Names, Namespace, NewNode, OpCtx, RenameMode, SetAttr, UserNames, XattrMode,
};
use std::sync::Arc;

/// The owner of most, a member of its group, and somebody else.
const OWNER: u32 = 100;
const GROUP: u32 = 10;

struct World {
    namespace: Arc<Namespace>,
}

impl World {
    fn new() -> Self {
        Self { namespace: Arc::new(Namespace::in_memory(&NewNode::new(0o777, 0, 0), 0).unwrap()) }
    }

    fn dir(&self, path: &str, mode: u32, uid: u32, gid: u32) -> Fid {
        let fid = self.namespace.mkdir_path(&OpCtx::at(1), path, &NewNode::new(0o755, uid, gid)).unwrap().fid;
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        self.namespace.setattr(&OpCtx::at(1), fid, &set).unwrap();
        fid
    }

    fn file(&self, path: &str, mode: u32, uid: u32, gid: u32) -> Fid {
        let new = NewNode::new(mode, uid, gid);
        self.namespace.create_path(&OpCtx::at(1), path, &new, IfExists::Fail).unwrap().0.fid
    }

    fn user(&self, uid: u32, gid: u32, groups: &[u32]) -> UserNames {
        UserNames::new(self.namespace.clone(), Caller::new(uid, gid, groups.to_vec()))
    }

    fn inode(&self, path: &str) -> Inode {
        self.namespace.resolve(path, false).unwrap()
    }
}

fn ctx() -> OpCtx<'static> {
    OpCtx::at(5)
}

#[track_caller]
fn is<T: std::fmt::Debug>(got: Result<T>, want: Option<Errno>) {
    assert_eq!(got.as_ref().err().map(clio_core::Error::errno), want, "{got:?}");
}

const NO: Option<Errno> = Some(Errno::EACCES);
const NOT_YOURS: Option<Errno> = Some(Errno::EPERM);
const YES: Option<Errno> = None;

#[test]
fn the_first_class_that_one_is_in_counts() {
    let w = World::new();
    let callers = [
        w.user(OWNER, 1, &[]),
        w.user(1, GROUP, &[]),
        w.user(1, 1, &[3, GROUP, 77]),
        w.user(1, 1, &[3]),
        w.user(0, 0, &[]),
    ];
    // Who may read, of owner, group, group by supplement, others, root.
    for (i, (mode, may)) in [
        (0o400, [YES, NO, NO, NO, YES]),
        (0o040, [NO, YES, YES, NO, YES]),
        (0o004, [NO, NO, NO, YES, YES]),
        (0o333, [NO, NO, NO, NO, YES]),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/f{i}");
        let fid = w.file(&path, mode, OWNER, GROUP);
        for (caller, want) in callers.iter().zip(may) {
            is(caller.open_ref(fid, Access::READ), want);
            is(caller.access(path.as_str().into(), Access::READ), want);
        }
    }
    is(callers[4].access("/f0".into(), Access::EXECUTE), NO);
    is(callers[4].access("/f3".into(), Access::EXECUTE), YES);
    is(callers[3].access("/f0".into(), Access::NONE), YES);
}

#[test]
fn paths_need_search_and_lists_need_read() {
    let w = World::new();
    let (closed, listed) = (w.dir("/closed", 0o766, OWNER, GROUP), w.dir("/open", 0o711, OWNER, GROUP));
    w.file("/closed/f", 0o666, OWNER, GROUP);
    w.file("/open/f", 0o666, OWNER, GROUP);
    let root = w.user(0, 0, &[]);
    root.symlink(&ctx(), b"/closed/f", "/link".into(), &NewNode::new(0o777, 0, 0)).unwrap();
    let other = w.user(1, 1, &[]);
    for path in ["/closed/f", "/closed/none", "/closed/./f", "/closed/..", "/link"] {
        is(other.resolve(path.into(), true), NO);
    }
    for path in ["/closed", "/closed/", "/open/f", "/open/../open/f"] {
        is(other.resolve(path.into(), true), YES);
    }
    is(other.resolve("/link".into(), false), YES);
    is(other.resolve("/open/none".into(), true), Some(Errno::ENOENT));
    is(other.readdir(closed, None, 9), YES);
    is(other.readdir(listed, None, 9), NO);
    is(w.user(OWNER, 1, &[]).readdir(listed, None, 9), YES);
}

#[test]
fn entries_change_with_write_and_search() {
    let w = World::new();
    let new = NewNode::new(0o666, 1, 1);
    for (mode, may) in [(0o775, NO), (0o776, NO), (0o772, NO), (0o773, YES)] {
        let at = format!("/{mode:o}");
        w.dir(&at, mode, OWNER, GROUP);
        w.file(&format!("{at}/f"), 0o666, OWNER, GROUP);
        w.dir(&format!("{at}/d"), 0o755, OWNER, GROUP);
        let user = w.user(1, 1, &[]);
        let p = |name: &str| format!("{at}/{name}");
        let free = format!("/of-{mode:o}");
        w.file(&free, 0o666, 1, 1);
        is(user.create(&ctx(), (&p("new")).into(), &new, IfExists::Open), may);
        is(user.mkdir(&ctx(), (&p("newdir")).into(), &new), may);
        is(user.symlink(&ctx(), b"x", (&p("link")).into(), &new), may);
        is(user.link(&ctx(), (&free).into(), false, (&p("hard")).into()), may);
        is(user.rename(&ctx(), (&free).into(), (&p("moved")).into(), RenameMode::Replace), may);
        is(user.unlink(&ctx(), (&p("f")).into()), may);
        is(user.rmdir(&ctx(), (&p("d")).into()), may);
    }
    // What is there is told before what may not be, where one may look.
    w.dir("/r", 0o755, OWNER, GROUP);
    w.dir("/r/d", 0o755, OWNER, GROUP);
    w.file("/r/f", 0o666, OWNER, GROUP);
    let user = w.user(1, 1, &[]);
    is(user.create(&ctx(), "/r/f".into(), &new, IfExists::Fail), Some(Errno::EEXIST));
    is(user.create(&ctx(), "/r/f".into(), &new, IfExists::Open), YES);
    is(user.mkdir(&ctx(), "/r/f".into(), &new), Some(Errno::EEXIST));
    is(user.unlink(&ctx(), "/r/none".into()), Some(Errno::ENOENT));
    is(user.unlink(&ctx(), "/r/d".into()), NO);
    is(user.unlink(&ctx(), "/r/d/".into()), Some(Errno::EISDIR));
    is(user.rmdir(&ctx(), "/r/f".into()), NO);
}

#[test]
fn sticky_directories_keep_others_files() {
    let w = World::new();
    w.dir("/tmp", 0o1777, OWNER, GROUP);
    for name in ["a", "b", "c", "mine"] {
        w.file(&format!("/tmp/{name}"), 0o666, if name == "mine" { 2 } else { 1 }, 1);
    }
    let thief = w.user(2, 2, &[1]);
    is(thief.unlink(&ctx(), "/tmp/a".into()), NOT_YOURS);
    is(thief.rename(&ctx(), "/tmp/a".into(), "/tmp/z".into(), RenameMode::Replace), NOT_YOURS);
    is(thief.rename(&ctx(), "/tmp/mine".into(), "/tmp/a".into(), RenameMode::Replace), NOT_YOURS);
    is(thief.rename(&ctx(), "/tmp/mine".into(), "/tmp/a".into(), RenameMode::Exchange), NOT_YOURS);
    is(thief.unlink(&ctx(), "/tmp/mine".into()), YES);
    is(w.user(1, 1, &[]).unlink(&ctx(), "/tmp/a".into()), YES);
    is(w.user(OWNER, 1, &[]).unlink(&ctx(), "/tmp/b".into()), YES);
    is(w.user(0, 0, &[]).unlink(&ctx(), "/tmp/c".into()), YES);
}

#[test]
fn a_directory_moves_elsewhere_if_it_may_be_written() {
    let w = World::new();
    w.dir("/a", 0o777, OWNER, GROUP);
    w.dir("/b", 0o777, OWNER, GROUP);
    w.dir("/a/d", 0o755, OWNER, GROUP);
    let user = w.user(1, 1, &[]);
    is(user.rename(&ctx(), "/a/d".into(), "/b/d".into(), RenameMode::Replace), NO);
    is(user.rename(&ctx(), "/a/d".into(), "/a/e".into(), RenameMode::Replace), YES);
    is(w.user(OWNER, 1, &[]).rename(&ctx(), "/a/e".into(), "/b/e".into(), RenameMode::Replace), YES);
}

#[test]
fn setgid_directories_hand_their_group_down() {
    let w = World::new();
    w.dir("/g", 0o2777, OWNER, GROUP);
    let new = NewNode::new(0o2775, 1, 1);
    let (member, other) = (w.user(1, 1, &[GROUP]), w.user(1, 1, &[]));
    member.create(&ctx(), "/g/m".into(), &new, IfExists::Fail).unwrap();
    other.create(&ctx(), "/g/o".into(), &new, IfExists::Fail).unwrap();
    other.mkdir(&ctx(), "/g/d".into(), &NewNode::new(0o6755, 1, 1)).unwrap();
    other.mkdir(&ctx(), "/d".into(), &NewNode::new(0o6755, 1, 1)).unwrap();
    let got = ["/g/m", "/g/o", "/g/d", "/d"].map(|p| (w.inode(p).gid, w.inode(p).mode));
    assert_eq!(got, [(GROUP, 0o2775), (GROUP, 0o775), (GROUP, 0o2755), (1, 0o755)]);
}

#[test]
fn attributes_are_the_owners() {
    let w = World::new();
    let f = w.file("/f", 0o6776, OWNER, GROUP);
    let set = |s: SetAttr| s;
    let (mode, times) = (
        |m| set(SetAttr { mode: Some(m), ..SetAttr::default() }),
        set(SetAttr { mtime: Some(1), ..SetAttr::default() }),
    );
    let own = |uid, gid| set(SetAttr { uid, gid, ..SetAttr::default() });
    let (owner, other) = (w.user(OWNER, GROUP, &[11]), w.user(1, 1, &[]));
    is(other.setattr(&ctx(), f, &mode(0o777)), NOT_YOURS);
    is(other.setattr(&ctx(), f, &times), NOT_YOURS);
    is(other.touch(&ctx(), f), YES);
    is(other.setattr(&ctx(), f, &own(Some(1), None)), NOT_YOURS);
    is(other.setattr(&ctx(), f, &own(None, Some(1))), NOT_YOURS);
    is(owner.setattr(&ctx(), f, &own(Some(1), None)), NOT_YOURS);
    is(owner.setattr(&ctx(), f, &own(None, Some(12))), NOT_YOURS);
    assert_eq!(w.inode("/f").mode, 0o6776);
    // A change of group takes the set-ID bits away.
    is(owner.setattr(&ctx(), f, &own(Some(OWNER), Some(11))), YES);
    assert_eq!((w.inode("/f").gid, w.inode("/f").mode), (11, 0o776));
    is(owner.setattr(&ctx(), f, &times), YES);
    is(owner.setattr(&ctx(), f, &mode(0o600)), YES);
    is(other.touch(&ctx(), f), NO);
    // The set-group-ID bit of a group that one isn't in isn't to be had.
    is(w.user(OWNER, 1, &[]).setattr(&ctx(), f, &mode(0o2755)), YES);
    assert_eq!(w.inode("/f").mode, 0o755);
    is(w.user(0, 0, &[]).setattr(&ctx(), f, &own(Some(7), Some(7))), YES);
    assert_eq!((w.inode("/f").uid, w.inode("/f").gid), (7, 7));
}

#[test]
fn a_maker_may_open_what_it_made_and_a_handle_keeps_its_rights() {
    let w = World::new();
    let owner = w.user(OWNER, GROUP, &[]);
    let new = NewNode::new(0o000, OWNER, GROUP);
    let fid = owner.create(&ctx(), "/f".into(), &new, IfExists::Open).unwrap().0.fid;
    is(owner.open_ref(fid, Access::READ | Access::WRITE), YES);
    is(owner.open_ref(fid, Access::READ), NO);
    // Somebody who could open the file for writing may change its layout when it may not open it any more.
    let (writer, reader) = (w.user(1, 1, &[]), w.user(2, 2, &[]));
    let shared = w.file("/shared", 0o666, OWNER, GROUP);
    is(reader.replace_layout(&ctx(), shared, b"", b"one"), YES);
    is(writer.open_ref(shared, Access::WRITE), YES);
    let set = SetAttr { mode: Some(0o644), ..SetAttr::default() };
    owner.setattr(&ctx(), shared, &set).unwrap();
    is(reader.replace_layout(&ctx(), shared, b"one", b""), NO);
    is(writer.replace_layout(&ctx(), shared, b"one", b"two"), YES);
    writer.close_ref(shared).unwrap();
    is(writer.replace_layout(&ctx(), shared, b"two", b"three"), NO);
    let dir = w.dir("/d", 0o777, OWNER, GROUP);
    is(writer.set_layout(&ctx(), dir, b"x"), NOT_YOURS);
    is(writer.replace_layout(&ctx(), dir, b"", b"x"), NOT_YOURS);
    is(owner.set_layout(&ctx(), dir, b"x"), YES);
}

#[test]
fn opening_for_writing_takes_set_id_bits() {
    let w = World::new();
    for (uid, access, want) in [
        (1, Access::READ, 0o6777),
        (0, Access::WRITE, 0o6777),
        (1, Access::WRITE, 0o777),
        (OWNER, Access::WRITE, 0o777),
    ] {
        let path = format!("/{uid}-{}", access.bits());
        let fid = w.file(&path, 0o6777, OWNER, GROUP);
        is(w.user(uid, 1, &[]).open_ref(fid, access), YES);
        assert_eq!(w.inode(&path).mode, want, "{uid} {access:?}");
    }
}

#[test]
fn extended_attributes_go_by_their_class() {
    let w = World::new();
    let (read_only, free) = (w.file("/r", 0o644, OWNER, GROUP), w.file("/w", 0o622, OWNER, GROUP));
    let sticky = w.dir("/t", 0o1777, OWNER, GROUP);
    let (root, user) = (w.user(0, 0, &[]), w.user(1, 1, &[]));
    let link = root.symlink(&ctx(), b"x", "/l".into(), &NewNode::new(0o777, 1, 1)).unwrap().fid;
    let set = |who: &UserNames, fid, name: &str| who.set_xattr(&ctx(), fid, name.as_bytes(), b"v", XattrMode::Set);
    for (fid, name, want) in [
        (read_only, "user.a", NO),
        (free, "user.a", YES),
        (sticky, "user.a", NOT_YOURS),
        (link, "user.a", NOT_YOURS),
        (free, "trusted.a", NOT_YOURS),
        (free, "security.a", NOT_YOURS),
        (free, "odd.a", Some(Errno::EOPNOTSUPP)),
    ] {
        is(set(&user, fid, name), want);
        is(user.remove_xattr(&ctx(), fid, name.as_bytes()), want);
    }
    for name in ["user.a", "trusted.a", "security.a"] {
        is(set(&root, free, name), YES);
    }
    is(set(&root, read_only, "user.a"), YES);
    is(user.get_xattr(read_only, b"user.a"), YES);
    is(user.get_xattr(free, b"user.a"), NO);
    is(user.get_xattr(free, b"trusted.a"), Some(Errno::ENODATA));
    is(user.get_xattr(free, b"security.a"), YES);
    assert_eq!(user.list_xattrs(free).unwrap(), [b"security.a".to_vec(), b"user.a".to_vec()]);
    assert_eq!(root.list_xattrs(free).unwrap().len(), 3);
}
