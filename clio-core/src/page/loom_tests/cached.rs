//! Writes through a window against those who close it.

use super::*;

fn put(object: &Object, offset: usize, value: u8) -> bool {
    fast_write(object, offset as u64, &[value; BLOCK], 1).is_ok()
}

/// A cached write against write-out: it is in what goes out, or dirty for the next time, or refused.
#[test]
fn loom_a_cached_write_meets_a_write_out() {
    model(|| {
        let world = world(1, 1);
        let page = world.written(0, 1);
        page.open_window(block(0));
        let flusher = {
            let page = page.clone();
            thread::spawn(move || write_out(&page))
        };
        let done = put(&world.object, 0, 2);
        let sent = flusher.join().expect("flusher");
        // The window is closed by the write-out.
        assert!(!put(&world.object, 0, 3));
        let last = write_out(&page).or(sent);
        assert_eq!(last, Some(if done { 2 } else { 1 }));
    });
}

/// A cached write that has looked its cell up before it became another page's.
#[test]
fn loom_a_cached_write_meets_the_recycling_of_its_cell() {
    model(|| {
        let world = world(1, 1);
        let page = world.cached(0, 1);
        page.open_window(block(0));
        let object = world.object();
        let evictor = thread::spawn(move || {
            page.shut_window(&env(), page.all_blocks());
            if !page.evict(&env()) {
                // Written meanwhile.
                assert_eq!(write_out(&page), Some(2));
                assert!(page.evict(&env()));
            }
            drop(page);
            let again = find(&object, 1);
            write(&again, 0, 5);
            again.open_window(block(0));
        });
        put(&world.object, 0, 2);
        evictor.join().expect("evictor");
        assert_eq!(fast_value(&world.object, BLOCK), Some(5), "written over by another page's write");
        assert_eq!(world.object.pages().len(), 1);
    });
}

/// While a bar lives, no cached write reaches its blocks, whoever opens a window.
#[test]
fn loom_a_bar_keeps_cached_writes_out() {
    model(|| {
        let world = world(2, 5);
        let page = world.cached(0, 1);
        assert!(page.own(io(1)).expect("page").attach(page.all_blocks()));
        page.open_window(block(0));
        let (object, opened) = (world.object(), page.clone());
        let writer = thread::spawn(move || {
            opened.open_window(opened.all_blocks());
            (put(&object, 0, 2), put(&object, BLOCK, 4))
        });
        let bar = WindowBar::new(&env(), &page, block(0)).expect("the page lives");
        let before = (content(&page, 0), page.dirty().contains(0));
        assert_eq!((content(&page, 0), page.dirty().contains(0)), before, "written behind the bar");
        assert!(!page.evict(&env()) && !page.is_dying());
        drop(bar);
        let (behind, beside) = writer.join().expect("writer");
        assert!(beside, "the bar is for one block only");
        assert_eq!(content(&page, 0), Some(if behind { 2 } else { 1 }));
    });
}
