//! The page index: look-ups, with and without a mutex, against insertion and removal.

use super::*;

fn peek(object: &Object, index: u64) -> Option<CellId> {
    object.pages().peek(PageIndex(index))
}

/// Two look for the same page and don't find it: there is one in the end, and both have it.
#[test]
fn loom_two_make_the_same_page() {
    model(|| {
        let world = world(1, 1);
        let object = world.object();
        let other = thread::spawn(move || find(&object, 0));
        let (here, there) = (world.page(0), other.join().expect("other"));
        assert!(Arc::ptr_eq(&here, &there));
        assert_eq!(peek(&world.object, 0), Some(here.cell_id()));
        assert_eq!((world.object.pages().len(), world.object.slab().folios()), (1, 1));
    });
}

/// A page is deleted while it is looked for: nobody is given it afterwards, and a new one in its place stays.
#[test]
fn loom_a_look_up_meets_a_removal() {
    model(|| {
        let world = world(1, 1);
        let page = world.cached(0, 1);
        let object = world.object();
        let finder = thread::spawn(move || find(&object, 0));
        assert!(page.evict(&env()));
        let after = world.page(0);
        assert!(!Arc::ptr_eq(&page, &after) && !after.is_dying(), "found after its removal");
        let found = finder.join().expect("finder");
        assert!(Arc::ptr_eq(&found, &page) || Arc::ptr_eq(&found, &after));
        // The late removal of the old page takes nothing of the new one.
        drop((page, found));
        assert_eq!(peek(&world.object, 0), Some(after.cell_id()));
        assert_eq!((world.object.pages().len(), world.object.slab().folios()), (1, 1));
    });
}

/// An inserted page is found without the mutex while the tree grows around it, twice; so is one that was inserted before
/// a signal.
#[test]
fn loom_a_look_up_meets_growth() {
    model(|| {
        let world = world(1, 1);
        let first = world.page(1);
        let object = world.object();
        let maker = thread::spawn(move || (find(&object, 70), find(&object, 5000)));
        for _ in 0..2 {
            assert_eq!(peek(&world.object, 1), Some(first.cell_id()), "not found while it is there");
        }
        let seen = (peek(&world.object, 70), peek(&world.object, 5000));
        let (a, b) = maker.join().expect("maker");
        assert!(seen.0.is_none_or(|id| id == a.cell_id()) && seen.1.is_none_or(|id| id == b.cell_id()));
        assert_eq!((peek(&world.object, 70), peek(&world.object, 5000)), (Some(a.cell_id()), Some(b.cell_id())));
        assert_eq!((peek(&world.object, 6), peek(&world.object, 1 << 40)), (None, None));
    });
}

/// The cell that a look-up without the mutex finds is alive as far as it can know: what was made before the page was
/// put in can be seen.
#[test]
fn loom_a_look_up_finds_what_was_made() {
    model(|| {
        let world = world(1, 1);
        let object = world.object();
        let maker = thread::spawn(move || find(&object, 1).cell_id());
        if let Some(id) = peek(&world.object, 1) {
            assert_eq!(world.object.slab().cell(id.index).generation(), id.generation, "a cell before its life");
        }
        let made = maker.join().expect("maker");
        assert_eq!(peek(&world.object, 1), Some(made));
    });
}

/// A stripe is swept for a lost lock while a page of it is made, from the file: the page goes whole, or stays whole.
#[test]
fn loom_a_sweep_meets_the_making_of_a_page() {
    model(|| {
        let (world, stripe) = striped_world();
        let sweeper = {
            let stripe = stripe.clone();
            thread::spawn(move || {
                for page in stripe.pages().range(0..u64::MAX, 8) {
                    page.discard(&env(), page.all_blocks());
                    page.delete_if_unused(&env());
                }
            })
        };
        let page = world.page(0);
        sweeper.join().expect("sweeper");
        let child = page.child().expect("a sub-page");
        assert_eq!(page.is_dying(), child.is_dying(), "half a page");
        let live = usize::from(!page.is_dying());
        assert_eq!((world.object.pages().len(), stripe.pages().len()), (live, live));
        assert_eq!(peek(&world.object, 0).is_some(), live == 1);
        drop(page);
        assert_eq!(world.object.slab().folios(), live);
    });
}
