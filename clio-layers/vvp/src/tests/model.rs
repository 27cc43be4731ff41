//! Random operations against a vector of bytes.

use super::{Setup, Stack, read};
use crate::FileFlags;
use clio_core::env::{Env, EnvTags};
use clio_core::{Errno, Result};
use proptest::prelude::*;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;

#[derive(Clone, Debug)]
enum Op {
    Write { at: u64, len: usize, direct: bool },
    WriteMany { at: u64, lens: Vec<usize> },
    Append { len: usize },
    Read { at: u64, len: usize, direct: bool },
    ReadMany { at: u64, lens: Vec<usize> },
    Truncate { size: u64 },
    Punch { at: u64, len: u64 },
    Fsync,
    WriteBack,
    DropCache,
    CancelLocks,
    RefuseCommits(bool),
    Windows(bool),
    GrowLocks(bool),
    Delay(bool),
    Seek { at: u64 },
    Attr,
}

const SIZE: u64 = 300_000;

/// Offsets that like block and folio edges.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..SIZE,
        (0..SIZE / 4096).prop_map(|b| b * 4096),
        (0..SIZE / 4096, 0u64..5).prop_map(|(b, d)| (b * 4096 + d).saturating_sub(2)),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..300, 1usize..10_000, 1usize..150_000, Just(4096), Just(65536)]
}

fn op() -> impl Strategy<Value = Op> {
    let direct = || prop::bool::weighted(0.2);
    prop_oneof![
        6 => (offset(), length(), direct()).prop_map(|(at, len, direct)| Op::Write { at, len, direct }),
        1 => (offset(), prop::collection::vec(0usize..9000, 1..5)).prop_map(|(at, lens)| Op::WriteMany { at, lens }),
        2 => length().prop_map(|len| Op::Append { len }),
        6 => (offset(), length(), direct()).prop_map(|(at, len, direct)| Op::Read { at, len, direct }),
        1 => (offset(), prop::collection::vec(0usize..9000, 1..5)).prop_map(|(at, lens)| Op::ReadMany { at, lens }),
        2 => offset().prop_map(|size| Op::Truncate { size }),
        1 => (offset(), length()).prop_map(|(at, len)| Op::Punch { at, len: len as u64 }),
        1 => Just(Op::Fsync),
        1 => Just(Op::WriteBack),
        1 => Just(Op::DropCache),
        1 => Just(Op::CancelLocks),
        1 => any::<bool>().prop_map(Op::RefuseCommits),
        1 => any::<bool>().prop_map(Op::Windows),
        1 => any::<bool>().prop_map(Op::GrowLocks),
        1 => any::<bool>().prop_map(Op::Delay),
        1 => offset().prop_map(|at| Op::Seek { at }),
        1 => Just(Op::Attr),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let folio = prop_oneof![Just(4096u64), Just(16 << 10), Just(64 << 10), Just(1 << 20)];
    (folio, prop_oneof![Just(64u64 << 10), Just(256 << 10), Just(64 << 20)], any::<bool>(), any::<bool>()).prop_map(
        |(folio_bytes, cache_bytes, ahead, small)| Setup {
            folio_bytes,
            cache_bytes,
            read_ahead_bytes: if ahead { 512 << 10 } else { 0 },
            small_file_bytes: if small { 2 << 20 } else { 0 },
            ..Setup::default()
        },
    )
}

fn bytes(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n * 31 + i % 251 + 1) as u8).collect()
}

fn put(model: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    if model.len() < end && !data.is_empty() {
        model.resize(end, 0);
    }
    if !data.is_empty() {
        model[at as usize..end].copy_from_slice(data);
    }
}

fn part(model: &[u8], at: u64, len: usize) -> &[u8] {
    let start = (at as usize).min(model.len());
    &model[start..(start + len).min(model.len())]
}

/// Applies an operation to both, and compares what it returns.
fn apply(stack: &Stack, model: &mut Vec<u8>, n: usize, op: &Op) -> Result<(), TestCaseError> {
    let file = stack.file();
    let direct_file = stack.open(FileFlags { direct: true, ..FileFlags::default() });
    let pick = |direct: &bool| if *direct { &direct_file } else { &file };
    let env = Env::get(EnvTags::IO);
    let flag = Ordering::Relaxed;
    match op {
        Op::Write { at, len, direct } => {
            let data = bytes(n, *len);
            prop_assert_eq!(pick(direct).write_at(&data, *at).expect("write"), *len);
            put(model, *at, &data);
        }
        Op::WriteMany { at, lens } => {
            let data: Vec<_> = lens.iter().map(|l| bytes(n, *l)).collect();
            let bufs: Vec<_> = data.iter().map(|d| IoSlice::new(d)).collect();
            let all = data.concat();
            prop_assert_eq!(file.write_vectored_at(&bufs, *at).expect("writev"), all.len());
            put(model, *at, &all);
        }
        Op::Append { len } => {
            let data = bytes(n, *len);
            prop_assert_eq!(file.append(&data).expect("append"), (*len, model.len() as u64));
            model.extend_from_slice(&data);
        }
        Op::Read { at, len, direct } => {
            prop_assert!(read(pick(direct), *at, *len) == part(model, *at, *len), "read {} at {}", len, at);
        }
        Op::ReadMany { at, lens } => {
            let mut data: Vec<_> = lens.iter().map(|l| vec![0u8; *l]).collect();
            let mut bufs: Vec<_> = data.iter_mut().map(|d| IoSliceMut::new(d)).collect();
            let got = file.read_vectored_at(&mut bufs, *at).expect("readv");
            let all = data.concat();
            prop_assert!(&all[..got] == part(model, *at, all.len()), "readv at {}", at);
        }
        Op::Truncate { size } => {
            file.truncate(*size).expect("truncate");
            model.resize(*size as usize, 0);
        }
        Op::Punch { at, len } => {
            file.punch(*at, *len).expect("punch");
            let end = ((at + len) as usize).min(model.len());
            let start = (*at as usize).min(end);
            model[start..end].fill(0);
        }
        Op::Fsync => {
            file.fsync().expect("fsync");
            prop_assert!(stack.store.content() == *model, "fsynced");
        }
        Op::WriteBack => stack.store.write_back(&stack.object),
        Op::DropCache => {
            stack.cache.reclaim(&env, u64::MAX);
        }
        Op::CancelLocks => {
            stack.cancel_locks();
            let left = stack.object.pages().range(0..u64::MAX, 9);
            prop_assert!(left.is_empty(), "pages without a lock: {:?}", left);
            prop_assert!(stack.store.content() == *model, "cancelled");
        }
        Op::RefuseCommits(on) => stack.store.refuse_commits.store(*on, flag),
        Op::Windows(on) => stack.store.open_windows.store(*on, flag),
        Op::GrowLocks(on) => stack.store.grow_locks.store(*on, flag),
        Op::Delay(on) => stack.store.delayed.store(*on, flag),
        Op::Seek { at } => {
            let hole = file.seek_hole(*at);
            if *at >= model.len() as u64 {
                prop_assert_eq!(hole.expect_err("beyond the end").errno(), Errno::ENXIO);
            } else {
                let hole = hole.expect("a hole") as usize;
                prop_assert!(hole >= *at as usize && hole <= model.len(), "{}", hole);
                prop_assert!(hole == model.len() || model[hole] == 0);
            }
        }
        Op::Attr => prop_assert_eq!(file.attr().expect("attr").size, model.len() as u64),
    }
    Ok(())
}

proptest! {
    #[test]
    fn operations_match_a_vector(setup in setup(), ops in prop::collection::vec(op(), 1..60)) {
        let stack = Stack::new(setup);
        let mut model = Vec::new();
        for (n, op) in ops.iter().enumerate() {
            apply(&stack, &mut model, n, op)?;
        }
        prop_assert!(read(&stack.file(), 0, SIZE as usize * 3) == model, "all of it");
        stack.cancel_locks();
        prop_assert!(stack.store.content() == model, "stored");
        prop_assert_eq!(stack.cache.used_bytes(), 0, "page memory is given back");
    }
}
