//! How far read-ahead may go.

use super::world::*;
use clio_core::io::{Io, IoKind, IoState};
use clio_core::lock::{Retired, request};
use clio_core::target::LockMode::Pr;
use clio_core::units::Extent;
use std::sync::atomic::Ordering::SeqCst;

fn ask(world: &World, io: &mut Io, offset: u64) -> Extent {
    io.read_ahead(&world.env, offset).expect("read-ahead")
}

fn begin(world: &World) -> Io {
    let mut io = Io::new(&world.env, world.object(), IoKind::Read, 0, 4096).expect("io");
    io.set_state(IoState::IterStarted).expect("state");
    io.iter_init(&world.env).expect("iteration");
    io
}

fn finish(world: &World, mut io: Io) {
    io.iter_fini(&world.env);
    io.set_state(IoState::IterEnded).expect("state");
    io.fini(&world.env);
}

#[test]
fn it_goes_on_over_units_whose_stripes_are_locked() {
    let world = World::full(&raid0(3));
    let lock =
        |unit: u64| drop(request(&world.env, world.object(), &need(unit * UNIT, unit * UNIT + 1, Pr)).expect("lock"));
    let mut io = begin(&world);
    assert!(ask(&world, &mut io, 0).is_empty(), "no lock");
    lock(0);
    assert_eq!(ask(&world, &mut io, 5), Extent::new(0, UNIT));
    lock(1);
    assert_eq!(ask(&world, &mut io, 5), Extent::new(0, 2 * UNIT));
    assert!(ask(&world, &mut io, 2 * UNIT).is_empty());
    lock(2);
    assert_eq!(ask(&world, &mut io, 5), Extent::WHOLE, "all stripes are locked to the end");
    assert_eq!(ask(&world, &mut io, 4 * UNIT), Extent::new(4 * UNIT, Extent::EOF));

    // The locks that the answer relied on stay until the read is over.
    let sub = world.sub(0, 2).locks().all()[0].clone();
    assert_eq!(sub.cancel(&world.env), Retired::Later);
    finish(&world, io);
    assert!(sub.is_gone());
    world.assert_idle();
}

#[test]
fn it_ends_where_a_lock_or_a_component_does() {
    let world = World::full(&raid0(2));
    world.disk.exact.store(true, SeqCst);
    let covered = [(0, UNIT), (UNIT, UNIT + 8192)];
    for (start, end) in covered {
        request(&world.env, world.object(), &need(start, end, Pr)).expect("lock");
    }
    let mut io = begin(&world);
    assert_eq!(ask(&world, &mut io, 4096), Extent::new(0, UNIT + 8192));
    assert_eq!(ask(&world, &mut io, UNIT + 4096), Extent::new(UNIT, UNIT + 8192));
    finish(&world, io);

    let world = World::new(&crate::layout::Layout::composite().until(2 * UNIT).stripe_size(UNIT).to_eof());
    world.write(0, b"x").expect("write");
    let mut io = begin(&world);
    assert_eq!(ask(&world, &mut io, 0), Extent::new(0, 2 * UNIT), "nothing is ahead in a hole");
    finish(&world, io);
    world.write(3 * UNIT, b"x").expect("write");
    let mut io = begin(&world);
    assert_eq!(ask(&world, &mut io, 0), Extent::WHOLE);
    finish(&world, io);
    world.assert_idle();
}
