//! What follows from a fight over a resource.

use super::*;
use LockMode::{Group, Pr, Pw};

fn config() -> DlmConfig {
    DlmConfig {
        contended_locks: 6,
        contended_conflicts: 4,
        contention_window_ms: 100,
        limited_growth_bytes: 3 * BLOCK_SIZE,
        ..DlmConfig::default()
    }
}

/// Passes a lock on block 0 to and fro between A and B, `n` times.
fn ping_pong(w: &mut World, n: usize) {
    let (mut holder, mut other) = ((A, w.lock(A, Pw, blocks(0, 1), EXACT).0), B);
    for _ in 0..n {
        assert_eq!(w.ask(other, Pw, blocks(0, 1), EXACT), [asked_back(holder.0, holder.1)]);
        let out = w.cancel(holder.0, holder.1);
        let [(client, _, handle, false)] = grants(&out)[..] else { panic!("{out:?}") };
        (holder, other) = ((client, handle), holder.0);
    }
}

#[test]
fn four_conflicts_limit_growth_until_they_are_forgotten() {
    let mut w = World::with(config());
    ping_pong(&mut w, 3);
    let (h, e) = w.lock(C, Pw, blocks(10, 11), PLAIN);
    assert_eq!(e.start, BLOCK_SIZE);
    assert_eq!(e.end, Extent::EOF);
    w.cancel(C, h);
    let holder = w.dlm.locks(FID).next().unwrap();
    w.ask(C, Pr, blocks(0, 1), EXACT);
    w.cancel(holder.client, holder.handle.unwrap());
    assert_eq!(w.lock(C, Pw, blocks(10, 11), PLAIN).1, blocks(10, 13));
    w.now_ms = 200;
    assert_eq!(w.lock(C, Pw, blocks(20, 21), PLAIN).1, blocks_from(13));
}

#[test]
fn limited_growth_never_cuts_what_was_asked() {
    let mut w = World::with(config());
    ping_pong(&mut w, 4);
    assert_eq!(w.lock(C, Pw, blocks(10, 99), PLAIN).1, blocks(10, 99));
}

#[test]
fn a_fierce_fight_ends_growth() {
    let mut w = World::with(config());
    ping_pong(&mut w, 7);
    assert_eq!(w.lock(C, Pw, blocks(10, 11), PLAIN).1, blocks(10, 11));
}

#[test]
fn many_rivals_limit_growth_wherever_they_lie() {
    let mut w = World::with(config());
    for i in 0..7 {
        w.lock(A, Pw, blocks(i, i + 1), EXACT);
    }
    assert_eq!(w.lock(C, Pw, blocks(10, 11), PLAIN).1, blocks(10, 13));
}

#[test]
fn two_clients_never_go_lockless_by_default() {
    let mut w = World::new();
    ping_pong(&mut w, 10_000);
}

#[test]
fn more_conflicting_locks_than_the_limit_are_answered_with_eusers() {
    let mut w = World::with(config());
    for _ in 0..6 {
        w.lock(A, Pr, blocks(0, 1), EXACT);
    }
    assert_eq!(w.ask(B, Pw, blocks(0, 1), PLAIN).len(), 6, "six is not yet more than six");
    assert_eq!(w.ask(B, Pw, blocks(0, 1), PLAIN), refused(B, 8, Errno::EUSERS), "six holders and one that waits");
    assert_eq!(w.ask(B, Pw, blocks(0, 1), TRY), refused(B, 9, Errno::EAGAIN));
    assert_eq!(w.ask(B, Pw, blocks(0, 1), MANDATORY), []);
    assert_eq!(w.ask(B, Group(1), blocks(0, 1), PLAIN), []);
    assert!(matches!(w.ask(C, Pr, blocks(0, 1), GLIMPSE)[..], [Effect::GlimpseAnswer { .. }]));
    w.lock(C, Pw, blocks(1, 2), EXACT);
}

#[test]
fn contention_can_be_switched_off() {
    let mut w = World::with(DlmConfig { contention_enabled: false, ..config() });
    for _ in 0..50 {
        w.lock(A, Pr, blocks(0, 1), EXACT);
    }
    assert_eq!(w.ask(B, Pw, blocks(0, 1), PLAIN).len(), 50);
}

#[test]
fn conflicts_in_a_window_are_answered_with_eusers_where_configured() {
    let mut w = World::with(DlmConfig { lockless_conflicts: Some(4), contended_locks: 100, ..config() });
    ping_pong(&mut w, 4);
    assert_eq!(w.ask(C, Pr, blocks(0, 1), PLAIN), refused(C, 6, Errno::EUSERS));
    w.lock(C, Pr, blocks(1, 2), PLAIN);
    w.now_ms = 200;
    assert_eq!(w.ask(C, Pr, blocks(0, 1), PLAIN).len(), 1, "forgotten: waits, and the holder is asked back");
}

#[test]
fn conflicts_are_remembered_when_the_last_lock_has_gone() {
    let mut w = World::with(DlmConfig { lockless_conflicts: Some(4), contended_locks: 100, ..config() });
    ping_pong(&mut w, 4);
    let holder = w.dlm.locks(FID).next().unwrap();
    w.cancel(holder.client, holder.handle.unwrap());
    assert_eq!(w.dlm.counts().resources, 0);
    let (h, _) = w.lock(A, Pr, blocks(0, 1), EXACT);
    assert!(matches!(w.ask(C, Pw, blocks(0, 1), PLAIN)[..], [Effect::Refused { errno: Errno::EUSERS, .. }]));
    w.cancel(A, h);
    // A refusal is a conflict too: the fight goes on.
    w.now_ms = 150;
    w.lock(A, Pr, blocks(0, 1), EXACT);
    w.now_ms = 190;
    assert_eq!(w.ask(C, Pw, blocks(0, 1), PLAIN).len(), 1, "one conflict of late is no fight");
}
