//! Disconnect and eviction.

use super::*;
use LockMode::{Pr, Pw};

#[test]
fn a_disconnect_frees_locks_and_refuses_requests() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), EXACT);
    let (b, _) = w.lock(B, Pw, blocks(4, 5), EXACT);
    w.ask(A, Pw, blocks(4, 5), EXACT);
    w.ask(B, Pw, blocks(0, 1), EXACT);
    w.ask(C, Pw, blocks(4, 5), EXACT);
    let out = w.step(Event::Disconnect { client: A });
    assert_eq!(out[0], refused(A, 3, Errno::ESHUTDOWN)[0]);
    assert!(matches!(grants(&out)[..], [(B, 4, _, false)]));
    assert!(matches!(grants(&w.cancel(B, b))[..], [(C, 5, _, false)]));
    assert!(!w.dlm.covers(A, h, FID, blocks(0, 1)));
    assert_eq!(w.step(Event::Disconnect { client: A }), []);
}

#[test]
fn nobody_gets_a_lock_without_being_connected() {
    let mut w = World::new();
    w.step(Event::Disconnect { client: A });
    assert_eq!(w.ask(A, Pr, blocks(0, 1), PLAIN), refused(A, 1, Errno::ESTALE));
    assert_eq!(w.ask(ClientId(99), Pr, blocks(0, 1), PLAIN), refused(ClientId(99), 2, Errno::ESTALE));
    assert_eq!(w.dlm.counts().resources, 0);
}

#[test]
fn a_client_that_does_not_cancel_in_time_loses_everything() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), EXACT);
    let (other, _) = w.lock(A, Pw, blocks(8, 9), EXACT);
    let (b, _) = w.lock(B, Pr, blocks(4, 5), EXACT);
    w.ask(A, Pw, blocks(4, 5), PLAIN);
    w.cancel(B, b);
    let (third, _) = w.lock(C, Pw, blocks(20, 21), EXACT);
    w.ask(A, Pr, blocks(20, 21), EXACT);
    w.now_ms = 10;
    w.ask(B, Pw, blocks(0, 1), EXACT);
    assert_eq!(w.dlm.next_deadline(), Some(100_000), "C was asked back at 0, A at 10");
    w.cancel(C, third);
    assert_eq!(w.dlm.next_deadline(), Some(100_010));
    assert_eq!(w.tick_at(100_009), []);
    let (c, _) = w.lock(C, Pw, blocks(40, 41), EXACT);
    w.ask(A, Pw, blocks(40, 41), EXACT);
    let out = w.tick_at(100_010);
    let Effect::Evicted { client: A, ref handles } = out[0] else { panic!("{out:?}") };
    assert_eq!(handles.len(), 4);
    assert!(handles.contains(&h) && handles.contains(&other) && handles.is_sorted());
    assert_eq!(out[1], refused(A, 9, Errno::ESTALE)[0]);
    assert!(matches!(grants(&out)[..], [(B, 7, _, false)]));
    assert!(!w.dlm.covers(A, h, FID, blocks(0, 1)) && !w.dlm.covers(A, other, FID, blocks(8, 9)));
    assert!(w.dlm.covers(C, c, FID, blocks(40, 41)));
    w.lock(A, Pw, blocks(60, 61), EXACT);
}

#[test]
fn a_lock_granted_with_a_notice_has_a_deadline_too() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(0, 1), EXACT);
    w.ask(B, Pw, blocks(0, 1), EXACT);
    w.ask(C, Pw, blocks(0, 1), EXACT);
    w.now_ms = 5;
    w.cancel(A, h);
    assert_eq!(w.dlm.next_deadline(), Some(100_005));
    let out = w.tick_at(100_005);
    assert!(matches!(out[0], Effect::Evicted { client: B, .. }));
    assert!(matches!(grants(&out)[..], [(C, 3, _, false)]));
}

#[test]
fn io_under_the_lock_prolongs_it() {
    let mut w = World::new();
    let (handle, _) = w.lock(A, Pw, blocks(0, 1), EXACT);
    w.step(Event::Prolong { client: A, handle });
    assert_eq!(w.dlm.next_deadline(), None);
    w.ask(B, Pw, blocks(0, 1), EXACT);
    w.now_ms = 99_999;
    w.step(Event::Prolong { client: B, handle });
    assert_eq!(w.dlm.next_deadline(), Some(100_000), "not B's lock");
    w.step(Event::Prolong { client: A, handle });
    assert_eq!(w.tick_at(150_000), []);
    assert_eq!(w.dlm.next_deadline(), Some(199_999));
    assert!(matches!(w.tick_at(199_999)[0], Effect::Evicted { client: A, .. }));
}

#[test]
fn timeout_zero_evicts_nobody() {
    let mut w = World::with(DlmConfig { blocking_timeout_ms: 0, ..DlmConfig::default() });
    w.lock(A, Pw, blocks(0, 1), EXACT);
    w.ask(B, Pw, blocks(0, 1), EXACT);
    assert_eq!(w.dlm.next_deadline(), None);
    assert_eq!(w.tick_at(u64::MAX), []);
}

#[test]
fn time_does_not_run_backwards() {
    let mut w = World::new();
    w.lock(A, Pw, blocks(0, 1), EXACT);
    w.tick_at(500);
    w.now_ms = 3;
    w.ask(B, Pw, blocks(0, 1), EXACT);
    assert_eq!(w.dlm.next_deadline(), Some(100_500));
}

#[test]
fn evicting_one_of_two_that_wait_for_each_other_frees_the_other() {
    let mut w = World::new();
    w.lock(A, Pw, blocks(0, 1), EXACT);
    w.lock(B, Pw, blocks(1, 2), EXACT);
    w.ask(A, Pr, blocks(1, 2), EXACT);
    w.now_ms = 1;
    w.ask(B, Pr, blocks(0, 1), EXACT);
    let out = w.tick_at(100_000);
    assert!(matches!(out[0], Effect::Evicted { client: B, .. }), "B was asked first");
    assert!(matches!(grants(&out)[..], [(A, 3, _, false)]));
    assert_eq!(w.dlm.counts().waiting, 0);
}
