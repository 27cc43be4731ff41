//! Components that get their targets while the file is in use.

use super::world::*;
use crate::layout::Layout;
use clio_core::Errno;
use clio_core::io::{Io, IoKind, IoState};
use clio_core::lock::request;
use clio_core::object::ObjectConf;
use clio_core::page::{Page, PageQueues, Rw, SyncIo};
use clio_core::target::LockMode::{Pr, Pw};
use clio_core::units::{Extent, PageIndex};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// [0, 2) units on one stripe, [2, 6) on two, the rest on four.
fn composite() -> Layout {
    raid0_parts().to_eof().stripe_count(4)
}

fn raid0_parts() -> Layout {
    Layout::composite().until(2 * UNIT).stripe_size(UNIT).until(6 * UNIT).stripe_count(2)
}

fn instantiated(world: &World) -> Vec<bool> {
    world.lov.snapshot().layout().components().iter().map(|c| c.stripes().is_some()).collect()
}

#[test]
fn the_first_write_gives_a_component_its_targets() {
    let world = World::new(&composite());
    assert!(world.read(0, 100).expect("read").is_empty());
    world.write(3 * UNIT, &pattern(3 * UNIT, 10)).expect("write");
    assert_eq!(instantiated(&world), [false, true, false]);
    assert_eq!(world.size(), 3 * UNIT + 10);
    let mut model = vec![0; 3 * UNIT as usize];
    model.extend(pattern(3 * UNIT, 10));
    assert_eq!(world.read(0, 1 << 20).expect("read"), model, "what has no targets reads as zeros");
    world.write(UNIT, &pattern(UNIT, 6 * UNIT)).expect("write");
    assert_eq!(instantiated(&world), [true, true, true]);
    model.truncate(UNIT as usize);
    model.extend(pattern(UNIT, 6 * UNIT));
    assert_eq!(world.read(0, 1 << 20).expect("read"), model);
    world.assert_idle();
}

#[test]
fn what_another_client_instantiated_is_found() {
    let world = World::new(&composite());
    let other = World::on(world.disk.clone(), world.layouts.clone());
    other.write(7 * UNIT, &pattern(7 * UNIT, 100)).expect("write");
    assert_eq!(instantiated(&world), [false, false, false]);
    assert_eq!(world.top.glimpse(&world.env).expect("glimpse").size, 7 * UNIT + 100);
    other.write(0, &pattern(0, 100)).expect("write");
    let start = world.read(0, 7 * UNIT + 200).expect("read");
    assert_eq!((start.len() as u64, &start[..100]), (7 * UNIT + 100, &pattern(0, 100)[..]));
    assert_eq!(start[7 * UNIT as usize..], pattern(7 * UNIT, 100));
    assert_eq!(instantiated(&world), [true, false, true]);
    world.assert_idle();
}

#[test]
fn truncation_and_append_have_what_they_need() {
    let world = World::new(&composite());
    world.truncate(4 * UNIT).expect("truncate");
    assert_eq!(instantiated(&world), [false, true, false]);
    assert_eq!(world.size(), 4 * UNIT);
    world.truncate(UNIT).expect("truncate");
    assert_eq!((world.size(), instantiated(&world)), (UNIT, vec![true, true, false]));
    world.truncate(0).expect("truncate");
    assert_eq!(world.size(), 0);
    let data = pattern(0, 7 * UNIT);
    world.write_as(IoKind::Write { append: true }, 0, &data, false).expect("append");
    assert_eq!((world.size(), instantiated(&world)), (7 * UNIT, vec![true, true, true]));
    assert_eq!(world.read(0, 1 << 20).expect("read"), data);
    world.assert_idle();
}

#[test]
fn nothing_fits_beyond_the_last_component() {
    let world = World::new(&raid0_parts());
    assert_eq!(world.write(6 * UNIT, b"x").expect_err("beyond").errno(), Errno::EFBIG);
    assert_eq!(world.truncate(6 * UNIT + 1).expect_err("beyond").errno(), Errno::EFBIG);
    assert_eq!(world.write(6 * UNIT - 3, b"abcdef").expect("as far as it goes"), 3);
    assert_eq!(world.read(6 * UNIT - 3, 10).expect("read"), b"abc");
    assert_eq!(world.read(7 * UNIT, 10).expect("read"), b"");
    for direct in [false, true] {
        let far = world.write_as(IoKind::Write { append: false }, i64::MAX as u64, b"x", direct);
        assert_eq!(far.expect_err("beyond").errno(), Errno::EFBIG);
    }
    world.assert_idle();
}

/// Begins an iteration of a read in a hole.
fn read_in_hole(world: &World) -> Io {
    let mut io = Io::new(&world.env, world.object(), IoKind::Read, 0, UNIT).expect("io");
    io.set_state(IoState::IterStarted).expect("state");
    io.iter_init(&world.env).expect("iteration");
    assert!(io.common.hole);
    io
}

fn finish(world: &World, mut io: Io) {
    io.iter_fini(&world.env);
    io.set_state(IoState::IterEnded).expect("state");
    io.fini(&world.env);
}

#[test]
fn pages_in_a_hole_are_zeros_and_do_not_stay() {
    let world = World::new(&composite());
    let mut io = read_in_hole(&world);
    let page = Page::find(&world.env, world.object(), PageIndex(1)).expect("page");
    assert!(page.child().is_none());
    let sync = SyncIo::new();
    let mut queues = PageQueues { sync: Some(sync.clone()), ..PageQueues::default() };
    queues.qin.push(page.clone(), page.all_blocks());
    let owned = page.own(io.common.id).expect("owned");
    io.submit(&world.env, Rw::Read, &mut queues).expect("submit");
    drop(owned);
    sync.wait().expect("completed");
    assert_eq!((queues.qin.len(), queues.qout.len()), (0, 1));
    let mut content = vec![1; UNIT as usize];
    assert!(page.read(0, &mut content) && content.iter().all(|b| *b == 0));
    finish(&world, io);
    assert!(page.is_dying() && world.object().pages().is_empty());
    world.assert_idle();
}

#[test]
fn a_page_of_a_former_hole_is_not_found() {
    let world = World::new(&composite());
    // Made by somebody who took no part in the protocol, after the former hole was swept.
    let encoded = world.layouts.fill(Extent::new(0, 1));
    let page = Page::find(&world.env, world.object(), PageIndex(1)).expect("page");
    assert!(page.child().is_none());
    world.lov.publish(crate::striped::Striped::new(world.lov.decode(&encoded).expect("layout")));
    let again = Page::find(&world.env, world.object(), PageIndex(1)).expect("page");
    assert!(page.is_dying() && again.child().is_some());
}

#[test]
fn a_hole_is_not_filled_while_it_is_read() {
    let world = World::new(&composite());
    let io = read_in_hole(&world);
    std::thread::scope(|scope| {
        let (lov, layouts) = (world.lov.clone(), world.layouts.clone());
        let filler = scope.spawn(move || {
            let env = clio_core::env::Env::get(clio_core::env::EnvTags::ANY);
            let encoded = layouts.fill(Extent::new(0, 1));
            lov.adopt(&env, lov.decode(&encoded).expect("layout")).expect("adopted");
        });
        // It has decided to wait once the source knows the new layout and the snapshot still doesn't: whenever that is,
        // the old one is current until the read ends.
        while world.layouts.layout.lock().generation().0 == 0 {
            std::thread::yield_now();
        }
        assert_eq!(instantiated(&world), [false, false, false]);
        finish(&world, io);
        filler.join().expect("filled");
    });
    assert_eq!(instantiated(&world), [true, false, false]);
    world.assert_idle();
}

#[test]
fn a_lock_on_a_hole_is_worth_nothing_once_it_is_filled() {
    let world = World::new(&composite());
    world.write(3 * UNIT, b"x").expect("write");
    let spread = need(0, 6 * UNIT, Pr);
    let lock = request(&world.env, world.object(), &spread).expect("lock").lock().clone();
    let again = request(&world.env, world.object(), &spread).expect("lock");
    assert!(Arc::ptr_eq(again.lock(), &lock), "good while the hole is one");
    drop(again);
    let hole = request(&world.env, world.object(), &need(0, 4096, Pr)).expect("lock");
    assert!(world.disk.enqueued.load(SeqCst) <= 3);
    drop(hole);

    world.write(0, b"y").expect("write");
    let asked = world.disk.enqueued.load(SeqCst);
    let again = request(&world.env, world.object(), &spread).expect("lock");
    assert!(!Arc::ptr_eq(again.lock(), &lock));
    assert_eq!(world.disk.enqueued.load(SeqCst), asked, "all sub-locks are in the cache");
    let in_first = request(&world.env, world.object(), &need(0, 4096, Pw)).expect("lock");
    assert_eq!(in_first.descr().extent, Extent::new(0, 2 * UNIT), "the component has one stripe");
    drop((again, in_first));
    world.assert_idle();
}

#[test]
fn a_layout_with_other_stripes_replaces_all() {
    let world = World::full(&raid0(2));
    world.write(0, &pattern(0, 3 * UNIT)).expect("write");
    let other = World::full(&raid0(3).first_target(1));
    let conf = ObjectConf { layout: Some(other.layouts.layout.lock().encode().into()), ..ObjectConf::default() };
    let old = world.sub(0, 0);
    for slice in world.object().slices() {
        slice.conf_set(&world.env, world.object(), &conf).expect("conf");
    }
    assert!(old.is_dying() && world.object().pages().is_empty() && world.object().locks().is_empty());
    world.disk.objects.lock().clear();
    world.write(0, &pattern(0, 3 * UNIT)).expect("write");
    assert_eq!(world.disk.len(FID.sub_object(0, 2)), UNIT);
    assert_eq!(world.read(0, 1 << 20).expect("read"), pattern(0, 3 * UNIT));
    world.assert_idle();
}

#[test]
fn a_bad_layout_is_refused() {
    let world = World::full(&raid0(2));
    let open = |layout: Option<Vec<u8>>| {
        let conf = ObjectConf { layout: layout.map(Into::into), ..ObjectConf::default() };
        let device = crate::LovDevice::new(Vec::new(), world.layouts.clone());
        world.site.find(&world.env, clio_core::units::Fid::new(9, 9), device.as_ref(), &conf).expect_err("bad").errno()
    };
    assert_eq!(open(None), Errno::EINVAL);
    assert_eq!(open(Some(b"nonsense".to_vec())), Errno::EBADMSG);
    assert_eq!(open(Some(world.layouts.layout.lock().encode())), Errno::ENODEV, "a target that isn't there");
}

#[test]
fn sub_objects_go_with_their_file() {
    let world = World::full(&raid0(2));
    world.write(0, &pattern(0, 2 * UNIT)).expect("write");
    let subs = [world.sub(0, 0), world.sub(0, 1)];
    assert_eq!(world.site.len(), 3);
    let World { env, site, top, lov, .. } = world;
    drop(top);
    assert_eq!(site.len(), 3, "cached with it");
    site.purge(&env).expect("purge");
    assert!(site.is_empty() && subs.iter().all(|s| s.is_dying() && s.pages().is_empty() && s.locks().is_empty()));
    assert!(lov.top().is_none(), "no cycle of pointers keeps it");
}

#[test]
fn stripes_of_an_earlier_life_of_the_file_are_pushed_aside() {
    let world = World::full(&raid0(2));
    world.write(0, &pattern(0, 2 * UNIT)).expect("write");
    let old = [world.sub(0, 0), world.sub(0, 1)];
    // Evicted while it is in use, and opened again meanwhile.
    world.object().kill();
    let again = World::in_site(world.site.clone(), world.memory.clone(), world.disk.clone(), world.layouts.clone());
    assert!(!Arc::ptr_eq(again.object(), world.object()));
    again.write(UNIT, b"new").expect("write");
    assert_eq!(again.read(0, 10).expect("read"), pattern(0, 10));
    assert!(old.iter().all(|s| s.is_dying()));
    let parent = again.sub(0, 1).parent().and_then(|p| p.top.upgrade()).expect("parent");
    assert!(Arc::ptr_eq(&parent, again.object()));
    drop(world);
    again.assert_idle();
    assert_eq!(again.site.len(), 3, "the old ones have left");
}
