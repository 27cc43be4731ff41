//! One test for each operation: what it does, and each errno.

mod entries;
mod open_files;
mod paths;

use crate::*;
use clio_core::units::{ClientId, Fid};
use clio_core::{Errno, Result};

const ROOT: Fid = Namespace::ROOT;
const NODE: NewNode<'static> = NewNode { mode: 0o644, uid: 1, gid: 2, layout: None };

fn ns() -> Namespace {
    Namespace::in_memory(&NewNode::new(0o755, 0, 0), 1).unwrap()
}

fn at(now: u64) -> OpCtx<'static> {
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
