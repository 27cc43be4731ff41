//! Grants, the queue, blocking ASTs, handles, the life of a resource.

use super::*;
use LockMode::{Ex, Group, Pr, Pw};

#[test]
fn two_locks_share_an_extent_exactly_if_their_modes_are_compatible() {
    for (first, second, both) in [
        (Pr, Pr, true),
        (Pr, Pw, false),
        (Pw, Pr, false),
        (Pw, Pw, false),
        (Pr, Ex, false),
        (Ex, Ex, false),
        (Group(1), Group(1), true),
        (Group(1), Group(2), false),
        (Group(1), Pr, false),
        (Ex, Group(1), false),
    ] {
        for holder in [A, B] {
            let mut w = World::new();
            w.lock(A, first, blocks(0, 2), EXACT);
            let out = w.ask(holder, second, blocks(1, 3), EXACT);
            assert_eq!(grants(&out).len() == 1, both, "{first:?} {second:?}: {out:?}");
            // Neighbours never conflict.
            w.lock(holder, second, blocks(3, 4), EXACT);
        }
    }
}

#[test]
fn a_conflicting_request_waits_and_the_holder_is_asked_back_once() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
    assert_eq!(w.ask(B, Pr, blocks(0, 1), PLAIN), [asked_back(A, h)]);
    assert_eq!(w.ask(C, Pr, blocks(5, 6), PLAIN), []);
    assert_eq!(w.dlm.counts(), Counts { clients: 3, resources: 1, granted: 1, waiting: 2, glimpses: 0 });
    let out = w.cancel(A, h);
    assert_eq!(grants(&out).iter().map(|g| (g.0, g.1, g.3)).collect::<Vec<_>>(), [(B, 2, false), (C, 3, false)]);
}

#[test]
fn a_waiting_writer_is_not_starved_by_readers() {
    let mut w = World::new();
    let (r, _) = w.lock(A, Pr, Extent::WHOLE, PLAIN);
    assert_eq!(w.ask(B, Pw, Extent::WHOLE, PLAIN), [asked_back(A, r)]);
    assert_eq!(w.ask(C, Pr, Extent::WHOLE, PLAIN), [], "would fit beside the reader, but the writer was first");
    let out = w.cancel(A, r);
    let [(B, 2, writer, true)] = grants(&out)[..] else { panic!("{out:?}") };
    let out = w.cancel(B, writer);
    assert!(matches!(grants(&out)[..], [(C, 3, _, false)]));
}

#[test]
fn requests_that_do_not_conflict_pass_each_other() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 4), EXACT);
    assert_eq!(w.ask(B, Pw, blocks(0, 4), EXACT), [asked_back(A, h)]);
    w.lock(C, Pw, blocks(4, 8), EXACT);
}

#[test]
fn a_lock_granted_while_others_wait_for_it_says_so_and_gets_no_ast() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
    w.ask(B, Pw, blocks(0, 1), PLAIN);
    w.ask(C, Pw, blocks(0, 1), PLAIN);
    let out = w.cancel(A, h);
    let [Effect::Granted { client: B, handle, blocking: true, extent, .. }] = out[..] else { panic!("{out:?}") };
    assert_eq!(extent, blocks(0, 1), "not widened: it is wanted back");
    assert_eq!(w.ask(A, Pr, blocks(0, 1), PLAIN), [], "no second notice");
    assert!(w.dlm.locks(FID).any(|l| l.handle == Some(handle) && l.blocking));
}

#[test]
fn a_try_lock_that_meets_a_conflict_is_refused_and_disturbs_nobody() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), EXACT);
    assert_eq!(w.ask(B, Pr, blocks(0, 1), TRY), refused(B, 2, Errno::EAGAIN));
    w.ask(B, Pw, blocks(0, 2), PLAIN);
    assert_eq!(w.ask(C, Pr, blocks(1, 2), TRY), refused(C, 4, Errno::EAGAIN), "a waiting conflict counts");
    w.lock(C, Pr, blocks(2, 3), TRY);
    assert!(!grants(&w.cancel(A, h)).is_empty());
}

#[test]
fn cancel_is_idempotent_and_only_the_holders() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
    assert_eq!(w.cancel(B, h), []);
    assert_eq!(w.dlm.counts().granted, 1);
    assert_eq!(w.cancel(A, h), []);
    assert_eq!(w.dlm.counts(), Counts { clients: 3, ..Counts::default() });
    assert_eq!(w.cancel(A, h), []);
    assert_eq!(w.cancel(A, DlmHandle(u64::MAX)), []);
}

#[test]
fn handles_are_never_used_again() {
    let mut w = World::new();
    let mut last = DlmHandle(0);
    for _ in 0..100 {
        let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
        assert!(h > last);
        last = h;
        w.cancel(A, h);
    }
}

#[test]
fn extents_are_aligned_outwards_and_empty_ones_refused() {
    let mut w = World::new();
    let (h, e) = w.lock(A, Pw, Extent::new(5000, 5001), EXACT);
    assert_eq!(e, blocks(1, 2));
    assert!(w.dlm.covers(A, h, FID, Extent::new(4096, 8192)));
    assert_eq!(w.ask(A, Pw, Extent::new(9, 9), PLAIN), refused(A, 2, Errno::EINVAL));
    assert_eq!(w.ask(A, Pw, Extent { start: 9, end: 3 }, PLAIN), refused(A, 3, Errno::EINVAL));
    let (_, e) = w.lock(A, Pw, Extent::new(u64::MAX - 5, u64::MAX - 1), EXACT);
    assert_eq!(e.end, Extent::EOF);
}

#[test]
fn covers_knows_holder_object_mode_and_extent() {
    let mut w = World::new();
    let (p, _) = w.lock(A, Pw, blocks(0, 2), EXACT);
    let (r, _) = w.lock(A, Pr, blocks(2, 4), EXACT);
    assert!(w.dlm.covers(A, p, FID, Extent::new(1, 8192)));
    assert!(!w.dlm.covers(A, p, FID, Extent::new(1, 8193)));
    assert!(!w.dlm.covers(B, p, FID, blocks(0, 1)));
    assert!(!w.dlm.covers(A, p, Fid::new(7, 2), blocks(0, 1)));
    assert!(!w.dlm.covers(A, r, FID, blocks(2, 3)), "a read lock covers no write");
    w.cancel(A, p);
    assert!(!w.dlm.covers(A, p, FID, blocks(0, 1)));
}

#[test]
fn attributes_live_as_long_as_the_resource_and_grow_but_for_truncate() {
    let mut w = World::new();
    assert!(!w.dlm.lvb_known(FID));
    w.step(Event::LvbUpdate { fid: FID, lvb: sized(5), truncate: true });
    assert!(!w.dlm.lvb_known(FID), "an update alone makes no resource");
    let (h, _) = w.lock(A, Pr, Extent::WHOLE, PLAIN);
    assert_eq!(w.dlm.lvb(FID), Some(sized(100)));
    w.step(Event::LvbUpdate { fid: FID, lvb: sized(300), truncate: false });
    w.step(Event::LvbUpdate { fid: FID, lvb: sized(200), truncate: false });
    assert_eq!(w.dlm.lvb(FID), Some(sized(300)));
    w.step(Event::LvbUpdate { fid: FID, lvb: sized(50), truncate: true });
    let out = w.ask(B, Pr, Extent::WHOLE, PLAIN);
    let [Effect::Granted { lvb, handle, .. }] = out[..] else { panic!("{out:?}") };
    assert_eq!(lvb, sized(50), "what is known here counts, not what the enqueue brought");
    w.cancel(A, h);
    assert!(w.dlm.lvb_known(FID));
    w.cancel(B, handle);
    assert!(!w.dlm.lvb_known(FID) && w.dlm.lvb(FID).is_none() && w.dlm.locks(FID).next().is_none());
}

#[test]
fn resources_do_not_meet() {
    let mut w = World::new();
    w.lock(A, Ex, Extent::WHOLE, PLAIN);
    let other = Fid::new(7, 2);
    let out = w.step(Event::Enqueue {
        client: B,
        request: 9,
        fid: other,
        extent: Extent::WHOLE,
        mode: Ex,
        flags: PLAIN,
        initial_lvb: None,
    });
    assert!(matches!(out[..], [Effect::Granted { lvb, .. }] if lvb == Lvb::default()));
    assert_eq!(w.dlm.counts().resources, 2);
}
