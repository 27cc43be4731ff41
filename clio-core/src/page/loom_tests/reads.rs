//! Reads without a mutex against those who change the page, and against the recycling of its cell and memory.

use super::*;

/// A reader sees the bytes before a write, or those after, or finds out that it saw neither.
#[test]
fn loom_a_read_meets_a_write() {
    model(|| {
        let world = world(1, 1);
        let page = world.cached(0, 1);
        let writer = thread::spawn(move || write(&page, 0, 2));
        let (first, second) = (fast_value(&world.object, 0), fast_value(&world.object, 0));
        for seen in [first, second] {
            assert!(matches!(seen, None | Some(1 | 2)), "{seen:?}");
        }
        assert_ne!((first, second), (Some(2), Some(1)), "the write went away again");
        writer.join().expect("writer");
        assert_eq!(fast_value(&world.object, 0), Some(2));
    });
}

/// The memory of a folio moves, since more blocks need some: a reader doesn't take what comes to lie in the old place.
#[test]
fn loom_a_read_meets_a_move() {
    model(|| {
        // One block, then four, then the one again.
        let world = world(2, 5);
        let page = world.cached(0, 1);
        let other = world.page(1);
        let mover = thread::spawn(move || {
            assert!(page.own_idle(io(1), page.all_blocks()).expect("page").attach(page.all_blocks()));
            // In the place that was left.
            write(&other, 0, 2);
        });
        let seen = fast_value(&world.object, 0);
        assert!(matches!(seen, None | Some(1)), "another page's bytes: {seen:?}");
        mover.join().expect("mover");
        assert_eq!((fast_value(&world.object, 0), fast_value(&world.object, 2 * BLOCK)), (Some(1), Some(2)));
    });
}

/// A page is evicted; another gets its cell and its memory.
#[test]
fn loom_a_read_meets_the_recycling_of_its_cell() {
    model(|| {
        let world = world(1, 1);
        let page = world.cached(0, 1);
        let cell = page.cell_id();
        let object = world.object();
        let evictor = thread::spawn(move || {
            assert!(page.evict(&env()));
            drop(page);
            let again = find(&object, 1);
            write(&again, 0, 2);
            again.cell_id()
        });
        let seen = fast_value(&world.object, 0);
        assert!(matches!(seen, None | Some(1)), "another page's bytes: {seen:?}");
        let again = evictor.join().expect("evictor");
        assert!(again.index == cell.index && again.generation != cell.generation);
        assert_eq!((fast_value(&world.object, 0), fast_value(&world.object, BLOCK)), (None, Some(2)));
    });
}

/// A page's content is dropped; another page, whose own cell nobody touches, gets its memory from a third thread.
#[test]
fn loom_a_read_meets_the_recycling_of_its_memory() {
    model(|| {
        let world = world(1, 1);
        let (page, other) = (world.cached(0, 1), world.page(1));
        let discarder = {
            let page = page.clone();
            thread::spawn(move || page.discard(&env(), page.all_blocks()))
        };
        let writer = thread::spawn(move || {
            let owned = other.own(io(1)).expect("page");
            // As long as there is none, it isn't given back yet.
            owned.write(0, &[2; BLOCK], 0).is_ok()
        });
        let seen = fast_value(&world.object, 0);
        assert!(matches!(seen, None | Some(1)), "another page's bytes: {seen:?}");
        discarder.join().expect("discarder");
        let written = writer.join().expect("writer");
        assert_eq!(fast_value(&world.object, 0), None);
        assert_eq!(fast_value(&world.object, BLOCK), written.then_some(2));
    });
}

/// What is invalidated is not read any more once that is over.
#[test]
fn loom_a_read_meets_a_discard() {
    model(|| {
        let world = world(1, 1);
        let page = world.cached(0, 1);
        let object = world.object();
        let discarder = thread::spawn(move || {
            page.discard(&env(), page.all_blocks());
            assert_eq!(fast_value(&object, 0), None, "read after its invalidation");
            // Filled anew, under the next lock.
            let moved = page.own(io(1)).expect("page").prep(&env(), Rw::Read, block(0)).expect("prep");
            answer_read(&page, moved, 3);
        });
        let (first, second) = (fast_value(&world.object, 0), fast_value(&world.object, 0));
        for seen in [first, second] {
            assert!(matches!(seen, None | Some(1 | 3)), "never valid: {seen:?}");
        }
        assert_ne!((first, second), (Some(3), Some(1)), "the old content came back");
        discarder.join().expect("discarder");
    });
}
