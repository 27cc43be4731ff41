//! Bytes go where the layout says, an iteration at a time, for all small geometries.

use super::world::*;
use clio_core::io::IoKind;
use clio_core::units::Extent;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn every_small_write_lands_and_reads_back() {
    let bounds = [0, 1, 4095, UNIT - 1, UNIT, UNIT + 5, 2 * UNIT, 3 * UNIT + 1, 5 * UNIT, 5 * UNIT + 4097];
    for stripes in 1..=4 {
        let world = World::full(&raid0(stripes));
        let mut model = Vec::new();
        for (i, start) in bounds.iter().enumerate() {
            for end in &bounds[i + 1..] {
                let data = pattern(*start, end - start);
                assert_eq!(world.write(*start, &data).expect("write"), end - start);
                if model.len() < *end as usize {
                    model.resize(*end as usize, 0);
                }
                model[*start as usize..*end as usize].copy_from_slice(&data);
                assert_eq!(world.size(), model.len() as u64);
                assert_eq!(world.read(*start, end - start).expect("read"), data);
            }
        }
        assert_eq!(world.read(0, 1 << 20).expect("read"), model, "{stripes} stripes");
        let layout = world.lov.snapshot();
        let layout = layout.layout();
        for (at, byte) in model.iter().enumerate().step_by(509) {
            let crate::layout::Location::Stripe(p) = layout.locate(at as u64) else { panic!("a hole at {at}") };
            assert_eq!(world.disk.objects.lock()[&p.at.fid(FID)][p.object_offset as usize], *byte);
        }
        world.assert_idle();
    }
}

#[test]
fn an_iteration_stays_in_a_unit_and_sub_ios_are_made_once() {
    let world = World::full(&raid0(2));
    let data = pattern(0, 5 * UNIT);
    world.write(100, &data).expect("write");
    let ends: Vec<_> = world.seen.lock().iter().map(|e| e.end).collect();
    assert_eq!(ends, [UNIT, 2 * UNIT, 3 * UNIT, 4 * UNIT, 5 * UNIT, 5 * UNIT + 100]);
    assert_eq!(world.disk.sub_ios.load(SeqCst), 2, "one for each stripe, kept over iterations");
    world.write(100, b"x").expect("write");
    assert_eq!(world.disk.sub_ios.load(SeqCst), 3, "one for the stripe that is met");

    let world = World::full(&raid0(1));
    world.write(100, &data).expect("write");
    assert_eq!(*world.seen.lock(), [Extent::with_len(100, 5 * UNIT)], "one stripe has no units to mind");
}

#[test]
fn append_and_truncate_are_done_in_one_iteration() {
    let world = World::full(&raid0(3));
    world.write(0, &pattern(0, UNIT + 10)).expect("write");
    let data = pattern(7, 3 * UNIT);
    assert_eq!(world.write_as(IoKind::Write { append: true }, 0, &data, false).expect("append"), 3 * UNIT);
    assert_eq!(world.seen.lock().len(), 1);
    assert_eq!(world.size(), 4 * UNIT + 10);
    assert_eq!(world.read(UNIT + 10, 4 * UNIT).expect("read"), data);
    for size in [4 * UNIT + 9, 2 * UNIT, UNIT + 3, 9 * UNIT + 1, 0, 5] {
        world.truncate(size).expect("truncate");
        assert_eq!(world.size(), size);
    }
    assert_eq!(world.read(0, 10).expect("read"), [0; 5]);
    world.assert_idle();
}

#[test]
fn direct_io_goes_to_all_stripes_at_once() {
    let world = World::full(&raid0(4));
    let data = pattern(3, 9 * UNIT + 77);
    assert_eq!(world.write_as(IoKind::Write { append: false }, 3, &data, true).expect("write"), data.len() as u64);
    assert_eq!(world.seen.lock().len(), 1);
    assert_eq!(world.size(), data.len() as u64 + 3);
    assert_eq!(world.read(3, 10 * UNIT).expect("read"), data);
    world.top.prune(&world.env, false).expect("prune");
    assert_eq!(world.read_as(3, 10 * UNIT, true).expect("read"), data);
    world.assert_idle();
}

#[test]
fn pages_without_quota_come_back_and_go_out_at_once() {
    let world = World::full(&raid0(3));
    world.disk.no_quota.store(true, SeqCst);
    let data = pattern(0, 4 * UNIT + 100);
    for kind in [IoKind::Write { append: false }, IoKind::Write { append: true }] {
        world.write_as(kind, 0, &data, false).expect("write");
    }
    world.top.prune(&world.env, false).expect("prune");
    assert_eq!(world.read(0, 20 * UNIT).expect("read"), [data.clone(), data].concat());
    world.assert_idle();
}

#[test]
fn punch_fsync_and_seek_fan_out() {
    let world = World::full(&raid0(3));
    world.write(0, &pattern(0, 6 * UNIT)).expect("write");
    world.do_plain(IoKind::Punch, UNIT / 2, 2 * UNIT).expect("punch");
    let mut model = pattern(0, 6 * UNIT);
    model[UNIT as usize / 2..5 * UNIT as usize / 2].fill(0);
    assert_eq!(world.read(0, 6 * UNIT).expect("read"), model);
    assert_eq!(world.size(), 6 * UNIT);

    world.do_plain(IoKind::Fsync, UNIT, UNIT).expect("fsync");
    assert_eq!(world.disk.synced.lock().drain(..).collect::<Vec<_>>(), [(FID.sub_object(0, 1), Extent::new(0, UNIT))]);
    world.do_plain(IoKind::Fsync, 0, u64::MAX).expect("fsync");
    assert_eq!(world.disk.synced.lock().len(), 3);

    let seek = |hole, pos| world.do_plain(IoKind::Seek { hole }, pos, 0).expect("seek");
    assert_eq!(seek(true, 5), Some(UNIT / 2));
    assert_eq!(seek(true, 2 * UNIT), Some(2 * UNIT));
    assert_eq!(seek(false, UNIT), Some(5 * UNIT / 2));
    assert_eq!(seek(true, 3 * UNIT), Some(6 * UNIT), "the end of file is a hole");
    assert_eq!((seek(false, 6 * UNIT), seek(true, 6 * UNIT), seek(false, 100 * UNIT)), (None, None, None));
    world.assert_idle();
}
