//! What the commands that look print, for people and as JSON.

use crate::harness::{Bed, clio, noise, run};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn fields(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn set<const N: usize>(names: [&'static str; N]) -> BTreeSet<&'static str> {
    names.into()
}

fn sample() -> Bed {
    let bed = Bed::new();
    bed.ok(["mkdir", "-p", "/d/e"]);
    bed.run_with_input(["put", "-", "/d/file"], &noise(5000)).ok();
    bed.run_with_input(["put", "-", "/.hidden"], b"h").ok();
    bed.ok(["ln", "-s", "d/file", "/link"]);
    bed
}

#[test]
fn ls_for_people() {
    let bed = sample();
    assert_eq!(bed.ok(["ls"]).lines(), ["d", "link"]);
    assert_eq!(bed.ok(["ls", "-a"]).lines(), [".hidden", "d", "link"]);
    assert_eq!(bed.ok(["ls", "-d", "/d"]).lines(), ["/d"]);
    assert_eq!(bed.ok(["ls", "/d/file"]).lines(), ["/d/file"]);
    assert_eq!(bed.ok(["ls", "-R"]).lines(), ["/:", "d", "link", "", "/d:", "e", "file", "", "/d/e:"]);
    let long = bed.ok(["ls", "-l", "/d", "/link"]).lines();
    assert!(long[0].starts_with("lrwxrwxrwx ") && long[0].ends_with(" /link -> d/file"), "{long:?}");
    let file = long.iter().find(|l| l.ends_with(" file")).unwrap();
    let columns: Vec<_> = file.split_whitespace().collect();
    assert!(columns[0].starts_with("-rw-") && columns[1] == "1" && columns[4] == "5000", "{columns:?}");
    assert_eq!(columns.len(), 8, "mode, links, owner, group, size, date, time, name: {columns:?}");
    let all = bed.ok(["ls", "-lR"]).lines();
    let (heads, rows): (Vec<_>, Vec<_>) = all.iter().partition(|l| l.is_empty() || l.ends_with(':'));
    assert_eq!(heads, ["/:", "", "/d:", "", "/d/e:"]);
    let shown: Vec<_> = rows.iter().map(|l| (&l[..1], l.split_whitespace().nth(7).unwrap())).collect();
    assert_eq!(shown, [("d", "d"), ("l", "link"), ("d", "e"), ("-", "file")], "{all:?}");
    assert!(bed.ok(["ls", "-lh", "/d"]).text().contains(" 4.9K "));
    let ran = bed.run(["ls", "/none", "/d"]).failed(1, &["clio: ls '/none':", "ENOENT"]);
    assert!(ran.text().contains("file"));
}

#[test]
fn files_as_json_have_fields_that_programs_can_rely_on() {
    let bed = sample();
    let wanted = set([
        "path",
        "type",
        "fid",
        "mode",
        "nlink",
        "uid",
        "gid",
        "size",
        "allocated_bytes",
        "atime_ns",
        "mtime_ns",
        "ctime_ns",
    ]);
    let list = bed.json(["ls", "-R"]);
    let paths: Vec<_> = list.as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/d", "/link", "/d/e", "/d/file"]);
    assert_eq!(fields(&list[3]), wanted);
    assert_eq!(list[3]["size"], 5000);
    let stat = bed.json(["stat", "/d/file"]);
    assert_eq!(stat[0], list[3]);
    let text = bed.ok(["stat", "/d/file"]).text();
    assert!(text.contains("File: /d/file") && text.contains("5000") && text.contains("+0000"), "{text}");
}

#[test]
fn space() {
    let bed = sample();
    let df = bed.json(["df"]);
    assert_eq!(fields(&df), set(["store", "total_bytes", "used_bytes", "free_bytes"]));
    // The store's targets are all on the disk that its folder is on.
    let disk = rustix::fs::statvfs(bed.store_dir()).unwrap();
    let (disk, shown) = (disk.f_blocks * disk.f_frsize, df["total_bytes"].as_u64().unwrap());
    assert!(shown <= disk && shown > disk - disk / 100, "{shown} of {disk}");
    assert_eq!(bed.ok(["df", "-h"]).lines().len(), 2);
    let du = bed.json(["du"]);
    assert_eq!(fields(&du[0]), set(["path", "allocated_bytes", "apparent_bytes", "files"]));
    let last = du.as_array().unwrap().last().unwrap();
    assert_eq!((&last["path"], &last["files"]), (&"/".into(), &3.into()));
    assert_eq!(last["apparent_bytes"], 5000 + 1 + 6);
    assert_eq!(bed.ok(["du", "-b", "/d"]).lines(), ["0\t/d/e", "5000\t/d"]);
    assert_eq!(bed.ok(["du", "-s", "-b", "/d/file"]).lines(), ["5000\t/d/file"]);
}

#[test]
fn status_and_check() {
    let bed = sample();
    let status = bed.json(["status"]);
    let wanted = set(["store", "kind", "mode", "state", "daemon", "detail", "total_bytes", "free_bytes", "locks"]);
    assert_eq!(fields(&status), wanted);
    assert_eq!(
        (&status["kind"], &status["mode"], &status["state"]),
        (&"dir".into(), &"embedded".into(), &"ready".into())
    );
    // Who has just opened the store holds nothing yet.
    assert_eq!(status["locks"], json!([0, 1, 2, 3].map(|t| json!({"target": t, "granted": 0, "waiting": 0}))));
    let text = bed.ok(["status"]).text();
    assert!(text.contains("state: ready") && text.contains("locks: 0 granted, 0 waiting"), "{text}");
    let check = bed.json(["check"]);
    let wanted = set(["clean", "inodes", "objects", "blocks", "unjudged", "findings", "repaired"]);
    assert_eq!(fields(&check), wanted);
    assert_eq!(check["clean"], true);
    assert!(bed.ok(["check"]).text().ends_with("clean\n"));
}

/// Each target's figure in the text of statistics that comes before `unit`, as `1.0 MiB read`.
fn figures(stats: &str, unit: &str) -> Vec<String> {
    let lines = stats.lines().filter(|l| l.starts_with("  target "));
    lines.map(|l| l.split_once(unit).unwrap().0.rsplit([' ', ':']).next().unwrap().to_string()).collect()
}

#[test]
fn stats_count_what_a_command_has_moved() {
    let bed = Bed::new();
    // Three of the four targets get a whole stripe unit of 1 MiB.
    bed.ok(["setstripe", "-c", "4", "-i", "0", "/f"]);
    let put = bed.run_with_input(["--print-stats", "put", "-", "/f"], &noise(3 << 20));
    let put = put.failed(0, &[]).stderr;
    assert_eq!(figures(&put, " MiB written"), ["1.0", "1.0", "1.0", "0.0"], "{put}");
    assert_eq!(figures(&put, " MiB read"), ["0.0"; 4], "{put}");
    let cat = bed.run(["--print-stats", "cat", "/f"]).failed(0, &[]).stderr;
    assert_eq!(figures(&cat, " MiB read"), ["1.0", "1.0", "1.0", "0.0"], "{cat}");
    assert_eq!(figures(&cat, " MiB written"), ["0.0"; 4], "{cat}");
    // A client of its own, that has only connected.
    let stats = bed.json(["--set", "cache_mb=64", "stats"]);
    assert_eq!((&stats["cache"]["limit_bytes"], &stats["objects"]), (&(64 << 20).into(), &0.into()));
    for (n, target) in stats["targets"].as_array().unwrap().iter().enumerate() {
        assert_eq!(
            (&target["target"], &target["read_bytes"], &target["locks_enqueued"]),
            (&n.into(), &0.into(), &0.into())
        );
        assert!(target["grant_bytes"].as_u64() > Some(0), "{target}");
    }
    assert_eq!(stats["targets"].as_array().unwrap().len(), 4);
    let text = bed.ok(["--set", "cache_mb=64", "stats"]).text();
    assert!(text.contains("cache: 0 of 64 MiB") && figures(&text, " MiB read") == ["0.0"; 4], "{text}");
}

#[test]
fn bench_leaves_nothing_behind() {
    let bed = Bed::new();
    let rows = bed.json(["bench", "--size", "2M", "--files", "5"]);
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    let wanted = ["write_1m", "read_1m_cached", "read_1m", "write_4k", "read_4k_cached", "create", "stat", "unlink"];
    assert_eq!(names, wanted);
    assert_eq!(fields(&rows[0]), set(["name", "value", "unit", "threads", "note"]));
    assert!(rows.as_array().unwrap().iter().all(|r| r["value"].as_f64() > Some(0.0)));
    assert_eq!(bed.ok(["ls", "-a"]).text(), "");
    // In memory as well, where the store lives as long as the measurement.
    run(clio().args(["--store", "mem:?targets=2", "bench", "--size", "1M", "--files", "2"]), b"").ok();
}

#[test]
fn a_store_in_memory_is_said_to_be_empty() {
    let ran = run(clio().args(["--store", "mem:", "ls"]), b"");
    let ran = ran.failed(0, &["note: a mem: store is empty"]);
    assert_eq!(ran.text(), "");
    run(clio().args(["--store", "mem:", "format"]), b"").failed(2, &["a mem: store needs no format"]);
    let ran = run(clio().args(["--store", "node:/nowhere/store", "format"]), b"");
    ran.failed(2, &["a node: store is made in its folder", "dir:/path"]);
}

#[test]
fn completions_and_help() {
    for (shell, word) in [("bash", "setstripe"), ("zsh", "#compdef clio"), ("fish", "getstripe")] {
        let text = run(clio().args(["completions", shell]), b"").ok().text();
        assert!(text.contains(word), "{shell}");
    }
    let help = run(clio().args(["help", "put"]), b"").ok().text();
    assert!(help.contains("--recursive") && help.contains("--store"), "{help}");
    run(&mut clio(), b"").failed(2, &["Usage"]);
}
