//! The site: what it keeps, what it evicts, and that nobody is given an object that is gone.

use super::noting::*;
use super::*;
use std::thread;

/// Which of the objects `0..n` are in the table.
fn kept(site: &Arc<Site>) -> Vec<u64> {
    let mut kept: Vec<_> = site.objects().iter().map(|o| u64::from(o.fid().oid)).collect();
    kept.sort_unstable();
    kept
}

#[test]
fn beyond_the_limit_the_least_recently_used_goes() {
    let site = site(3);
    let objects: Vec<_> = (0..4).map(|n| find(&site, n).object().clone()).collect();
    assert_eq!(kept(&site), [1, 2, 3], "the first is the oldest");
    assert!(is_deleted(&objects[0]) && !is_deleted(&objects[1]));
    // The walk for that victim has taken the others' second chance: of two that were not used since, the older goes.
    drop(find(&site, 1));
    drop(find(&site, 4));
    assert_eq!(kept(&site), [1, 3, 4], "1 was used again");
    drop(find(&site, 0));
    assert!(!Arc::ptr_eq(find(&site, 0).object(), &objects[0]), "an evicted object is made anew");
}

#[test]
fn an_object_in_use_stays_whatever_the_limit() {
    let site = site(0);
    let held = find(&site, 1);
    (2..9).for_each(|n| drop(find(&site, n)));
    assert_eq!(kept(&site), [1]);
    assert!(!is_deleted(&held) && Arc::ptr_eq(find(&site, 1).object(), held.object()));
    let object = held.object().clone();
    drop(held);
    assert!(site.is_empty() && is_deleted(&object), "its last user was the last thing that kept it");
}

#[test]
fn a_killed_object_is_not_found_and_goes_with_its_last_user() {
    let site = site(10);
    let held = find(&site, 1);
    held.kill();
    assert!(site.lookup(held.fid()).is_none());
    let next = find(&site, 1);
    assert!(!Arc::ptr_eq(next.object(), held.object()) && !is_deleted(&held));
    let old = held.object().clone();
    drop(held);
    assert!(is_deleted(&old) && !is_deleted(&next));
    assert!(Arc::ptr_eq(find(&site, 1).object(), next.object()), "the old one's end left its successor alone");
}

#[test]
fn purge_drops_what_is_idle() {
    let site = site(10);
    let held = find(&site, 1);
    (2..5).for_each(|n| drop(find(&site, n)));
    site.purge(&env()).expect("purge");
    assert_eq!(kept(&site), [1]);
    drop(held);
    assert_eq!(kept(&site), [1], "idle, and kept again");
}

/// Threads find, kill and drop the same two objects while nothing idle is kept, so that each is made, evicted and
/// destroyed all the time. Nobody ever holds an object that is deleted, and nothing is left behind. The model checks
/// (`loom_tests`) are what explores each order; here are more threads than cores, and the sharded table.
#[test]
fn nobody_holds_what_is_destroyed() {
    const ROUNDS: u64 = 100_000;
    let site = site(0);
    thread::scope(|s| {
        for seed in 0..8u64 {
            let site = &site;
            s.spawn(move || {
                for round in 0..ROUNDS {
                    let held = find(site, round / 64 % 2);
                    assert!(!is_deleted(&held), "found deleted");
                    match (round + seed) % 64 {
                        0 => held.kill(),
                        1 => site.purge(&env()).expect("purge"),
                        2 => thread::yield_now(),
                        _ => {}
                    }
                    assert!(!is_deleted(&held), "deleted under its user");
                }
            });
        }
    });
    assert!(site.is_empty(), "{} objects are left", site.len());
}
