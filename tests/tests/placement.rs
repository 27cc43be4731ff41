//! Pools of targets, and layouts by path: where new files go.

use clio::{Client, Config, Errno, FileLayout, Layout, OpenOptions};
use std::path::Path;

const SETTINGS: &str = r#"
stripe_count = 1

[pools]
fast = [1, 3]

[layouts."/run"]
stripe_count = 0
stripe_kb = 256
pool = "fast"

[layouts."/run/logs"]
stripe_count = 2
"#;

fn client() -> Client {
    let mut config = Config::default();
    config.merge_toml(SETTINGS, Path::new("clio.toml")).expect("settings");
    let client = Client::builder().store("mem:?targets=4").config(config).connect().expect("client");
    client.mkdir_all("/run/logs").expect("mkdir");
    client
}

fn layout(client: &Client, path: &str) -> FileLayout {
    let file = client.open_with(path, OpenOptions::new().write(true).create(true)).expect("open");
    file.write_all_at(&[1; 4096], 0).expect("write");
    file.layout().expect("layout")
}

fn targets(layout: &FileLayout) -> Vec<u16> {
    let mut all: Vec<_> = layout.stripes().map(|(_, target)| target.0).collect();
    all.sort_unstable();
    all
}

#[test]
fn the_longest_prefix_places_new_files() {
    let client = client();
    let fast = layout(&client, "/run/ckpt");
    assert_eq!(targets(&fast), [1, 3], "all of the pool");
    assert_eq!(fast.components()[0].striping().stripe_size, 256 << 10);
    assert_eq!(targets(&layout(&client, "/run/logs/1")).len(), 2);
    assert_eq!(targets(&layout(&client, "/other")).len(), 1);
    assert_eq!(targets(&layout(&client.second_client().expect("client"), "/run/there")), [1, 3]);
}

#[test]
fn a_wish_of_the_file_or_of_its_folder_comes_first() {
    let client = client();
    let own = OpenOptions::new().write(true).create(true).layout(Layout::raid0().stripe_count(3));
    let file = client.open_with("/run/own", own).expect("open");
    file.write_all_at(&[1], 0).expect("write");
    assert_eq!(targets(&file.layout().expect("layout")).len(), 3);
    client.set_layout("/run/logs", &Layout::raid0().stripe_count(4)).expect("set");
    assert_eq!(targets(&layout(&client, "/run/logs/1")).len(), 4);
}

#[test]
fn pools_are_taken_from_when_asked_for() {
    let client = client();
    client.set_layout("/pooled", &Layout::raid0().stripe_count(2).pool("fast")).expect("set");
    assert_eq!(targets(&layout(&client, "/pooled")), [1, 3]);
    let growing = Layout::composite().until(64 << 10).pool("fast").to_eof().stripe_count(2);
    client.set_layout("/growing", &growing).expect("set");
    let file = client.open_with("/growing", OpenOptions::new().write(true)).expect("open");
    file.write_all_at(&[1], 1 << 20).expect("write");
    let chosen = targets(&file.layout().expect("layout"));
    assert!(!chosen.is_empty() && chosen.iter().all(|t| [1, 3].contains(t)), "{chosen:?}");
    let e = client.set_layout("/bad", &Layout::raid0().pool("slow")).expect_err("there is no such pool");
    assert!(e.to_string().contains("it has fast"), "{e}");
}

#[test]
fn rules_and_pools_of_the_program() {
    let rule = || Layout::raid0().stripe_count(2).stripe_size(64 << 10).pool("fast");
    let builder = || Client::builder().store("mem:?targets=4").config(Config::default()).pool("fast", [1, 3]);
    let client = builder().layout_rule("/run", rule()).set("stripe_count", 1).connect().expect("client");
    client.mkdir("/run").expect("mkdir");
    assert_eq!(targets(&layout(&client, "/run/f")), [1, 3]);
    assert_eq!(targets(&layout(&client, "/f")).len(), 1);
    for (prefix, layout, why) in [("run", rule(), "must start with '/'"), ("/run", rule().stripe_size(1), "65536")] {
        let e = builder().layout_rule(prefix, layout).set("stripe_count", 1).connect().expect_err("no rule");
        assert_eq!(e.errno(), Errno::EINVAL);
        assert!(e.to_string().contains(why), "{e}");
    }
}

#[test]
fn a_pool_of_targets_that_are_not_there_is_told_at_once() {
    let mut config = Config::default();
    config.set_pool("far", [0, 4]);
    let e = Client::builder().store("mem:?targets=4").config(config).connect().expect_err("there is no target 4");
    assert_eq!(e.errno(), Errno::EINVAL);
    assert!(e.to_string().contains("pool 'far' names target 4"), "{e}");
}
