//! Random operations on files of random layouts, against a vector of bytes.

use super::world::*;
use crate::layout::Layout;
use clio_core::io::IoKind;
use proptest::prelude::*;

/// Files stay below this many bytes.
const LIMIT: u64 = 12 * UNIT;

#[derive(Clone, Debug)]
enum Op {
    Read {
        pos: u64,
        len: u64,
        direct: bool,
    },
    Write {
        pos: u64,
        len: u64,
        direct: bool,
        seed: u64,
    },
    Append {
        len: u64,
        seed: u64,
    },
    Truncate {
        size: u64,
    },
    Punch {
        pos: u64,
        len: u64,
    },
    SeekHole {
        pos: u64,
    },
    /// Another client, which has no locks to conflict, writes what is known to be cached by nobody.
    Other {
        pos: u64,
        len: u64,
        seed: u64,
    },
    Prune,
    CancelSub {
        nth: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..LIMIT, prop_oneof![1..100u64, 1..4 * UNIT]);
    prop_oneof![
        3 => (place(), any::<bool>()).prop_map(|((pos, len), direct)| Op::Read { pos, len, direct }),
        4 => (place(), prop::bool::weighted(0.2), 0..1000u64)
            .prop_map(|((pos, len), direct, seed)| Op::Write { pos, len, direct, seed }),
        1 => (1..UNIT, 0..1000u64).prop_map(|(len, seed)| Op::Append { len, seed }),
        1 => (0..LIMIT).prop_map(|size| Op::Truncate { size }),
        1 => place().prop_map(|(pos, len)| Op::Punch { pos, len }),
        1 => (0..LIMIT).prop_map(|pos| Op::SeekHole { pos }),
        1 => (place(), 0..1000u64).prop_map(|((pos, len), seed)| Op::Other { pos, len, seed }),
        1 => Just(Op::Prune),
        1 => (0..10usize).prop_map(|nth| Op::CancelSub { nth }),
    ]
}

fn layout() -> impl Strategy<Value = Layout> {
    let component = (1..4u64, 1..=4u16, 1..=2u64);
    prop::collection::vec(component, 1..4).prop_map(|components| {
        let last = components.len() - 1;
        let mut end = 0;
        components.into_iter().enumerate().fold(Layout::composite(), |layout, (i, (units, stripes, size))| {
            end += units * UNIT;
            let layout = if i == last { layout.to_eof() } else { layout.until(end) };
            layout.stripe_size(size * UNIT).stripe_count(stripes)
        })
    })
}

fn put(model: &mut Vec<u8>, pos: u64, data: &[u8]) {
    let (start, end) = (pos as usize, pos as usize + data.len());
    if model.len() < end {
        model.resize(end, 0);
    }
    model[start..end].copy_from_slice(data);
}

fn apply(world: &World, other: &World, model: &mut Vec<u8>, op: &Op) {
    let part = |pos: u64, len: u64| {
        let end = model.len().min((pos + len) as usize);
        (pos as usize).min(end)..end
    };
    match *op {
        Op::Read { pos, len, direct } => {
            if direct {
                world.top.prune(&world.env, false).expect("prune");
            }
            world.top.glimpse(&world.env).expect("glimpse");
            assert!(world.read_as(pos, len, direct).expect("read") == model[part(pos, len)]);
        }
        Op::Write { pos, len, direct, seed } => {
            let data = pattern(seed * 512, len);
            assert_eq!(world.write_as(IoKind::Write { append: false }, pos, &data, direct).expect("write"), len);
            put(model, pos, &data);
        }
        Op::Append { len, seed } => {
            let data = pattern(seed * 512, len);
            world.write_as(IoKind::Write { append: true }, 0, &data, false).expect("append");
            let end = model.len() as u64;
            put(model, end, &data);
        }
        Op::Truncate { size } => {
            world.truncate(size).expect("truncate");
            model.resize(size as usize, 0);
        }
        Op::Punch { pos, len } => {
            let range = part(pos, len);
            world.do_plain(IoKind::Punch, pos, len).expect("punch");
            model[range].fill(0);
        }
        Op::SeekHole { pos } => {
            let found = world.do_plain(IoKind::Seek { hole: true }, pos, 0).expect("seek");
            let rest = model.get(pos as usize..).filter(|r| !r.is_empty());
            let expected = rest.map(|r| pos + r.iter().position(|b| *b == 0).unwrap_or(r.len()) as u64);
            assert_eq!(found, expected);
        }
        Op::Other { pos, len, seed } => {
            let data = pattern(seed * 512, len);
            world.top.prune(&world.env, false).expect("prune");
            other.write(pos, &data).expect("write");
            other.top.prune(&other.env, false).expect("prune");
            put(model, pos, &data);
            world.top.glimpse(&world.env).expect("glimpse");
        }
        Op::Prune => world.top.prune(&world.env, false).expect("prune"),
        Op::CancelSub { nth } => {
            let subs = world.site.objects();
            let locks: Vec<_> = subs.iter().filter(|o| o.is_sub()).flat_map(|o| o.locks().all()).collect();
            if let Some(lock) = locks.get(nth) {
                lock.cancel(&world.env);
            }
        }
    }
    assert_eq!(world.size(), model.len() as u64, "after {op:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_file_is_a_vector_of_bytes(layout in layout(), full: bool, ops in prop::collection::vec(op(), 1..25)) {
        let world = if full { World::full(&layout) } else { World::new(&layout) };
        let other = World::on(world.disk.clone(), world.layouts.clone());
        let mut model = Vec::new();
        for op in &ops {
            apply(&world, &other, &mut model, op);
            world.assert_idle();
        }
        world.top.prune(&world.env, false).expect("prune");
        world.top.glimpse(&world.env).expect("glimpse");
        prop_assert!(world.read(0, 2 * LIMIT).expect("read") == model);
    }
}

/// The rest of a block that is written in part is what another client has put there.
#[test]
fn a_block_shared_with_another_client() {
    let world = World::full(&Layout::composite().to_eof().stripe_size(UNIT).stripe_count(1));
    let other = World::on(world.disk.clone(), world.layouts.clone());
    let mut model = Vec::new();
    for op in [
        Op::Other { pos: 344_842, len: 233_200, seed: 0 },
        Op::Write { pos: 362_882, len: 206_463, direct: false, seed: 0 },
        Op::Read { pos: 209_979, len: 150_470, direct: false },
        Op::Read { pos: 560_000, len: 20_000, direct: false },
    ] {
        apply(&world, &other, &mut model, &op);
    }
}
