//! setstripe and getstripe.

use crate::harness::{Bed, noise};
use serde_json::Value;

/// Start and end in bytes, stripe size in bytes, number of stripes, whether it has been written to.
type Component = (u64, Option<u64>, u64, Option<u64>, bool);

fn components(shown: &Value) -> Vec<Component> {
    let number = |c: &Value, field: &str| c[field].as_u64();
    let list = shown["components"].as_array().unwrap().iter();
    let part = |c: &Value| {
        let instantiated = c["instantiated"].as_bool().unwrap();
        let size = number(c, "stripe_size_bytes").unwrap();
        (number(c, "start_bytes").unwrap(), number(c, "end_bytes"), size, number(c, "stripe_count"), instantiated)
    };
    list.map(part).collect()
}

#[test]
fn a_plain_layout_is_what_was_asked_for() {
    let bed = Bed::new();
    bed.ok(["setstripe", "-c", "2", "-S", "64K", "-i", "1", "/f"]);
    let shown = bed.json(["getstripe", "/f"]);
    assert_eq!((&shown["path"], &shown["of"]), (&"/f".into(), &"file".into()));
    assert_eq!(components(&shown), [(0, None, 65536, Some(2), false)]);
    let bytes = noise(300_000);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    let shown = bed.json(["getstripe", "/f"]);
    assert_eq!(components(&shown), [(0, None, 65536, Some(2), true)]);
    assert_eq!(shown["components"][0]["stripes"][0]["target"], 1);
    assert!(bed.ok(["cat", "/f"]).stdout == bytes);
    let yaml = bed.ok(["getstripe", "-y", "/f"]).text();
    assert!(yaml.contains("stripe_size_bytes: 65536") && yaml.contains("target: 1"), "{yaml}");
    let text = bed.ok(["getstripe", "/f"]).text();
    assert!(text.contains("2 stripes of 64K") && text.contains("on targets 1, "), "{text}");
}

#[test]
fn a_composite_layout_gets_its_components_as_it_grows() {
    let bed = Bed::new();
    bed.ok([
        "setstripe",
        "-E",
        "1M",
        "-c",
        "1",
        "-S",
        "128K",
        "-E",
        "4M",
        "-c",
        "2",
        "-E",
        "-1",
        "-c",
        "-1",
        "-S",
        "1M",
        "/f",
    ]);
    let (m, k) = (1 << 20, 128 << 10);
    let wanted = |a, b, c, n| [(0, Some(m), k, Some(1), a), (m, Some(4 * m), k, Some(2), b), (4 * m, None, m, n, c)];
    assert_eq!(components(&bed.json(["getstripe", "/f"])), wanted(false, false, false, None));
    let bytes = noise(3 << 20);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    assert_eq!(components(&bed.json(["getstripe", "/f"])), wanted(true, true, false, None));
    assert!(bed.ok(["cat", "/f"]).stdout == bytes);
    let bytes = noise((6 << 20) + 5);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    assert_eq!(components(&bed.json(["getstripe", "/f"])), wanted(true, true, true, Some(4)));
    assert!(bed.ok(["cat", "/f"]).stdout == bytes);
}

#[test]
fn new_files_get_the_layout_of_their_folder() {
    let bed = Bed::new();
    bed.ok(["mkdir", "/d"]);
    assert_eq!(bed.json(["getstripe", "/d"])["of"], "default");
    bed.ok(["setstripe", "-c", "3", "-S", "256K", "/d"]);
    let shown = bed.json(["getstripe", "/d"]);
    assert_eq!((&shown["of"], components(&shown)), (&"folder".into(), vec![(0, None, 256 << 10, Some(3), false)]));
    bed.run_with_input(["put", "-", "/d/f"], b"x").ok();
    assert_eq!(components(&bed.json(["getstripe", "/d/f"])), [(0, None, 256 << 10, Some(3), true)]);
    let out = bed.ok(["--set", "stripe_count=2", "getstripe", "/"]).text();
    assert!(out.contains("2 stripes of 1M") && out.contains("by the settings"), "{out}");
}

#[test]
fn rules_for_prefixes_are_shown_and_fill_what_options_leave_open() {
    let bed = Bed::new();
    let file = bed.make(
        "clio.toml",
        b"stripe_count = 1\n[pools]\nfast = [1, 3]\n[layouts.\"/run\"]\nstripe_count = 2\nstripe_kb = 256\npool = \"fast\"\n",
    );
    let json = |args: &[&str]| bed.json([&["--config", file.to_str().unwrap()], args].concat());
    let ok = |args: &[&str]| bed.ok([&["--config", file.to_str().unwrap()], args].concat());
    ok(&["mkdir", "-p", "/run/d"]);
    for folder in ["/run", "/run/d"] {
        let shown = json(&["getstripe", folder]);
        assert_eq!((&shown["of"], components(&shown)), (&"default".into(), vec![(0, None, 256 << 10, Some(2), false)]));
        assert_eq!(shown["components"][0]["pool"], "fast");
    }
    assert_eq!(components(&json(&["getstripe", "/"])), [(0, None, 1 << 20, Some(1), false)]);
    // One command, two paths under different rules.
    ok(&["setstripe", "-S", "64K", "/run/f", "/f"]);
    for (path, count, pool) in [("/run/f", 2, Value::from("fast")), ("/f", 1, Value::Null)] {
        let shown = json(&["getstripe", path]);
        assert_eq!(
            (components(&shown), &shown["components"][0]["pool"]),
            (vec![(0, None, 65536, Some(count), false)], &pool)
        );
    }
    ok(&["setstripe", "-E", "1M", "-c", "1", "-E", "eof", "-c", "2", "/run/g"]);
    let (m, k) = (1 << 20, 256 << 10);
    let shown = json(&["getstripe", "/run/g"]);
    assert_eq!(components(&shown), [(0, Some(m), k, Some(1), false), (m, None, k, Some(2), false)]);
    assert_eq!(shown["components"][1]["pool"], "fast");
}

#[test]
fn a_pool_is_where_the_stripes_go() {
    let bed = Bed::new();
    let file = bed.make("clio.toml", b"[pools]\nfast = [1, 3]\n");
    let with = |args: &[&'static str]| [&["--config", file.to_str().unwrap()], args].concat();
    bed.ok(with(&["setstripe", "-p", "fast", "-c", "2", "-S", "64K", "/f"]));
    let bytes = noise(200_000);
    bed.run_with_input(with(&["put", "-", "/f"]), &bytes).ok();
    let shown = bed.json(with(&["getstripe", "/f"]));
    let mut targets: Vec<_> =
        shown["components"][0]["stripes"].as_array().unwrap().iter().map(|s| s["target"].as_u64().unwrap()).collect();
    targets.sort_unstable();
    assert_eq!((&shown["components"][0]["pool"], targets), (&"fast".into(), vec![1, 3]));
    assert!(bed.ok(with(&["getstripe", "/f"])).text().contains("pool fast"));
    assert!(bed.ok(["cat", "/f"]).stdout == bytes);
    // More stripes than the pool has targets, though the store has enough.
    bed.run(with(&["setstripe", "-p", "fast", "-c", "3", "/g"])).failed(1, &["clio: setstripe '/g':", "EINVAL"]);
}

#[test]
fn layouts_that_cannot_be_are_refused_with_advice() {
    let bed = Bed::new();
    for (args, code, says) in [
        (&["-S", "100K", "/f"][..], 1, "multiple of 65536"),
        (&["-S", "0", "/f"], 1, "out of range"),
        (&["-c", "5", "/f"], 1, "clio: setstripe '/f':"),
        (&["-i", "9", "/f"], 1, "clio: setstripe '/f':"),
        (&["-p", "nopool", "/f"], 1, "pool"),
        (&["-E", "100K", "/f"], 1, "multiple of 65536"),
        (&["-E", "2M", "-E", "1M", "/f"], 1, "ascending"),
        (&["-E", "eof", "-E", "1M", "/f"], 2, "put that one last"),
        (&["-S", "1.5M", "/f"], 2, "is no size"),
        (&["-c", "many", "/f"], 2, "is no number"),
        (&["-c", "1"], 2, "required"),
        (&["-c", "1", "-c", "2", "/f"], 2, "-c is given twice"),
    ] {
        bed.run([&["setstripe"], args].concat()).failed(code, &[says]);
    }
    assert_eq!(bed.ok(["ls"]).text(), "");
    bed.ok(["setstripe", "-C", "8", "/over"]);
    assert_eq!(components(&bed.json(["getstripe", "/over"]))[0].3, Some(8));
    bed.run(["setstripe", "-c", "1", "/over"]).failed(1, &["clio: setstripe '/over':", "EEXIST"]);
    bed.run(["getstripe", "/none"]).failed(1, &["clio: getstripe '/none':", "ENOENT"]);
}
