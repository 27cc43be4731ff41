//! Merged attributes: cached, never below what was raised, and down with what stripes lose.

use super::world::*;
use clio_core::attr::{Attr, AttrMask};
use clio_core::object::Object;
use std::sync::atomic::Ordering::SeqCst;

fn cut(object: &Object, size: u64) {
    object.attr_modify(AttrMask::SIZE | AttrMask::KMS, |a| (a.size, a.kms) = (size, size));
}

fn kms(world: &World) -> u64 {
    world.top.attr_get(&world.env).expect("attributes").kms
}

#[test]
fn the_merge_is_cached_until_a_stripe_changes() {
    let world = World::full(&raid0(2));
    world.write(0, &pattern(0, 3 * UNIT)).expect("write");
    assert_eq!((world.size(), kms(&world)), (3 * UNIT, 3 * UNIT));
    // A raise of a stripe alone makes no new version: the cached merge is used.
    world.sub(0, 1).attrs().raise(2 * UNIT, 0);
    assert_eq!(world.size(), 3 * UNIT);
    // A raise of the file counts at once.
    world.top.attrs().raise(4 * UNIT - 1, 0);
    assert_eq!(world.size(), 4 * UNIT - 1);
    // A change of any stripe has all of them merged.
    let blocks = Attr { blocks: 8, ..Attr::default() };
    world.sub(0, 0).attr_update(&world.env, &blocks, AttrMask::BLOCKS).expect("update");
    assert_eq!(world.size(), 4 * UNIT);
    assert_eq!(world.top.attr_get(&world.env).expect("attributes").blocks, 8);
}

#[test]
fn size_comes_down_when_stripes_say_so() {
    let world = World::full(&raid0(2));
    world.write(0, &pattern(0, 4 * UNIT)).expect("write");
    assert_eq!(world.size(), 4 * UNIT);
    // Another client truncated the file.
    cut(&world.sub(0, 0), UNIT);
    cut(&world.sub(0, 1), 10);
    assert_eq!((world.size(), kms(&world)), (UNIT + 10, UNIT + 10));
    assert_eq!(world.top.attrs().kms(), UNIT + 10, "the cell that the fast path looks at is put right too");
    world.write(UNIT + 50, b"x").expect("write");
    assert_eq!(world.size(), UNIT + 51);
}

#[test]
fn a_write_on_its_way_is_not_cut_and_hides_no_cut() {
    let world = World::full(&raid0(2));
    world.write(0, &pattern(0, 4 * UNIT)).expect("write");
    assert_eq!(world.size(), 4 * UNIT);
    cut(&world.sub(0, 0), 5);
    cut(&world.sub(0, 1), 0);
    // A write raises the stripe; then somebody looks, before the file is raised.
    world.sub(0, 0).attrs().raise(UNIT + 7, 0);
    assert_eq!((world.size(), kms(&world)), (2 * UNIT + 7, 2 * UNIT + 7));
    assert_eq!(world.top.attrs().kms(), 2 * UNIT + 7);
    world.top.attrs().raise_after_stripes(2 * UNIT + 7, 0);
    assert_eq!(world.size(), 2 * UNIT + 7);
}

#[test]
fn times_and_blocks() {
    let world = World::full(&raid0(2));
    world.write(0, &pattern(0, 2 * UNIT)).expect("write");
    for (stripe, time) in [(0, 30), (1, 20)] {
        let attr = Attr { mtime: time, atime: 2 * time, ctime: time, blocks: 100 + time, ..Attr::default() };
        let mask = AttrMask::TIMES | AttrMask::BLOCKS;
        world.sub(0, stripe).attr_update(&world.env, &attr, mask).expect("update");
    }
    let attr = world.top.attr_get(&world.env).expect("attributes");
    assert_eq!((attr.mtime, attr.atime, attr.ctime, attr.blocks), (30, 60, 30, 250));
    let owner = Attr { uid: 5, mtime: 99, ..Attr::default() };
    world.top.attr_update(&world.env, &owner, AttrMask::UID | AttrMask::MTIME).expect("update");
    let attr = world.top.attr_get(&world.env).expect("attributes");
    assert_eq!((attr.uid, attr.mtime, attr.atime), (5, 99, 60));
}

#[test]
fn a_glimpse_asks_all_stripes_at_once() {
    let world = World::full(&raid0(3));
    let other = World::on(world.disk.clone(), world.layouts.clone());
    other.write(0, &pattern(0, 2 * UNIT + 5)).expect("write");
    assert_eq!(world.size(), 0, "nothing is known");
    assert_eq!(world.top.glimpse(&world.env).expect("glimpse").size, 2 * UNIT + 5);
    assert_eq!(world.disk.glimpses_at_once.load(SeqCst), 3, "all are asked before one is waited for");
    assert_eq!(kms(&world), 0, "a size is no KMS");
}
