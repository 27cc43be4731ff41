//! Glimpses.

use super::*;
use LockMode::{Group, Pr, Pw};

fn reply(w: &mut World, client: ClientId, handle: DlmHandle, glimpse: u64, size: u64) -> Vec<Effect> {
    w.step(Event::GlimpseReply { client, handle, glimpse, lvb: Some(sized(size)) })
}

/// The question in `effects`, which must be the only effect.
fn question(effects: &[Effect]) -> (ClientId, DlmHandle, u64) {
    match *effects {
        [Effect::GlimpseAst { client, handle, glimpse }] => (client, handle, glimpse),
        ref other => panic!("{other:?}"),
    }
}

fn answer(client: ClientId, request: u64, size: u64) -> Vec<Effect> {
    vec![Effect::GlimpseAnswer { client, request, lvb: sized(size) }]
}

#[test]
fn without_conflict_it_is_a_read_lock() {
    let mut w = World::new();
    w.lock(A, Pr, Extent::WHOLE, PLAIN);
    let (_, e) = w.lock(B, Pr, Extent::WHOLE, GLIMPSE);
    assert_eq!(e, Extent::WHOLE);
}

#[test]
fn it_never_grants_more_than_reading() {
    let mut w = World::new();
    let out = w.ask(A, Pw, Extent::WHOLE, GLIMPSE);
    assert!(matches!(out[..], [Effect::Granted { mode: Pr, .. }]), "{out:?}");
}

#[test]
fn a_writer_is_asked_and_keeps_its_lock() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
    let out = w.ask(B, Pr, Extent::WHOLE, GLIMPSE);
    let (A, h2, id) = question(&out) else { panic!("{out:?}") };
    assert_eq!(h, h2);
    assert_eq!(w.dlm.counts().glimpses, 1);
    assert_eq!(reply(&mut w, B, h, id, 1), [], "only the holder's reply counts");
    assert_eq!(reply(&mut w, A, h, id + 1, 1), [], "and only to the question");
    assert_eq!(reply(&mut w, A, h, id, 9000), answer(B, 2, 9000));
    assert_eq!(reply(&mut w, A, h, id, 9999), [], "and only once");
    assert_eq!(w.dlm.lvb(FID), Some(sized(100)), "the stored object hasn't changed");
    let l = w.dlm.locks(FID).next().unwrap();
    assert!(l.handle == Some(h) && !l.blocking);
}

#[test]
fn a_reply_without_attributes_means_none_better() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
    let out = w.ask(B, Pr, Extent::WHOLE, GLIMPSE);
    let (_, _, glimpse) = question(&out);
    w.step(Event::LvbUpdate { fid: FID, lvb: sized(700), truncate: false });
    assert_eq!(w.step(Event::GlimpseReply { client: A, handle: h, glimpse, lvb: None }), answer(B, 2, 700));
}

#[test]
fn the_highest_writer_is_asked_first_and_lower_ones_while_they_may_know_more() {
    let mut w = World::new();
    let (low, _) = w.lock(A, Pw, blocks(0, 4), EXACT);
    let (high, _) = w.lock(B, Pw, blocks(4, 8), EXACT);
    let out = w.ask(C, Pr, Extent::WHOLE, GLIMPSE);
    let (_, h, id) = question(&out);
    assert_eq!(h, high);
    // B hasn't written under its lock yet: A's may be the size.
    let (_, h, id2) = question(&reply(&mut w, B, high, id, 0));
    assert_eq!((h, id2), (low, id));
    assert_eq!(reply(&mut w, A, low, id, 9000), answer(C, 3, 9000));

    let out = w.ask(C, Pr, Extent::WHOLE, GLIMPSE);
    let (_, _, id) = question(&out);
    assert_eq!(reply(&mut w, B, high, id, 4 * BLOCK_SIZE), answer(C, 4, 4 * BLOCK_SIZE), "A can't know more");
}

#[test]
fn all_members_of_a_group_are_asked_at_once() {
    let mut w = World::new();
    let (a, _) = w.lock(A, Group(1), Extent::WHOLE, PLAIN);
    let (b, _) = w.lock(B, Group(1), blocks(2, 3), EXACT);
    let out = w.ask(C, Pr, Extent::WHOLE, GLIMPSE);
    let [Effect::GlimpseAst { handle: x, glimpse: g, .. }, Effect::GlimpseAst { handle: y, .. }] = out[..] else {
        panic!("{out:?}")
    };
    assert_eq!((x, y), (a, b));
    assert_eq!(reply(&mut w, B, b, g, 9000), []);
    assert_eq!(reply(&mut w, A, a, g, 8000), answer(C, 3, 9000));
}

#[test]
fn a_request_that_only_waits_is_not_asked() {
    let mut w = World::new();
    w.lock(A, Pr, Extent::WHOLE, PLAIN);
    w.ask(B, Pw, Extent::WHOLE, PLAIN);
    assert_eq!(w.ask(C, Pr, Extent::WHOLE, GLIMPSE), answer(C, 3, 100));
}

#[test]
fn a_cancel_or_disconnect_stands_for_the_reply() {
    for leave in [false, true] {
        let mut w = World::new();
        let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
        w.ask(B, Pr, Extent::WHOLE, GLIMPSE);
        w.step(Event::LvbUpdate { fid: FID, lvb: sized(5000), truncate: false });
        let event = if leave { Event::Disconnect { client: A } } else { Event::Cancel { client: A, handle: h } };
        assert_eq!(w.step(event), answer(B, 2, 5000));
        assert_eq!((w.dlm.counts().resources, w.dlm.next_deadline()), (0, None));
    }
}

#[test]
fn a_silent_holder_is_not_waited_for() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), PLAIN);
    w.ask(B, Pr, Extent::WHOLE, GLIMPSE);
    assert_eq!(w.dlm.next_deadline(), Some(10_000));
    assert_eq!(w.tick_at(9_999), []);
    assert_eq!(w.tick_at(10_000), answer(B, 2, 100));
    assert!(w.dlm.covers(A, h, FID, blocks(0, 1)), "nor evicted");
}

#[test]
fn when_the_highest_writer_is_silent_the_others_are_still_asked() {
    let mut w = World::new();
    let (low, _) = w.lock(A, Pw, blocks(0, 4), EXACT);
    let (mid, _) = w.lock(A, Pw, blocks(4, 6), EXACT);
    w.lock(B, Pw, blocks(6, 8), EXACT);
    let out = w.ask(C, Pr, Extent::WHOLE, GLIMPSE);
    let (_, _, id) = question(&out);
    let out = w.tick_at(10_000);
    let asked = |handle| Effect::GlimpseAst { client: A, handle, glimpse: id };
    assert_eq!(out, [asked(low), asked(mid)]);
    reply(&mut w, A, low, id, 9000);
    reply(&mut w, A, mid, id, 17_000);
    assert_eq!(w.tick_at(20_000), answer(C, 4, 17_000), "B had its time twice");
}

#[test]
fn each_holder_has_the_full_time() {
    let mut w = World::new();
    let (low, _) = w.lock(A, Pw, blocks(0, 4), EXACT);
    let (high, _) = w.lock(B, Pw, blocks(6, 8), EXACT);
    let out = w.ask(C, Pr, Extent::WHOLE, GLIMPSE);
    let (_, _, id) = question(&out);
    w.now_ms = 9_000;
    assert_eq!(question(&reply(&mut w, B, high, id, 0)).1, low);
    assert_eq!(w.tick_at(10_000), []);
    assert_eq!(reply(&mut w, A, low, id, 9_000), answer(C, 3, 9_000));
}

#[test]
fn locks_granted_after_it_began_are_not_asked() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), EXACT);
    let out = w.ask(B, Pr, Extent::WHOLE, GLIMPSE);
    let (_, _, id) = question(&out);
    w.lock(C, Pw, blocks(8, 9), EXACT);
    assert_eq!(reply(&mut w, A, h, id, 7), answer(B, 2, 100));
}

#[test]
fn whoever_asked_may_go() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), EXACT);
    let out = w.ask(B, Pr, Extent::WHOLE, GLIMPSE);
    let (_, _, id) = question(&out);
    assert_eq!(w.step(Event::Disconnect { client: B }), refused(B, 2, Errno::ESHUTDOWN));
    assert_eq!(reply(&mut w, A, h, id, 7), []);
    assert_eq!((w.dlm.counts().glimpses, w.dlm.next_deadline()), (0, None));
}
