//! Seeds that are rows of operations.

use super::super::namespace_paths::Op;
use super::super::script::REPEATED;
use super::Seed;

/// A byte, then strings with their lengths in front.
fn step(op: u8, strings: &[&str]) -> Vec<u8> {
    let with_len = |s: &&str| [&[s.len() as u8], s.as_bytes()].concat();
    std::iter::once(vec![op]).chain(strings.iter().map(with_len)).flatten().collect()
}

/// The same, with one string that is repeated when it is read.
fn step_long(op: u8, unit: &str) -> Vec<u8> {
    [&[op, REPEATED, unit.len() as u8], unit.as_bytes()].concat()
}

pub(super) fn namespace_paths() -> Vec<Seed> {
    const TARGET: &str = "namespace_paths";
    let step = |op: Op, strings: &[&str]| step(op as u8, strings);
    let links = [
        step(Op::Symlink, &["/d/e/back", "../../up/e"]),
        step(Op::CreateOrOpen, &["/dangling"]),
        step(Op::CreateNew, &["up/../abs/e/back/new"]),
        step(Op::Link, &["/abs/e/new", "/d/second"]),
        step(Op::LinkFollowing, &["/dangling", "third"]),
        step(Op::Symlink, &["/d/absolute", "/d/second"]),
        step(Op::Resolve, &["/loop/x"]),
        step(Op::Unlink, &["nowhere"]),
    ];
    let renames = [
        step(Op::Mkdir, &["/m/"]),
        step(Op::Rename, &["/d/e", "/m"]),
        step(Op::RenameToNew, &["/m/f", "//d/./g"]),
        step(Op::Exchange, &["/d", "/m/"]),
        step(Op::Rename, &["/d", "/d/below"]),
        step(Op::Rename, &["/m/g", "/d/../g/"]),
        step(Op::Rmdir, &["/d/."]),
        step(Op::Rmdir, &["/d/"]),
    ];
    let orphans = [
        step(Op::Open, &["/d/e/f"]),
        step(Op::Unlink, &["/d/e/f"]),
        step(Op::Open, &["/d/e"]),
        step(Op::Rmdir, &["/d/e"]),
        step(Op::CreateNew, &["/d/e/f"]),
        step(Op::Close, &[""]),
    ];
    let long = [
        // Just as many symbolic links as may be followed.
        step_long(Op::Resolve as u8, "/d/e/../../abs/.."),
        step_long(Op::Mkdir as u8, "0123456"),
        step_long(Op::Resolve as u8, &"/".repeat(110)),
        step(Op::Mkdir, &["\0"]),
        step(Op::Mkdir, &[""]),
    ];
    vec![
        Seed::accepted(TARGET, "links", links.concat()),
        Seed::accepted(TARGET, "renames", renames.concat()),
        Seed::accepted(TARGET, "orphans", orphans.concat()),
        Seed::accepted(TARGET, "long-path", long[0].clone()),
        Seed::refused(TARGET, "bad-paths", long[1..].concat()),
    ]
}

pub(super) fn path_rules() -> Vec<Seed> {
    const TARGET: &str = "path_rules";
    const SET: u8 = 0;
    const REMOVE: u8 = 1;
    const LOOK: u8 = 2;
    let nested = [
        step(SET, &["/a"]),
        step(SET, &["/a/b/"]),
        step(SET, &["/ab"]),
        step(LOOK, &["/a/bc/../b//c/."]),
        step(REMOVE, &["/a/b/c"]),
        step(REMOVE, &["/a/./b"]),
        step(SET, &["/.."]),
        step(LOOK, &["/a/b/c"]),
        step_long(LOOK, "/a/b"),
    ];
    vec![
        Seed::accepted(TARGET, "nested", nested.concat()),
        Seed::refused(TARGET, "relative", [step(SET, &["a/b"]), step(LOOK, &["/a/b"])].concat()),
    ]
}
