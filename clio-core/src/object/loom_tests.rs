//! The site under the model checker: nobody is given, or holds, an object that is destroyed, each is deleted once
//! (asserted by the layer), and none is left in the table without an entry in the LRU.

use super::noting::*;
use super::*;
use crate::sync::thread;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(run);
}

fn use_once(site: &Arc<Site>) {
    let held = find(site, 1);
    assert!(!is_deleted(&held), "found destroyed");
    thread::yield_now();
    assert!(!is_deleted(&held), "destroyed under its user");
}

fn left_over(site: &Arc<Site>) {
    site.purge(&env()).expect("purge");
    assert!(site.is_empty(), "neither in use nor in the LRU");
}

/// Two users of an object that isn't there yet: each may make it, find the other's, or evict it at its end.
#[test]
fn loom_site_two_makers() {
    model(|| {
        let site = site(0);
        let other = {
            let site = site.clone();
            thread::spawn(move || use_once(&site))
        };
        use_once(&site);
        other.join().expect("user");
        left_over(&site);
    });
}

/// An idle object is purged while it is found.
#[test]
fn loom_site_user_and_purge() {
    model(|| {
        let site = site(1);
        drop(find(&site, 1));
        let user = {
            let site = site.clone();
            thread::spawn(move || use_once(&site))
        };
        site.purge(&env()).expect("purge");
        user.join().expect("user");
        left_over(&site);
    });
}

/// A maker, a user and a purge.
#[test]
fn loom_site_maker_user_and_purge() {
    model(|| {
        let site = site(1);
        let users = [site.clone(), site.clone()].map(|site| thread::spawn(move || use_once(&site)));
        site.purge(&env()).expect("purge");
        users.into_iter().for_each(|u| u.join().expect("user"));
        left_over(&site);
    });
}

/// Who kills what it holds, while another finds it.
#[test]
fn loom_site_user_and_killer() {
    model(|| {
        let site = site(1);
        let killer = {
            let site = site.clone();
            thread::spawn(move || {
                let held = find(&site, 1);
                held.kill();
                assert!(!is_deleted(&held));
            })
        };
        use_once(&site);
        killer.join().expect("killer");
        left_over(&site);
    });
}
