//! What goes wrong is told in a sentence, with an errno and a way out, and the right exit code.

use crate::harness::{Bed, clio, noise, run};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

#[test]
fn no_store_and_bad_uris() {
    run(clio().arg("ls"), b"").failed(2, &["clio: ls: no store is named", "CLIO_STORE"]);
    run(clio().args(["--store", "ftp:/x", "ls"]), b"").failed(1, &["clio: ls 'ftp:/x': unknown kind", "EINVAL"]);
    run(clio().args(["--store", "rados://p/x", "ls"]), b"").failed(1, &["'rados:' stores yet", "EOPNOTSUPP"]);
    run(clio().args(["--store", "dir:/x?targets=0", "ls"]), b"").failed(1, &["from 1 to"]);
    run(clio().args(["--store", "mem:", "lss"]), b"").failed(2, &["similar"]);
    run(clio().args(["--store", "mem:", "put", "x"]), b"").failed(2, &["Usage"]);
}

#[test]
fn a_missing_store_is_not_made_by_looking_for_it() {
    let bed = Bed::without_store();
    for args in [&["ls"][..], &["get", "/x", "."], &["stat", "/"], &["check"], &["rm", "/x"], &["df"]] {
        bed.run(args).failed(1, &["there is no store in this folder", "clio format", "ENOENT"]);
        assert!(!bed.store_dir().exists());
    }
    let status = bed.run(["status", "--json"]).failed(1, &[]).json();
    assert_eq!((&status["state"], &status["total_bytes"]), (&"missing".into(), &Value::Null));
    // Writing makes one.
    bed.ok(["mkdir", "/d"]);
    assert_eq!(bed.ok(["ls"]).lines(), ["d"]);
}

#[test]
fn format_makes_new_stores_only() {
    let bed = Bed::new();
    bed.ok(["mkdir", "/d"]);
    bed.run(["format"]).failed(1, &["clio: format 'dir:", "EEXIST"]);
    assert_eq!(bed.ok(["ls"]).lines(), ["d"]);
    bed.run(["format", "--targets", "0"]).failed(2, &["1..=1024"]);
    let other = bed.local("other");
    let uri = format!("dir:{}?targets=2", other.display());
    run(clio().args(["--store", &uri, "format", "--targets", "3"]), b"").failed(2, &["leave one out"]);
    run(clio().args(["--store", &uri, "format"]), b"").ok();
    run(clio().args(["--store", other.to_str().unwrap(), "ls"]), b"").ok();
    let uri = format!("dir:{}?targets=3", other.display());
    run(clio().args(["--store", &uri, "ls"]), b"").failed(1, &["the store has 2 targets, not 3", "EINVAL"]);
}

#[test]
fn a_folder_that_is_none_of_clios_is_left_alone() {
    let bed = Bed::without_store();
    let foreign = bed.make("store/precious", b"mine");
    for args in [&["ls"][..], &["mkdir", "/d"], &["format"]] {
        bed.run(args).failed(1, &["not empty"]);
    }
    assert_eq!(fs::read_dir(bed.store_dir()).unwrap().count(), 1);
    assert_eq!(fs::read(foreign).unwrap(), b"mine");
    fs::write(bed.store_dir().join("clio-store.json"), "{}").unwrap();
    bed.run(["ls"]).failed(1, &["damaged, or none of Clio's", "EBADMSG"]);
}

/// Whoever only looks makes no store, also where somebody once began to make one.
#[test]
fn a_store_that_was_only_begun_is_not_made_by_looking() {
    let bed = Bed::without_store();
    fs::create_dir(bed.store_dir()).unwrap();
    fs::write(bed.store_dir().join("lock"), "").unwrap();
    bed.run(["check"]).failed(1, &["ENOENT"]);
    bed.run(["ls"]).failed(1, &["ENOENT"]);
    assert_eq!(fs::read_dir(bed.store_dir()).unwrap().count(), 1);
    bed.ok(["mkdir", "/d"]);
}

#[test]
fn a_file_in_the_stores_place() {
    let bed = Bed::without_store();
    bed.make("store", b"a file");
    bed.run(["ls"]).failed(1, &["clio: ls 'dir:", "ENOTDIR"]);
    bed.run(["mkdir", "/d"]).failed(1, &["clio: mkdir 'dir:", "ENOTDIR"]);
    bed.run(["format"]).failed(1, &["EEXIST"]);
    assert_eq!(bed.run(["status", "--json"]).failed(1, &[]).json()["state"], "unusable");
}

#[test]
fn a_newer_store_is_refused_untouched() {
    let bed = Bed::new();
    let header = bed.store_dir().join("clio-store.json");
    let newer = fs::read_to_string(&header).unwrap().replace("\"format\": 1", "\"format\": 99");
    fs::write(&header, &newer).unwrap();
    for args in [&["ls"][..], &["mkdir", "/d"], &["check", "--repair"]] {
        bed.run(args).failed(1, &["format 99", "use a newer Clio", "EPROTO"]);
    }
    assert_eq!(fs::read_to_string(&header).unwrap(), newer);
}

/// All files below a folder that hold these bytes somewhere.
fn files_with(dir: &Path, needle: &[u8], found: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_with(&path, needle, found);
        } else if let Some(at) = fs::read(&path).unwrap().windows(needle.len()).position(|w| w == needle) {
            found.push((path, at as u64));
        }
    }
}

#[test]
fn damaged_and_truncated_objects_are_found_by_check() {
    let bed = Bed::new();
    let bytes = noise(200_000);
    bed.ok(["setstripe", "-c", "1", "/f"]);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    let mut found = Vec::new();
    files_with(&bed.store_dir(), &bytes[100_000..100_100], &mut found);
    let [(object, at)] = found.as_slice() else { panic!("the data is in one file: {found:?}") };
    let file = fs::File::options().write(true).open(object).unwrap();
    let (good, bad) = (bytes[100_000], bytes[100_000] ^ 1);
    file.write_all_at(&[bad], *at).unwrap();
    let report = bed.run(["check", "--json"]).failed(1, &[]).json();
    assert_eq!((&report["clean"], report["findings"].as_array().map(Vec::len)), (&false.into(), Some(1)));
    let text = bed.run(["check", "--repair"]).failed(1, &[]).text();
    assert!(text.contains("found: target ") && text.ends_with("1 findings\n"), "{text}");
    file.write_all_at(&[good], *at).unwrap();
    bed.ok(["check"]);
    file.set_len(150_000).unwrap();
    bed.run(["check"]).failed(1, &[]);
}

#[test]
fn objects_without_a_file_are_set_aside_by_repair() {
    let bed = Bed::new();
    let bytes = noise(1000);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    // The names of before the file was made are as after a crash that lost them.
    let names = bed.store_dir().join("namespace");
    let fresh = Bed::new();
    fs::remove_dir_all(&names).unwrap();
    let copied =
        std::process::Command::new("cp").arg("-r").arg(fresh.store_dir().join("namespace")).arg(&names).status();
    assert!(copied.unwrap().success());
    bed.run(["check"]).failed(1, &["EBADMSG", "older", "clio-parts.json"]);
    fs::remove_file(bed.store_dir().join("clio-parts.json")).unwrap();
    bed.run(["check"]).failed(1, &[]);
    let report = bed.json(["check", "--repair"]);
    assert!(!report["repaired"].as_array().unwrap().is_empty(), "{report}");
    assert_eq!(bed.json(["check"])["objects"], 0);
    let mut kept = Vec::new();
    files_with(&bed.store_dir(), &bytes, &mut kept);
    assert!(kept.len() == 1 && kept[0].0.parent().unwrap().ends_with("aside"), "{kept:?}");
}

#[test]
fn a_damaged_file_can_be_removed_by_name() {
    let bed = Bed::new();
    let bytes = noise(10_000);
    bed.ok(["setstripe", "-c", "1", "/f"]);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    let mut found = Vec::new();
    files_with(&bed.store_dir(), &bytes[..100], &mut found);
    fs::remove_file(found[0].0.with_extension("sum")).unwrap();
    bed.run(["ls", "-l", "/"]).failed(1, &["EBADMSG"]);
    bed.run(["rm", "/f"]).ok();
    assert_eq!(bed.json(["check"])["objects"], 0);
}

/// A block that somebody cut off or punched out of an object is not copied as zeros.
#[test]
fn copies_of_objects_with_lost_blocks_fail() {
    let bed = Bed::new();
    let bytes = noise(200_704);
    bed.ok(["setstripe", "-c", "1", "/f"]);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    let mut found = Vec::new();
    files_with(&bed.store_dir(), &bytes[..100], &mut found);
    let object = fs::File::options().write(true).open(&found[0].0).unwrap();
    let lose = |from: u64| {
        object.set_len(from).unwrap();
        // At its old length again, the rest is a hole.
        object.set_len(bytes.len() as u64).unwrap();
    };
    for from in [196_608, 98_304, 0] {
        lose(from);
        let to = bed.local(format!("copy-{from}"));
        bed.run([OsStr::new("get"), OsStr::new("/f"), to.as_os_str()]).failed(1, &["EBADMSG", "/f"]);
        bed.run(["cp", "/f", "/copy"]).failed(1, &["EBADMSG", "/f"]);
        bed.run(["cat", "/f"]).failed(1, &["EBADMSG"]);
    }
    object.write_all_at(&bytes, 0).unwrap();
    let to = bed.local("whole");
    bed.run([OsStr::new("get"), OsStr::new("/f"), to.as_os_str()]).ok();
    assert!(fs::read(to).unwrap() == bytes);
}

#[test]
fn paths_that_are_too_long() {
    let bed = Bed::new();
    let name = format!("/{}", "n".repeat(256));
    let path = "/abc".repeat(1100);
    bed.run(["mkdir", &name]).failed(1, &["clio: mkdir '/nnn", "ENAMETOOLONG"]);
    bed.run(["stat", &path]).failed(1, &["clio: stat '/abc", "ENAMETOOLONG"]);
    let file = bed.make("f", b"x");
    bed.run([OsStr::new("put"), file.as_os_str(), OsStr::new(&name)]).failed(1, &["clio: put '", "ENAMETOOLONG"]);
    bed.ok(["mkdir", &name[..256]]);
}

#[test]
fn a_second_process_is_told_who_is_in_the_way() {
    let bed = Bed::new();
    bed.ok(["mkdir", "/d"]);
    // A put from a pipe keeps the store open until the pipe is closed. More than a pipe holds has gone in only when
    // the process reads, which it does once the store is open.
    let mut first = bed.command(["put", "-", "/d/slow"]).stdin(Stdio::piped()).spawn().unwrap();
    first.stdin.as_mut().unwrap().write_all(&noise(2 << 20)).unwrap();
    let who = format!("another process ({})", first.id());
    let node = format!("node:{} ", bed.store_dir().display());
    bed.run(["ls"]).failed(1, &["clio: ls 'dir:", &who, "cliod", &node, "clio serve", "EBUSY"]);
    assert_eq!(bed.run(["status", "--json"]).failed(1, &[]).json()["state"], "busy");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(bed.ok(["ls", "/d"]).lines(), ["slow"]);
}

#[test]
fn files_and_folders_in_each_others_place() {
    let bed = Bed::new();
    bed.ok(["mkdir", "/d"]);
    bed.run_with_input(["put", "-", "/f"], b"x").ok();
    bed.run(["cat", "/d"]).failed(1, &["clio: cat '/d':", "EISDIR"]);
    bed.run(["get", "/d", "-"]).failed(1, &["clio: get '/d':", "EISDIR"]);
    bed.run(["get", "/d", "."]).failed(1, &["clio: get '/d': it is a folder; give -r"]);
    bed.run(["ls", "/f/x"]).failed(1, &["clio: ls '/f/x':", "ENOTDIR"]);
    bed.run(["ln", "/d", "/e"]).failed(1, &["clio: ln '/e':", "EPERM"]);
    bed.run(["get", "/f", "/no/such/place"])
        .failed(1, &["clio: get '/f': open '/no/such/place': no such file", "check the path (ENOENT)"]);
}

/// Nobody reads what is said on stderr: the rest is done all the same, and the exit code tells.
#[test]
fn a_stderr_that_nobody_reads() {
    for log in ["warn", "trace"] {
        let bed = Bed::new();
        let file = bed.make("file", &noise(1000));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = bed.command(["put", "nowhere/1", "nowhere/2"]);
        command.arg(&file).arg("/").env("CLIO_LOG", log).stderr(writer);
        assert_eq!(command.status().unwrap().code(), Some(1), "{log}");
        assert_eq!(bed.ok(["cat", "/file"]).stdout, noise(1000));
    }
}

/// Nobody reads standard output: the exit code is that of the outcome.
#[test]
fn a_stdout_that_nobody_reads() {
    let code = |bed: &Bed, args: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = bed.command(args).stdout(writer).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let bed = Bed::new();
    let bytes = noise(200_000);
    bed.ok(["setstripe", "-c", "1", "/f"]);
    bed.run_with_input(["put", "-", "/f"], &bytes).ok();
    let looking =
        [&["check"][..], &["status"], &["ls", "-R"], &["stat", "/f"], &["cat", "/f"], &["get", "/f", "-"], &["df"]];
    for args in looking.into_iter().flat_map(|args| [args.to_vec(), [args, &["--json"]].concat()]) {
        assert_eq!(code(&bed, &args), (Some(0), String::new()), "{args:?}");
    }
    for args in [&["ls", "/none", "/"], &["stat", "/none", "/f"], &["cat", "/none", "/f"], &["du", "/none", "/"]] {
        let (code, stderr) = code(&bed, args);
        assert!(code == Some(1) && stderr.contains("'/none': "), "{args:?}: {code:?}: {stderr}");
    }
    // Damage, and a store that can't be used, are told on standard output alone.
    let mut found = Vec::new();
    files_with(&bed.store_dir(), &bytes[100_000..100_100], &mut found);
    fs::File::options().write(true).open(&found[0].0).unwrap().write_all_at(b"damage", found[0].1).unwrap();
    for args in [&["check"][..], &["check", "--json"], &["check", "--repair"]] {
        assert_eq!(code(&bed, args).0, Some(1), "{args:?}");
    }
    fs::remove_file(bed.store_dir().join("clio-store.json")).unwrap();
    for args in [&["status"][..], &["status", "--json"]] {
        assert_eq!(code(&bed, args).0, Some(1), "{args:?}");
    }
}
