//! Seeds that are rows of operations.

use super::super::namespace_paths::Op;
use super::super::rpc_messages::Op as Rpc;
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

/// Requests that meet: data that covers itself, locks that conflict, what is refused, and the end of a small target.
pub(super) fn rpc_messages() -> Vec<Seed> {
    const TARGET: &str = "rpc_messages";
    const LARGE: u8 = 0;
    const SMALL: u8 = 1;
    // Numbers, near these places: nothing, blocks, and the largest offset.
    const BYTES: u8 = 0;
    const BLOCKS: u8 = 1;
    const MAX: u8 = 6;
    const EOF: [u8; 2] = [7, 0xff];
    let send = |op: Rpc, client: u8, object: u8, rest: &[u8]| [&[op as u8, client, object], rest].concat();
    let data = [
        send(Rpc::Create, 0, 0, &[]),
        // Summed, two segments: 100 bytes at 4090, and two blocks at 8192.
        send(Rpc::Write, 0, 0, &[2, BYTES, 0, 0, 9, 2, 2, 0xfa, 100, BLOCKS, 2, 254]),
        send(Rpc::Read, 1, 0, &[1, 2, BYTES, 0, 200, BLOCKS, 1, 250]),
        send(Rpc::Punch, 1, 0, &[2, 0xfe, BLOCKS, 3]),
        send(Rpc::Seek, 0, 0, &[0, BYTES, 7]),
        send(Rpc::Seek, 0, 0, &[1, BYTES, 7]),
        send(Rpc::Truncate, 0, 0, &[2, 3]),
        send(Rpc::SetAttr, 0, 0, &[0xf8, BYTES, 77]),
        send(Rpc::Sync, 0, 0, &[]),
        send(Rpc::GetAttr, 1, 0, &[]),
        send(Rpc::StatFs, 1, 0, &[]),
        send(Rpc::Write, 0, 1, &[0, BYTES, 200, 0, 9, 1, MAX, 0xf0, 15]),
        send(Rpc::Read, 0, 1, &[0, 1, MAX, 0xf0, 15]),
        send(Rpc::Destroy, 0, 0, &[]),
    ];
    let locks = [
        send(Rpc::Connect, 0, 0, &[]),
        // The whole object to the first; the others wait, with a lock and without one, or are told.
        send(Rpc::Enqueue, 0, 0, &[[8, 1, BYTES, 0].as_slice(), &EOF].concat()),
        send(Rpc::Write, 0, 0, &[1, BYTES, 100, 0, 7, 1, BYTES, 5, 50]),
        send(Rpc::Enqueue, 1, 0, &[8, 0, BYTES, 0, BLOCKS, 2]),
        send(Rpc::Write, 2, 0, &[0, BYTES, 10, 0, 3, 1, BYTES, 9, 20]),
        send(Rpc::Read, 1, 0, &[1, 1, BYTES, 0, 60]),
        send(Rpc::Enqueue, 2, 0, &[1, 0, BYTES, 0, BLOCKS, 1]),
        send(Rpc::Enqueue, 2, 0, &[2, 0, BYTES, 0, BLOCKS, 1]),
        send(Rpc::AnswerGlimpse, 0, 0, &[BLOCKS, 5, BYTES, 8]),
        send(Rpc::Cancel, 0, 0, &[0]),
        send(Rpc::Enqueue, 2, 0, &[0, 3, BLOCKS, 4, BLOCKS, 5]),
        send(Rpc::Disconnect, 1, 0, &[]),
    ];
    let refused = [
        // Overlapping segments, data beyond all offsets, a wrong checksum, more grant than there is, a foreign lock.
        send(Rpc::Read, 0, 0, &[0, 2, BYTES, 9, 9, BYTES, 9, 9]),
        send(Rpc::Read, 0, 0, &[0, 1, MAX, 0, 1]),
        send(Rpc::Write, 0, 0, &[6, BYTES, 0, 0, 1, 1, BYTES, 0, 9]),
        send(Rpc::Write, 0, 0, &[0, MAX, 0, 0, 1, 1, BYTES, 0, 9]),
        send(Rpc::Write, 0, 0, &[1, BYTES, 0, 99, 1, 1, BYTES, 0, 9]),
        send(Rpc::Enqueue, 0, 0, &[0, 0, BLOCKS, 1, BLOCKS, 1]),
        send(Rpc::Punch, 0, 0, &[MAX, 2, MAX, 3]),
        send(Rpc::SetAttr, 0, 0, &[1, BYTES, 1]),
        send(Rpc::Seek, 0, 0, &[0, BYTES, 0]),
        send(Rpc::Destroy, 0, 0, &[]),
        // Nobody of these clients is there, nor is the target a client.
        send(Rpc::GetAttr, 3, 0, &[]),
        send(Rpc::Disconnect, 4, 0, &[]),
        send(Rpc::Cancel, 5, 0, &[0]),
    ];
    let full = [
        send(Rpc::Write, 0, 0, &[0, BYTES, 0, 0, 1, 3, BLOCKS, 0, 254, BLOCKS, 3, 254, BLOCKS, 6, 254]),
        send(Rpc::Write, 1, 1, &[0, BYTES, 77, 0, 2, 1, BLOCKS, 0, 254]),
        send(Rpc::ReturnGrant, 0, 0, &[MAX, 0]),
        send(Rpc::Punch, 0, 0, &[BLOCKS, 0, BLOCKS, 9]),
        send(Rpc::Write, 1, 1, &[0, BYTES, 77, 0, 2, 1, BLOCKS, 0, 254]),
    ];
    let script = |capacity: u8, requests: &[Vec<u8>]| [&[capacity][..], &requests.concat()].concat();
    vec![
        Seed::accepted(TARGET, "data", script(LARGE, &data)),
        Seed::accepted(TARGET, "locks", script(LARGE, &locks)),
        Seed::accepted(TARGET, "full", script(SMALL, &full)),
        Seed::refused(TARGET, "refused", script(LARGE, &refused)),
        Seed::refused(TARGET, "empty", []),
    ]
}
