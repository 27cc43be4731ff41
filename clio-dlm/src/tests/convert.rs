//! Changes of mode.

use super::*;
use LockMode::{Ex, Group, Pr, Pw};

fn convert(w: &mut World, client: ClientId, handle: DlmHandle, mode: LockMode) -> Vec<Effect> {
    w.step(Event::Convert { client, handle, mode })
}

#[test]
fn a_weaker_mode_lets_others_in_and_settles_the_ast() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, Extent::WHOLE, PLAIN);
    w.ask(B, Pr, Extent::WHOLE, PLAIN);
    assert!(w.dlm.next_deadline().is_some());
    let out = convert(&mut w, A, h, Pr);
    assert_eq!(out[0], Effect::Converted { client: A, handle: h, mode: Pr });
    assert!(matches!(grants(&out)[..], [(B, 2, _, false)]));
    assert_eq!(w.dlm.next_deadline(), None);
    assert_eq!(w.ask(C, Pw, Extent::WHOLE, PLAIN).len(), 2, "both readers are asked back, A for the second time");
}

#[test]
fn a_weaker_mode_that_does_not_help_leaves_the_ast() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Ex, Extent::WHOLE, PLAIN);
    w.ask(B, Pw, Extent::WHOLE, PLAIN);
    assert_eq!(convert(&mut w, A, h, Pr), [Effect::Converted { client: A, handle: h, mode: Pr }]);
    assert!(w.dlm.locks(FID).next().unwrap().blocking && w.dlm.next_deadline().is_some());
}

#[test]
fn a_stronger_mode_needs_that_nobody_conflicts() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pr, blocks(0, 2), EXACT);
    assert_eq!(convert(&mut w, A, h, Pw), [Effect::Converted { client: A, handle: h, mode: Pw }]);
    assert!(w.dlm.covers(A, h, FID, blocks(0, 2)));
    convert(&mut w, A, h, Pr);
    w.lock(B, Pr, blocks(1, 2), EXACT);
    assert_eq!(convert(&mut w, A, h, Pw), [Effect::Converted { client: A, handle: h, mode: Pr }]);
    assert_eq!(convert(&mut w, A, h, Group(1)), [Effect::Converted { client: A, handle: h, mode: Pr }]);
    assert_eq!(convert(&mut w, B, h, Pr), [], "not B's lock");
}

#[test]
fn joining_the_group_that_waits_lets_it_in() {
    let mut w = World::new();
    let (h, _) = w.lock(A, Pw, Extent::WHOLE, PLAIN);
    w.ask(B, Group(4), Extent::WHOLE, PLAIN);
    let out = convert(&mut w, A, h, Group(4));
    assert!(matches!(grants(&out)[..], [(B, 2, _, false)]));
    assert!(!w.dlm.locks(FID).any(|l| l.blocking));
}
