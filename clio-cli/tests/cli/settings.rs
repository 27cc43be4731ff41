//! config and params.

use crate::harness::{Bed, clio, run};
use serde_json::json;
use std::fs;

#[test]
fn config_says_where_each_value_came_from() {
    let bed = Bed::without_store();
    let file = bed.make("clio.toml", b"cache_mb = 64\nmax_pages_per_rpc = 32\nmax_dirty_mb = 5\n");
    let mut command = clio();
    command
        .arg("--config")
        .arg(&file)
        .args(["--set", "max_dirty_mb=9", "config", "--json"])
        .env("CLIO_MAX_PAGES_PER_RPC", "64");
    let shown = run(&mut command, b"").ok().json();
    let of = |name: &str| shown["settings"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone();
    let path = file.to_str().unwrap();
    for (name, value, source) in [
        ("cache_mb", 64, path),
        ("max_pages_per_rpc", 64, "CLIO_MAX_PAGES_PER_RPC"),
        ("max_dirty_mb", 9, "given"),
        ("lock_lru", 100_000, "default"),
    ] {
        let s = of(name);
        assert_eq!((&s["value"], &s["source"]), (&value.into(), &source.into()), "{name}");
        assert!(s["min"].as_u64() <= s["max"].as_u64() && s["help"].is_string() && s["default"].is_u64());
    }
    assert_eq!((&shown["pools"], &shown["layouts"]), (&json!([]), &json!([])));
    let text = run(clio().args(["config"]).env("CLIO_CONFIG", &file), b"").ok().text();
    assert!(text.lines().any(|l| l.starts_with("cache_mb") && l.contains("= 64") && l.ends_with(path)), "{text}");
}

#[test]
fn config_shows_pools_and_layouts_with_their_source() {
    let bed = Bed::without_store();
    let tables = "[pools]\nfast = [1, 3]\nslow = [0]\n[layouts.\"/run\"]\nstripe_count = 2\nstripe_kb = 256\n\
                  pool = \"fast\"\n[layouts.\"/run/logs\"]\nstripe_kb = 64\n";
    let file = bed.make("clio.toml", tables.as_bytes());
    let path = file.to_str().unwrap();
    let shown = run(clio().args(["--config", path, "config", "--json"]), b"").ok().json();
    let pools = [("fast", json!([1, 3])), ("slow", json!([0]))];
    let pools = pools.map(|(name, targets)| json!({"name": name, "targets": targets, "source": path}));
    assert_eq!(shown["pools"], json!(pools));
    let rule = |prefix: &str, count: u16, kb: u64, pool: Option<&str>| json!({"prefix": prefix, "stripe_count": count, "stripe_kb": kb, "pool": pool, "source": path});
    assert_eq!(shown["layouts"], json!([rule("/run", 2, 256, Some("fast")), rule("/run/logs", 1, 64, None)]));
    // What is printed can be read again, and tells where it came from.
    let text = run(clio().args(["--config", path, "config"]), b"").ok().text();
    let again = bed.make("again.toml", text.as_bytes());
    let again = run(clio().args(["--config", again.to_str().unwrap(), "config", "--json"]), b"").ok().json();
    assert_eq!(again["layouts"][0]["pool"], "fast");
    assert_eq!(again["pools"].as_array().unwrap().len(), 2);
    for line in [format!("fast = [1, 3]  # {path}"), format!("[layouts.\"/run/logs\"]  # {path}")] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
}

#[test]
fn params_are_kept_in_the_file() {
    let bed = Bed::without_store();
    let file = bed.make("clio.toml", b"# mine\ncache_mb = 64 # small\n");
    let params = |args: &[&str]| run(clio().env("CLIO_CONFIG", &file).arg("params").args(args), b"");
    params(&["set", "cache_mb=128", "checksums=off"]).ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\ncache_mb = 128 # small\nchecksums = 0\n");
    assert_eq!(params(&["get", "cache_mb", "checksums"]).ok().lines(), ["cache_mb=128", "checksums=0"]);
    assert!(params(&["list"]).ok().lines().len() > 5);
    assert_eq!(params(&["get", "cache_mb", "--json"]).ok().json()[0]["value"], 128);
    let before = fs::read_to_string(&file).unwrap();
    params(&["set", "cache_md=1"]).failed(1, &["did you mean 'cache_mb'"]);
    params(&["set", "cache_mb=0"]).failed(1, &["from 4 to"]);
    params(&["set", "stripe_kb=100"]).failed(1, &["multiple of 64"]);
    params(&["set", "cache_mb"]).failed(2, &["NAME=VALUE"]);
    params(&["get", "cache_md"]).failed(1, &["did you mean 'cache_mb'"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let fresh = bed.local("fresh.toml");
    run(clio().arg("--config").arg(&fresh).args(["params", "set", "max_pages_per_rpc=64"]), b"").ok();
    assert_eq!(fs::read_to_string(&fresh).unwrap(), "max_pages_per_rpc = 64\n");
    // Nobody names a file: the user's own.
    let home = bed.local("home");
    run(clio().env("XDG_CONFIG_HOME", &home).args(["params", "set", "max_pages_per_rpc=64"]), b"").ok();
    assert_eq!(fs::read_to_string(home.join("clio/clio.toml")).unwrap(), "max_pages_per_rpc = 64\n");
    let get = run(clio().env("XDG_CONFIG_HOME", &home).args(["params", "get", "max_pages_per_rpc"]), b"");
    assert_eq!(get.ok().lines(), ["max_pages_per_rpc=64"]);
    let mut homeless = clio();
    homeless.env_remove("XDG_CONFIG_HOME").env_remove("HOME");
    run(homeless.args(["params", "set", "cache_mb=64"]), b"").failed(2, &["CLIO_CONFIG"]);
}

#[test]
fn the_log_has_no_colours_in_a_file() {
    let bed = Bed::new();
    let ran = run(bed.command(["ls"]).env("CLIO_LOG", "trace").env_remove("NO_COLOR"), b"");
    assert!(ran.code == 0 && ran.stderr.contains("TRACE"), "something was logged: {}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

#[test]
fn bad_settings_are_told_with_their_place() {
    let bed = Bed::new();
    let file = bed.make("clio.toml", b"cache_md = 64\n");
    let config = |args: &[&str]| run(clio().arg("--config").arg(&file).args(args), b"");
    config(&["config"]).failed(1, &["clio.toml", "did you mean 'cache_mb'"]);
    fs::write(&file, "cache_mb = [\n").unwrap();
    config(&["config"]).failed(1, &["clio.toml", "EINVAL"]);
    fs::remove_file(&file).unwrap();
    config(&["config"]).failed(1, &["clio.toml", "ENOENT"]);
    run(clio().arg("config").env("CLIO_CACHE_MD", "1"), b"").failed(1, &["did you mean 'cache_mb'"]);
    bed.run(["--set", "cache_mb", "ls"]).failed(2, &["NAME=VALUE"]);
    bed.run(["--set", "cache_mb=1", "ls"]).failed(1, &["--set cache_mb=1", "from 4 to"]);
}
