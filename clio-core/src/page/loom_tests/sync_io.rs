//! Waiting for transfers that several threads complete.

use super::*;
use loom::cell::UnsafeCell;

/// Memory that a transfer uses and its waiter frees: loom complains of an access that isn't ordered before that.
struct Memory(UnsafeCell<()>);

// SAFETY: loom checks that accesses don't race.
#[expect(unsafe_code, reason = "the cell is loom's, which checks its use")]
unsafe impl Sync for Memory {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the cell is loom's, which checks its use")]
unsafe impl Send for Memory {}

/// Once the wait is over the memory is the waiter's, and every completion has been heard of: the first error counts.
#[test]
fn loom_two_completions_and_a_waiter() {
    for fails in [false, true] {
        model(move || {
            let sync = SyncIo::new();
            sync.expect(3);
            let memory = Arc::new(Memory(UnsafeCell::new(())));
            let target = |n: usize, result: Result<()>| {
                let (sync, memory) = (sync.clone(), memory.clone());
                thread::spawn(move || {
                    memory.0.with(|_| ());
                    sync.note(n, &result);
                })
            };
            let failed = || Err(Error::new(Errno::EIO, "read", "model"));
            let targets = [target(1, Ok(())), target(2, if fails { failed() } else { Ok(()) })];
            assert_eq!(sync.wait().is_err(), fails);
            memory.0.with_mut(|_| ());
            targets.into_iter().for_each(|t| t.join().expect("target"));
        });
    }
}

/// Blocks of one page end in two transfers, and the waiter drops everything as soon as it is told: neither completion
/// uses what it has dropped.
#[test]
fn loom_the_waiter_goes_at_once() {
    model(|| {
        let world = world(2, 4);
        let page = world.page(0);
        let sync = SyncIo::new();
        let moved = page.own(io(1)).expect("page").prep(&env(), Rw::Read, page.all_blocks()).expect("prep");
        page.notify(moved, &sync);
        let target = |b: usize| {
            let page = page.clone();
            thread::spawn(move || answer_read(&page, block(b), 7))
        };
        let targets = [target(0), target(1)];
        assert!(sync.wait().is_ok());
        assert_eq!((content(&page, 0), content(&page, 1)), (Some(7), Some(7)), "told before it is there");
        assert!(page.evict(&env()), "told before the blocks were released");
        drop((sync, page));
        targets.into_iter().for_each(|t| t.join().expect("target"));
        assert_eq!((world.object.slab().folios(), world.memory.used()), (0, 0));
    });
}
