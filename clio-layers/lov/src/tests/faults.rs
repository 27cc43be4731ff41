//! Whatever fails in a sub-IO, at whatever step: nothing stays behind, and the next IO works.

use super::disk::At;
use super::top::Buffer;
use super::world::*;
use clio_core::Errno;
use clio_core::io::IoKind;
use clio_core::sync::Mutex;

const STEPS: [At; 9] =
    [At::Init, At::IterInit, At::Lock, At::Enqueue, At::Start, At::Submit, At::Commit, At::Direct, At::End];

#[test]
fn a_failing_step_leaves_nothing_behind() {
    let kinds = [
        (IoKind::Read, false),
        (IoKind::Write { append: false }, false),
        (IoKind::Write { append: false }, true),
        (IoKind::Write { append: true }, false),
        (IoKind::Read, true),
        (IoKind::Truncate { size: UNIT + 1 }, false),
        (IoKind::Punch, false),
        (IoKind::Fsync, false),
        (IoKind::Seek { hole: true }, false),
    ];
    let mut failed = 0;
    for (kind, direct) in kinds {
        for step in STEPS {
            for nth in 0..4 {
                failed += usize::from(fails(kind, direct, step, nth));
            }
        }
    }
    assert!(failed > 60, "only {failed} IOs met their fault");
}

/// Whether the fault was met.
fn fails(kind: IoKind, direct: bool, step: At, nth: usize) -> bool {
    let world = World::full(&raid0(3));
    let size = 4 * UNIT + 5;
    world.write(0, &pattern(0, size)).expect("write");
    world.top.prune(&world.env, false).expect("prune");
    *world.disk.fail.lock() = Some((step, nth));
    let buffer = Buffer::new(Mutex::new(pattern(0, 4 * UNIT)));
    let mut io = world.io(kind, 0, &buffer, |c| c.direct = direct).expect("io");
    let result = clio_io_loop::run(&world.env, &mut io);
    let is_met = world.disk.fail.lock().take().is_none();
    let error = io.common.error().map(|e| e.errno());
    assert_eq!(error, is_met.then_some(Errno::EIO), "{kind:?} {step:?} {nth}: {result:?}");
    world.assert_idle();

    world.write(0, &pattern(0, size)).expect("write");
    world.truncate(size).expect("truncate");
    world.top.prune(&world.env, false).expect("prune");
    assert_eq!(world.read(0, 10 * UNIT).expect("read"), pattern(0, size));
    world.assert_idle();
    is_met
}

#[test]
fn a_failure_above_ends_what_was_begun_below() {
    let world = World::full(&raid0(2));
    for fail_in in 1..4 {
        let buffer = Buffer::new(Mutex::new(pattern(0, 3 * UNIT)));
        let write = IoKind::Write { append: false };
        let mut io = world.failing_io(write, 0, &buffer, Some(fail_in), |_| {}).expect("io");
        let result = clio_io_loop::run(&world.env, &mut io);
        let moved = (fail_in as u64 - 1) * UNIT;
        assert_eq!(result.ok(), (moved > 0).then_some(moved));
        assert_eq!(io.common.error().map(|e| e.errno()), Some(Errno::EIO));
        world.assert_idle();
    }
}
