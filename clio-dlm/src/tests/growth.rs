//! How far a grant is widened.

use super::*;
use LockMode::{Pr, Pw};

#[test]
fn alone_it_covers_the_whole_object() {
    let mut w = World::new();
    assert_eq!(w.lock(A, Pw, blocks(5, 6), PLAIN).1, Extent::WHOLE);
}

#[test]
fn it_stops_at_the_nearest_conflict_on_either_side() {
    let mut w = World::new();
    w.lock(A, Pw, blocks(1, 2), EXACT);
    w.lock(A, Pw, blocks(4, 5), EXACT);
    w.lock(A, Pr, blocks(20, 21), EXACT);
    w.lock(A, Pr, blocks(30, 31), EXACT);
    assert_eq!(w.lock(B, Pw, blocks(10, 12), PLAIN).1, blocks(5, 20));
}

#[test]
fn compatible_locks_do_not_stop_it() {
    let mut w = World::new();
    w.lock(A, Pr, blocks(1, 2), EXACT);
    w.lock(A, Pw, blocks(8, 9), EXACT);
    assert_eq!(w.lock(B, Pr, blocks(4, 5), PLAIN).1, blocks(0, 8));
}

#[test]
fn it_does_not_reach_into_what_others_wait_for() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, blocks(10, 11), EXACT);
    assert_eq!(w.ask(B, Pw, blocks(8, 12), EXACT), [asked_back(A, h)]);
    assert_eq!(w.lock(C, Pw, blocks(2, 3), PLAIN).1, blocks(0, 8));
    assert_eq!(w.lock(C, Pw, blocks(20, 21), PLAIN).1, blocks_from(12));
}

#[test]
fn exact_means_exact() {
    let mut w = World::new();
    assert_eq!(w.lock(A, Pw, blocks(5, 6), EXACT).1, blocks(5, 6));
}
