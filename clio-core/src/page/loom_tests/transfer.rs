//! Ownership against the completion of transfers.

use super::*;

/// A page is written again while it is written out: what is in flight stays as it is, and nothing is lost.
#[test]
fn loom_a_write_meets_a_write_out() {
    model(|| {
        let world = world(1, 1);
        let page = world.written(0, 1);
        let flusher = {
            let page = page.clone();
            thread::spawn(move || write_out(&page))
        };
        let owned = page.own_idle(io(1), block(0)).expect("the page lives");
        assert_eq!((page.state(0), page.valid()), (PageState::Owned, block(0)));
        owned.write(0, &[2; BLOCK], 0).expect("write");
        assert_eq!(page.dirty(), block(0));
        drop(owned);
        let first = flusher.join().expect("flusher");
        // Written out before or after the write, or both.
        let last = write_out(&page).or(first);
        assert_eq!((last, content(&page, 0)), (Some(2), Some(2)), "the write is lost");
        assert!(page.dirty().or(page.in_flight()).is_empty());
    });
}

/// Two flushers and a writer: each byte goes out, once in flight at a time.
#[test]
fn loom_two_write_outs_meet_a_write() {
    model(|| {
        let world = world(1, 1);
        let page = world.written(0, 1);
        let flusher = || {
            let page = page.clone();
            thread::spawn(move || write_out(&page))
        };
        let flushers = [flusher(), flusher()];
        write(&page, 0, 2);
        let sent = flushers.map(|f| f.join().expect("flusher"));
        let last = write_out(&page);
        assert!(last == Some(2) || sent.contains(&Some(2)), "the write is lost: {sent:?} {last:?}");
        assert!(page.dirty().or(page.in_flight()).is_empty());
    });
}

/// One block is written while another of the same folio is read from the target.
#[test]
fn loom_a_write_beside_a_read() {
    model(|| {
        let world = world(2, 4);
        let page = world.page(0);
        let owned = page.own(io(1)).expect("the page lives");
        assert!(owned.attach(page.all_blocks()));
        let moved = owned.prep(&env(), Rw::Read, block(0)).expect("prep");
        assert_eq!((moved, page.state(0), page.state(1)), (block(0), PageState::PageIn, PageState::Owned));
        drop(owned);
        let target = {
            let page = page.clone();
            thread::spawn(move || answer_read(&page, moved, 7))
        };
        write(&page, 1, 2);
        page.wait_idle(page.all_blocks());
        target.join().expect("target");
        assert_eq!((page.valid(), page.dirty()), (page.all_blocks(), block(1)));
        assert_eq!((content(&page, 0), content(&page, 1)), (Some(7), Some(2)));
    });
}

/// Whoever owns a page once its read is over finds what was read, or nothing if it failed.
#[test]
fn loom_an_owner_waits_for_a_read() {
    for fails in [false, true] {
        model(move || {
            let world = world(1, 1);
            let page = world.page(0);
            let moved = page.own(io(1)).expect("page").prep(&env(), Rw::Read, block(0)).expect("prep");
            let target = {
                let page = page.clone();
                thread::spawn(move || match fails {
                    false => answer_read(&page, moved, 7),
                    true => page.completion(&env(), Rw::Read, moved, &Err(Error::new(Errno::EIO, "read", "model"))),
                })
            };
            let other = {
                let page = page.clone();
                thread::spawn(move || drop(page.own_idle(io(3), block(0))))
            };
            let owned = page.own_idle(io(2), block(0)).expect("the page lives");
            assert_eq!(page.state(0), PageState::Owned);
            assert_eq!(content(&page, 0), (!fails).then_some(7));
            assert_eq!(world.memory.used() == 0, fails, "memory of a failed read is given back");
            drop(owned);
            target.join().expect("target");
            other.join().expect("other");
        });
    }
}

/// A transfer that fails before its submitter has left the page: the one who watched it hears of the error.
#[test]
fn loom_a_watched_transfer_ends_early() {
    model(|| {
        let world = world(1, 1);
        let page = world.page(0);
        let sync = SyncIo::new();
        let owned = page.own(io(1)).expect("page");
        owned.watch(block(0), &sync);
        let moved = owned.prep(&env(), Rw::Read, block(0)).expect("prep");
        let target = {
            let page = page.clone();
            let failed = Err(Error::new(Errno::EIO, "read", "model"));
            thread::spawn(move || page.completion(&env(), Rw::Read, moved, &failed))
        };
        drop(owned);
        assert_eq!(sync.wait().map_err(|e| e.errno()), Err(Errno::EIO));
        assert!(page.in_flight().is_empty(), "told before the blocks were released");
        target.join().expect("target");
    });
}
