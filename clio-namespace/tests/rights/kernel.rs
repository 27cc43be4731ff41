//! Random operations of several users, beside the kernel's file system: the same errno, and the same modes and owners. As
//! another user than root, for that one alone.

use clio_core::{Errno, Error};
use clio_namespace::{
    Access, Caller, IfExists, Kind, Names, Namespace, NewNode, OpCtx, RenameMode, SetAttr, UserNames,
};
use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const USERS: [(u32, u32, &[u32]); 4] =
    [(60_001, 60_001, &[60_010]), (60_002, 60_002, &[60_010, 60_011]), (60_003, 60_003, &[]), (0, 0, &[])];

#[derive(Clone, Debug)]
enum Op {
    Create(String, u32),
    Mkdir(String, u32),
    Unlink(String),
    Rmdir(String),
    Rename(String, String),
    Link(String, String),
    Chmod(String, u32),
    Chown(String, Option<u32>, Option<u32>),
    Open(String, bool, bool),
    List(String),
    Stat(String),
    SetTimes(String),
    Touch(String),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]", 1..4).prop_map(|c| format!("/{}", c.join("/")))
}

/// Mostly generous ones, so that something happens.
fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0o777u32), 2 => 0..0o1000u32, 1 => 0..0o10000u32, 1 => Just(0o1777), 1 => Just(0o2777)]
}

fn op() -> impl Strategy<Value = Op> {
    let uid = prop::sample::select(vec![None, Some(0), Some(60_001), Some(60_002)]);
    let gid = prop::sample::select(vec![None, Some(60_001), Some(60_002), Some(60_010), Some(60_011)]);
    prop_oneof![
        4 => (path(), mode()).prop_map(|(p, m)| Op::Create(p, m)),
        6 => (path(), mode()).prop_map(|(p, m)| Op::Mkdir(p, m)),
        2 => path().prop_map(Op::Unlink),
        2 => path().prop_map(Op::Rmdir),
        4 => (path(), path()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (path(), path()).prop_map(|(a, b)| Op::Link(a, b)),
        4 => (path(), mode()).prop_map(|(p, m)| Op::Chmod(p, m)),
        3 => (path(), uid, gid).prop_map(|(p, u, g)| Op::Chown(p, u, g)),
        3 => (path(), any::<bool>(), any::<bool>()).prop_map(|(p, r, w)| Op::Open(p, r || !w, w)),
        2 => path().prop_map(Op::List),
        2 => path().prop_map(Op::Stat),
        1 => path().prop_map(Op::SetTimes),
        1 => path().prop_map(Op::Touch),
    ]
}

/// Has this thread alone act as a user, from root and back.
fn become_user((uid, gid, groups): (u32, u32, &[u32])) {
    let groups: Vec<Gid> = groups.iter().map(|g| Gid::from_raw(*g)).collect();
    set_thread_res_uid(None, Uid::ROOT, None).expect("back to root");
    set_thread_groups(&groups).expect("groups");
    set_thread_res_gid(None, Gid::from_raw(gid), None).expect("group");
    set_thread_res_uid(None, Uid::from_raw(uid), None).expect("user");
}

fn by_kernel(root: &Path, op: &Op) -> io::Result<()> {
    let at = |p: &str| root.join(&p[1..]);
    let time = |p: &str, nsec| {
        let t = Timespec { tv_sec: 1, tv_nsec: nsec };
        utimensat(CWD, at(p), &Timestamps { last_access: t, last_modification: t }, AtFlags::empty())
    };
    match op {
        Op::Create(p, m) => fs::OpenOptions::new().write(true).create_new(true).mode(*m).open(at(p)).map(drop),
        Op::Mkdir(p, m) => fs::DirBuilder::new().mode(*m).create(at(p)),
        Op::Unlink(p) => fs::remove_file(at(p)),
        Op::Rmdir(p) => fs::remove_dir(at(p)),
        Op::Rename(a, b) => fs::rename(at(a), at(b)),
        Op::Link(a, b) => fs::hard_link(at(a), at(b)),
        Op::Chmod(p, m) => fs::set_permissions(at(p), fs::Permissions::from_mode(*m)),
        Op::Chown(p, u, g) => chown(at(p), *u, *g),
        Op::Open(p, r, w) => {
            let mut file = fs::OpenOptions::new().read(*r).write(*w).open(at(p))?;
            if *w { file.write_all(b"x") } else { Ok(()) }
        }
        Op::List(p) => fs::read_dir(at(p)).map(drop),
        Op::Stat(p) => fs::metadata(at(p)).map(drop),
        Op::SetTimes(p) => Ok(time(p, 0)?),
        Op::Touch(p) => Ok(time(p, UTIME_NOW)?),
    }
}

fn by_names(names: &UserNames, (uid, gid): (u32, u32), op: &Op) -> Result<(), Error> {
    let ctx = OpCtx::at(9);
    let fid = |p: &String| names.resolve(p.into(), true).map(|i| i.fid);
    let set = |p, set: SetAttr| names.setattr(&ctx, fid(p)?, &set).map(drop);
    match op {
        Op::Create(p, m) => names.create(&ctx, p.into(), &NewNode::new(*m, uid, gid), IfExists::Fail).map(drop),
        Op::Mkdir(p, m) => names.mkdir(&ctx, p.into(), &NewNode::new(*m, uid, gid)).map(drop),
        Op::Unlink(p) => names.unlink(&ctx, p.into()).map(drop),
        Op::Rmdir(p) => names.rmdir(&ctx, p.into()).map(drop),
        Op::Rename(a, b) => names.rename(&ctx, a.into(), b.into(), RenameMode::Replace).map(drop),
        Op::Link(a, b) => names.link(&ctx, a.into(), false, b.into()).map(drop),
        Op::Chmod(p, m) => set(p, SetAttr { mode: Some(*m), ..SetAttr::default() }),
        Op::Chown(p, u, g) => set(p, SetAttr { uid: *u, gid: *g, ..SetAttr::default() }),
        Op::Open(p, r, w) => {
            let fid = fid(p)?;
            let read = if *r { Access::READ } else { Access::NONE };
            // As the kernel's file, which is closed after it was made.
            let _ = names.open_ref(fid, Access::NONE).and_then(|()| names.close_ref(fid));
            names.open_ref(fid, if *w { read | Access::WRITE } else { read })?;
            names.close_ref(fid).map(drop)
        }
        Op::List(p) => names.readdir(fid(p)?, None, 1).map(drop),
        Op::Stat(p) => fid(p).map(drop),
        Op::SetTimes(p) => set(p, SetAttr { atime: Some(1), mtime: Some(1), ..SetAttr::default() }),
        Op::Touch(p) => names.touch(&ctx, fid(p)?),
    }
}

/// What isn't compared: directories can't be opened as files, nothing to change is nothing to refuse, and links to others'
/// files are a matter of the kernel's settings (protected_hardlinks).
fn is_apart(ns: &Namespace, uid: u32, op: &Op) -> bool {
    let found = |p: &String| ns.resolve(p, true).ok();
    match op {
        Op::Open(p, ..) => found(p).is_some_and(|i| i.kind == Kind::Dir),
        Op::Chown(_, u, g) => u.is_none() && g.is_none(),
        Op::Link(p, _) => found(p).is_some_and(|i| i.uid != uid || i.kind == Kind::Dir),
        _ => false,
    }
}

fn touched(op: &Op) -> &str {
    match op {
        Op::Create(p, _) | Op::Mkdir(p, _) | Op::Chmod(p, _) | Op::Chown(p, ..) | Op::Open(p, ..) => p,
        Op::Unlink(p) | Op::Rmdir(p) | Op::List(p) | Op::Stat(p) | Op::SetTimes(p) | Op::Touch(p) => p,
        Op::Rename(_, p) | Op::Link(_, p) => p,
    }
}

fn run(ops: &[(usize, Op)], is_root: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a folder for all");
    let root: PathBuf = folder.path().join("root");
    fs::create_dir(&root).expect("the root");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).expect("the root for all");
    let of = fs::metadata(&root).expect("the root");
    let ns = Arc::new(Namespace::in_memory(&NewNode::new(0o777, of.uid(), of.gid()), 0).expect("a namespace"));
    let own_groups: Vec<u32> = rustix::process::getgroups().expect("groups").iter().map(|g| g.as_raw()).collect();
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw(), &own_groups[..]);
    for (n, (user, op)) in ops.iter().enumerate() {
        let (uid, gid, groups) = if is_root { USERS[user % USERS.len()] } else { own };
        if is_apart(&ns, uid, op) {
            continue;
        }
        let names = UserNames::new(ns.clone(), Caller::new(uid, gid, groups.to_vec()));
        if is_root {
            become_user((uid, gid, groups));
        }
        let kernel = by_kernel(&root, op).map_err(|e| Errno::from_raw(e.raw_os_error().expect("the system's")));
        if is_root {
            become_user((0, 0, &[]));
        }
        let ours = by_names(&names, (uid, gid), op).map_err(|e| e.errno());
        assert_eq!(ours, kernel, "operation {n} by user {uid}: {op:?} after {:?}", &ops[..n]);
        if let Ok(meta) = fs::symlink_metadata(root.join(&touched(op)[1..])) {
            let inode = ns.resolve(touched(op), false).expect("it is there");
            let kernel = (meta.mode() & 0o7777, meta.uid(), meta.gid());
            assert_eq!((inode.mode, inode.uid, inode.gid), kernel, "after {n}, by user {uid}: {op:?}, {:?}", &ops[..n]);
        }
    }
}

#[test]
fn as_the_kernel() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("NOT RUN AS ROOT: only the rights of one user are compared with the kernel's");
    }
    rustix::process::umask(rustix::fs::Mode::empty());
    let cases = if std::env::var_os("TEST_FULL").is_some() { 2000 } else { 150 };
    // The one thread whose user changes.
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    proptest!(config, |(ops in prop::collection::vec((any::<usize>(), op()), 1..80))| run(&ops, is_root));
}
