//! Operations on a small world of names, so that they meet.

use clio_namespace::{IfExists, RenameMode, XattrMode};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub enum Op {
    Create(String, IfExists),
    Mkdir(String),
    Symlink(String, String),
    Link(String, bool, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, RenameMode),
    Chmod(String, u32),
    SetXattr(String, u8, XattrMode),
    RemoveXattr(String, u8),
    SetLayout(String, u8),
    Resolve(String, bool),
    List(String),
    /// Opens what the path names.
    Open(String),
    /// Closes one of what is open.
    Close(usize),
    /// Drops the store and opens it again; what was open is not any more, orphans are reclaimed.
    Reopen,
}

/// A path of one to four components, seldom odd.
fn path() -> impl Strategy<Value = String> {
    let component = prop_oneof![6 => "[abc]", 1 => Just("..".to_string()), 1 => Just(".".to_string())];
    let start = prop_oneof![9 => Just("/"), 1 => Just(""), 1 => Just("//")];
    let end = prop_oneof![9 => Just(""), 1 => Just("/")];
    (start, prop::collection::vec(component, 1..4), end).prop_map(|(s, c, e)| format!("{s}{}{e}", c.join("/")))
}

fn xattr_mode() -> impl Strategy<Value = XattrMode> {
    prop::sample::select(vec![XattrMode::Set, XattrMode::Create, XattrMode::Replace])
}

/// Operations that change what is stored, and look-ups.
pub fn stored_op() -> impl Strategy<Value = Op> {
    let mode = prop::sample::select(vec![RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]);
    let if_exists = prop::sample::select(vec![IfExists::Fail, IfExists::Open]);
    prop_oneof![
        5 => (path(), if_exists).prop_map(|(p, e)| Op::Create(p, e)),
        6 => path().prop_map(Op::Mkdir),
        2 => (path(), path()).prop_map(|(t, p)| Op::Symlink(t, p)),
        3 => (path(), any::<bool>(), path()).prop_map(|(o, f, n)| Op::Link(o, f, n)),
        2 => path().prop_map(Op::Unlink),
        2 => path().prop_map(Op::Rmdir),
        8 => (path(), path(), mode).prop_map(|(o, n, m)| Op::Rename(o, n, m)),
        1 => (path(), 0..0o1000u32).prop_map(|(p, m)| Op::Chmod(p, m)),
        1 => (path(), 0..3u8, xattr_mode()).prop_map(|(p, n, m)| Op::SetXattr(p, n, m)),
        1 => (path(), 0..3u8).prop_map(|(p, n)| Op::RemoveXattr(p, n)),
        1 => (path(), any::<u8>()).prop_map(|(p, l)| Op::SetLayout(p, l)),
        2 => (path(), any::<bool>()).prop_map(|(p, f)| Op::Resolve(p, f)),
        1 => path().prop_map(Op::List),
    ]
}

/// All operations.
pub fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => stored_op(),
        2 => path().prop_map(Op::Open),
        1 => any::<usize>().prop_map(Op::Close),
        1 => Just(Op::Reopen),
    ]
}
