//! Owners against each other, and against whoever wants the page gone.

use super::*;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// Two owners and a flusher that waits for them: one at a time, and each gets there.
#[test]
fn loom_one_owner_at_a_time() {
    model(|| {
        let world = world(1, 1);
        let page = world.written(0, 1);
        let inside = Arc::new(AtomicUsize::new(0));
        let owner = |n| {
            let (page, inside) = (page.clone(), inside.clone());
            thread::spawn(move || {
                let owned = page.own(io(n)).expect("the page lives");
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two owners");
                assert!(page.try_own(io(9)).is_none());
                inside.fetch_sub(1, SeqCst);
                drop(owned);
            })
        };
        let owners = [owner(1), owner(2)];
        let (moved, _) = page.make_ready(&env(), page.all_blocks(), true);
        assert_eq!(moved, block(0));
        page.completion(&env(), Rw::Write, moved, &Ok(()));
        owners.into_iter().for_each(|o| o.join().expect("owner"));
        assert!(page.try_own(io(9)).is_some());
    });
}

/// An invalidation waits for the owner, and for a read that is on its way: what they leave is dropped.
#[test]
fn loom_a_discard_meets_an_owner_and_a_read() {
    model(|| {
        let world = world(2, 5);
        let page = world.written(0, 1);
        let moved = {
            let owned = page.own(io(1)).expect("page");
            assert!(owned.attach(page.all_blocks()));
            owned.prep(&env(), Rw::Read, block(1)).expect("prep")
        };
        let target = {
            let page = page.clone();
            thread::spawn(move || answer_read(&page, moved, 7))
        };
        let owner = {
            let page = page.clone();
            thread::spawn(move || {
                let owned = page.own(io(2)).expect("the page lives");
                let before = page.valid();
                // Another look, with everybody else in between.
                let lost = before.minus(page.valid());
                drop(owned);
                assert!(lost.is_empty(), "invalidated under its owner");
            })
        };
        page.discard(&env(), page.all_blocks());
        assert!(page.valid().or(page.dirty()).or(page.in_flight()).is_empty());
        assert_eq!((content(&page, 0), fast_value(&world.object, 0)), (None, None));
        target.join().expect("target");
        owner.join().expect("owner");
        assert_eq!(world.memory.used(), 0);
    });
}

/// A page is deleted while one wants to own it and a transfer ends: it is owned before, or never again; nobody waits
/// for ever, and its memory comes back with its cell.
#[test]
fn loom_a_delete_meets_an_owner_and_a_completion() {
    model(|| {
        let world = world(1, 1);
        let page = world.page(0);
        let moved = page.own(io(1)).expect("page").prep(&env(), Rw::Read, block(0)).expect("prep");
        let target = {
            let page = page.clone();
            thread::spawn(move || answer_read(&page, moved, 7))
        };
        let owner = {
            let page = page.clone();
            thread::spawn(move || match page.own_idle(io(2), block(0)) {
                Some(owned) => {
                    assert_eq!((page.state(0), content(&page, 0)), (PageState::Owned, Some(7)));
                    owned.write(0, &[2; BLOCK], 0).expect("write");
                    assert_eq!(content(&page, 0), Some(2));
                }
                None => assert!(page.valid().is_empty()),
            })
        };
        page.delete(&env());
        assert!(page.own(io(3)).is_none() && page.is_dying() && world.object.pages().get(PageIndex(0)).is_none());
        target.join().expect("target");
        owner.join().expect("owner");
        drop(page);
        assert_eq!((world.object.slab().folios(), world.memory.used()), (0, 0));
    });
}

/// Two evictions, one of them with the last reference: the page goes once.
#[test]
fn loom_a_page_goes_once() {
    model(|| {
        let world = world(1, 1);
        let page = world.cached(0, 1);
        let other = {
            let page = page.clone();
            thread::spawn(move || page.evict(&env()))
        };
        let here = page.evict(&env());
        drop(page);
        let there = other.join().expect("other");
        assert!(here ^ there, "evicted {}", if here { "twice" } else { "by nobody" });
        assert!(world.object.pages().is_empty());
        assert_eq!((world.object.slab().folios(), world.memory.used()), (0, 0));
    });
}
