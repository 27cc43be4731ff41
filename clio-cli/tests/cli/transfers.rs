//! Data goes in and comes out again as it was.

use crate::harness::{Bed, bound_by_modes, noise, run, with_few_files};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

#[test]
fn files_of_all_sizes_come_back_as_they_were() {
    let bed = Bed::new();
    let unit = 1 << 20;
    for size in [0, 1, 4095, 4096, 65537, unit - 1, unit, unit + 1, 5 * unit + 12345] {
        let (name, bytes) = (format!("f{size}"), noise(size));
        let (from, back) = (bed.make(&name, &bytes), bed.local(format!("{name}.back")));
        bed.ok([OsStr::new("put"), from.as_os_str(), OsStr::new("/")]);
        bed.ok([OsStr::new("get"), OsStr::new(&format!("/{name}")), back.as_os_str()]);
        assert!(fs::read(&back).unwrap() == bytes, "{size} bytes differ");
        assert!(bed.ok(["cat", &name]).stdout == bytes, "{size} bytes differ by cat");
    }
    bed.ok(["check"]);
}

#[test]
fn mode_and_time_are_kept_and_set_id_bits_stay_behind() {
    let bed = Bed::new();
    let from = bed.make("tool", b"#!");
    fs::set_permissions(&from, fs::Permissions::from_mode(0o4751)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    fs::File::open(&from).unwrap().set_modified(time).unwrap();
    bed.ok([OsStr::new("put"), from.as_os_str(), OsStr::new("/tool")]);
    let stat = bed.json(["stat", "/tool"]);
    assert_eq!(stat[0]["mode"], "4751");
    assert_eq!(stat[0]["mtime_ns"], 1_600_000_000_123_456_789_u64);
    let back = bed.local("back");
    bed.ok([OsStr::new("get"), OsStr::new("/tool"), back.as_os_str()]);
    let meta = fs::metadata(&back).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.modified().unwrap()), (0o751, time));
}

/// A tree with everything that a tree can hold.
fn make_tree(bed: &Bed, name: &str) {
    bed.make(format!("{name}/a"), b"A");
    bed.make(format!("{name}/empty"), b"");
    bed.make(format!("{name}/sub/deep/b"), &noise(100_000));
    fs::create_dir_all(bed.local(format!("{name}/hollow"))).unwrap();
    fs::set_permissions(bed.local(format!("{name}/hollow")), fs::Permissions::from_mode(0o555)).unwrap();
    let odd = bed.local(name).join(OsStr::from_bytes(b"odd \xff\n\x1b name"));
    fs::write(odd, b"odd").unwrap();
    std::os::unix::fs::symlink("sub/deep/b", bed.local(format!("{name}/link"))).unwrap();
    std::os::unix::fs::symlink("nowhere", bed.local(format!("{name}/dangling"))).unwrap();
}

fn same_tree(a: &Path, b: &Path) {
    let list = |p: &Path| {
        let mut names: Vec<_> = fs::read_dir(p).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (ma, mb) = (fs::symlink_metadata(a).unwrap(), fs::symlink_metadata(b).unwrap());
    assert_eq!(ma.file_type(), mb.file_type(), "{}", a.display());
    if ma.is_symlink() {
        assert_eq!(fs::read_link(a).unwrap(), fs::read_link(b).unwrap());
        return;
    }
    assert_eq!(ma.mode(), mb.mode(), "{}", a.display());
    assert_eq!(ma.modified().unwrap(), mb.modified().unwrap(), "{}", a.display());
    if ma.is_dir() {
        assert_eq!(list(a), list(b));
        list(a).iter().for_each(|n| same_tree(&a.join(n), &b.join(n)));
    } else {
        assert!(fs::read(a).unwrap() == fs::read(b).unwrap(), "{}", a.display());
    }
}

#[test]
fn trees_come_back_whole_also_through_a_copy_in_the_store() {
    let bed = Bed::new();
    make_tree(&bed, "tree");
    let tree = bed.local("tree");
    bed.ok([OsStr::new("put"), OsStr::new("-r"), tree.as_os_str(), OsStr::new("/")]);
    bed.ok(["cp", "-r", "/tree", "/copy"]);
    for name in ["tree", "copy"] {
        let back = bed.local(format!("back-{name}"));
        bed.ok([OsStr::new("get"), OsStr::new("-r"), OsStr::new(name), back.as_os_str()]);
        same_tree(&tree, &back);
    }
    // Into folders that exist, over what is there.
    bed.ok([OsStr::new("put"), OsStr::new("-r"), tree.as_os_str(), OsStr::new("/")]);
    let list = bed.json(["ls", "-aR", "/tree"]);
    let odd = list.as_array().unwrap().iter().find(|e| e.get("path_bytes").is_some()).unwrap();
    let bytes: Vec<u8> = serde_json::from_value(odd["path_bytes"].clone()).unwrap();
    assert_eq!(bytes, b"/tree/odd \xff\n\x1b name");
}

#[test]
fn holes_are_not_filled() {
    let bed = Bed::new();
    let from = bed.local("sparse");
    let file = fs::File::create(&from).unwrap();
    file.write_all_at(b"middle", 40 << 20).unwrap();
    file.set_len(64 << 20).unwrap();
    let stored_sparsely = file.metadata().unwrap().blocks() * 512 < 8 << 20;
    bed.ok([OsStr::new("put"), from.as_os_str(), OsStr::new("/sparse")]);
    let stat = bed.json(["stat", "/sparse"]);
    assert_eq!(stat[0]["size"], 64 << 20);
    assert!(!stored_sparsely || stat[0]["allocated_bytes"].as_u64().unwrap() < 8 << 20, "{stat}");
    let back = bed.local("back");
    bed.ok([OsStr::new("get"), OsStr::new("/sparse"), back.as_os_str()]);
    assert!(fs::read(&back).unwrap() == fs::read(&from).unwrap());
}

#[test]
fn a_file_that_is_put_again_is_replaced() {
    let bed = Bed::new();
    let from = bed.make("f", &noise(3 << 20));
    bed.ok([OsStr::new("put"), from.as_os_str(), OsStr::new("/f")]);
    bed.make("f", b"short");
    bed.ok([OsStr::new("put"), from.as_os_str(), OsStr::new("/f")]);
    assert_eq!(bed.ok(["cat", "/f"]).stdout, b"short");
}

/// Two of one name, into one folder: one of them is kept whole, and the other is told of.
#[test]
fn sources_of_one_name_do_not_mix() {
    let bed = Bed::new();
    bed.ok(["mkdir", "/d"]);
    let all = ["a", "b"].map(|dir| {
        fs::create_dir(bed.local(dir)).unwrap();
        let content = noise(3 << 20);
        (bed.make(format!("{dir}/same"), &content), content)
    });
    let put = ["put".as_ref(), all[0].0.as_os_str(), all[1].0.as_os_str(), "/d".as_ref()];
    bed.run(put).failed(1, &["b/same", "an earlier source goes to the same place", "EEXIST"]);
    assert!(bed.ok(["cat", "/d/same"]).stdout == all[0].1);
    bed.ok(["mkdir", "/e", "/e/a", "/e/b"]);
    for (path, content) in [("/e/a/same", "1"), ("/e/b/same", "2")] {
        bed.run_with_input(["put", "-", path], content.as_bytes()).ok();
    }
    bed.run(["cp", "/e/a/same", "/e/b/same", "/e"]).failed(1, &["/e/b/same", "EEXIST"]);
    bed.run(["mv", "/e/a/same", "/e/b/same", "/e"]).failed(1, &["/e/b/same", "EEXIST"]);
    assert_eq!((bed.ok(["cat", "/e/same"]).text(), bed.ok(["cat", "/e/b/same"]).text()), ("1".into(), "2".into()));
    // Folders of one name become one.
    let put =
        ["put", "-r", "a", "b", "/d"].map(|a| if a.len() == 1 { bed.local(a).into_os_string() } else { a.into() });
    bed.ok(put);
    assert!(bed.ok(["cat", "/d/b/same"]).stdout == all[1].1);
}

#[test]
fn standard_input_and_output() {
    let bed = Bed::new();
    let bytes = noise(2_500_000);
    bed.run_with_input(["put", "-", "/in"], &bytes).ok();
    assert!(bed.ok(["get", "/in", "-"]).stdout == bytes);
    bed.run_with_input(["put", "-", "/empty"], b"").ok();
    assert_eq!(bed.json(["stat", "/empty"])[0]["size"], 0);
    bed.run_with_input(["put", "-", "/"], b"x").failed(1, &["clio: put '-':", "whole path", "EISDIR"]);
    let folder = fs::File::open(bed.local(".")).unwrap();
    let put = bed.command(["put", "-", "/in"]).stdin(folder).output().unwrap();
    let told = String::from_utf8(put.stderr).unwrap();
    assert!(put.status.code() == Some(1) && told.contains("standard input is a folder"), "{told}");
    assert!(bed.ok(["cat", "/in"]).stdout == bytes, "what was there is left alone");
    bed.run(["put", "-", "x", "/y"]).failed(2, &["only source"]);
    bed.run(["get", "/in", "/empty", "-"]).failed(2, &["only one file"]);
}

#[test]
fn one_failure_does_not_keep_the_rest_from_going_on() {
    let bed = Bed::new();
    let (a, b) = (bed.make("a", b"A"), bed.make("b", b"B"));
    let missing = bed.local("missing");
    let args = [OsStr::new("put"), a.as_os_str(), missing.as_os_str(), b.as_os_str(), OsStr::new("/")];
    let ran = bed.run(args).failed(1, &["clio: put '", "missing': no such file", "ENOENT"]);
    assert_eq!(ran.stderr.lines().count(), 1);
    let ran = bed.run(["cat", "/a", "/none", "/b"]).failed(1, &["clio: cat '/none':", "check the path", "ENOENT"]);
    assert_eq!(ran.stdout, b"AB");
}

/// Nothing is cut to nothing for a source that can't be read: what was there before stays, content, mode and time.
#[test]
fn a_source_that_cannot_be_read_leaves_what_was_there() {
    let bed = Bed::new();
    for (name, bytes) in
        [("tree/a", b"old a"), ("tree/closed", b"old b"), ("tree/shut/c", b"old c"), ("tree/z", b"old z")]
    {
        bed.make(name, bytes);
    }
    let tree = bed.local("tree");
    bed.ok([OsStr::new("put"), OsStr::new("-r"), tree.as_os_str(), OsStr::new("/")]);
    bed.ok([OsStr::new("put"), tree.join("a").as_os_str(), OsStr::new("/single")]);
    let before = bed.json(["stat", "/tree/closed", "/tree/shut/c", "/single"]);
    for name in ["a", "closed", "shut/c", "z", "new"] {
        bed.make(format!("tree/{name}"), b"new");
    }
    let modes = |mode| {
        for name in ["closed", "new", "shut"] {
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    modes(0);
    let closed = tree.join("closed");
    let runs: [&[&OsStr]; 2] = [
        &[OsStr::new("put"), OsStr::new("-r"), tree.as_os_str(), OsStr::new("/")],
        &[OsStr::new("put"), closed.as_os_str(), OsStr::new("/single")],
    ];
    for (args, failures) in runs.into_iter().zip([3, 1]) {
        let Some(mut command) = bound_by_modes(bed.command(args)) else { return modes(0o755) };
        let ran = run(&mut command, b"").failed(1, &["EACCES"]);
        assert_eq!(ran.stderr.lines().count(), failures, "{}", ran.stderr);
    }
    modes(0o755);
    assert_eq!(bed.json(["stat", "/tree/closed", "/tree/shut/c", "/single"]), before);
    let content = |path| String::from_utf8(bed.ok(["cat", path]).stdout).unwrap();
    let all = ["/tree/a", "/tree/closed", "/tree/shut/c", "/tree/z", "/single"].map(content);
    assert_eq!(all, ["new", "old b", "old c", "new", "old a"]);
    bed.run(["stat", "/tree/new"]).failed(1, &["ENOENT"]);
    bed.ok(["check"]);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let bed = Bed::new();
    let a = bed.make("dir/a", b"A");
    let dir = bed.local("dir");
    bed.run([OsStr::new("put"), dir.as_os_str(), OsStr::new("/")]).failed(1, &["dir': it is a folder; give -r"]);
    bed.ok([OsStr::new("put"), a.as_os_str(), OsStr::new("/a")]);
    bed.ok(["mkdir", "/d"]);
    bed.run(["cp", "/a", "/a"]).failed(1, &["are the same"]);
    bed.run(["cp", "-r", "/d", "/d/e"]).failed(1, &["inside the source"]);
    bed.run(["cp", "/a", "/d", "/new"]).failed(1, &["several sources need a folder"]);
    bed.run(["cp", "/a", "/new/"]).failed(1, &["there is no such folder"]);
    bed.ok(["mkdir", "/d/a"]);
    bed.run(["cp", "/a", "/d"]).failed(1, &["a folder is in its place"]);
    assert_eq!(bed.ok(["cat", "/a"]).stdout, b"A");
    // What takes data only keeps its own mode.
    let mode = fs::metadata("/dev/null").unwrap().mode();
    bed.ok(["get", "/a", "/dev/null"]);
    assert_eq!(fs::metadata("/dev/null").unwrap().mode(), mode);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let bed = Bed::new();
    let from = bed.make("big", &noise(8 << 20));
    bed.ok([OsStr::new("put"), from.as_os_str(), OsStr::new("/big")]);
    for args in [&["cat", "/big"][..], &["get", "/big", "-"]] {
        let mut child = bed.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!((out.status.code(), String::from_utf8_lossy(&out.stderr).as_ref()), (Some(0), ""));
    }
}

/// A tree has more objects than the process may have open files.
#[test]
fn trees_are_copied_with_few_open_files() {
    let bed = Bed::new();
    bed.ok(["setstripe", "-c", "4", "-S", "64K", "/"]);
    for n in 0..40 {
        bed.make(format!("tree/{n}"), &noise(270_000 + n));
    }
    let (tree, back) = (bed.local("tree"), bed.local("back"));
    let limited = |args: &[&OsStr]| run(&mut with_few_files(&bed.command(args), 48), b"").ok();
    let word = OsStr::new;
    limited(&[word("put"), word("-r"), tree.as_os_str(), word("/")]);
    limited(&[word("get"), word("-r"), word("/tree"), back.as_os_str()]);
    same_tree(&tree, &back);
    limited(&[word("check")]);
}
