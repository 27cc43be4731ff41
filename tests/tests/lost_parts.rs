//! Parts of a store that are gone: it is refused, or what is missing is told. Never is something empty made in its place,
//! and no repair removes data.

use clio::{Client, Errno, Result};
use clio_tests::stored::{LEN, Stored, refused};
use clio_tests::{content, pattern, read_write};
use std::fs;
use std::path::{Path, PathBuf};

fn open(s: &Stored) -> Result<Client> {
    Client::open(&s.store().display().to_string())
}

/// All files below `path`, with their content.
fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).expect("read_dir") {
        let path = entry.expect("entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.clone(), fs::read(&path).expect("read"))),
        }
    }
    found
}

/// Takes the part `lost` out of a store: then it is refused, with the same answer each time, and whole again once the
/// part is back.
#[track_caller]
fn is_refused_without(lost: &str, errno: Errno, words: &[&str]) {
    let s = Stored::new();
    let (part, aside) = (s.store().join(lost), s.dir.path().join("aside"));
    fs::rename(&part, &aside).expect("rename");
    for _ in 0..2 {
        refused(open(&s), errno, words);
        let more = Client::open(&format!("dir:{}?targets=2", s.store().display()));
        refused(more, errno, words);
        assert!(!part.exists(), "nothing is made in place of '{lost}'");
    }
    fs::rename(&aside, &part).expect("rename");
    assert!(content(&open(&s).expect("open"), "/f") == pattern(1, 0, LEN), "nothing was lost by all that");
    assert!(open(&s).expect("open").check(false).expect("check").is_clean());
}

#[test]
fn names_that_are_gone() {
    is_refused_without("namespace", Errno::ENOENT, &["namespace", "restore that from a copy"]);
}

#[test]
fn parts_of_the_names_that_are_gone() {
    fn words(part: &str) -> [&str; 3] {
        [part, "is missing", "restore the folder from a copy"]
    }
    is_refused_without("namespace/version", Errno::EBADMSG, &words("'version'"));
    for n in 0..=5 {
        let part = format!("namespace/keyspaces/{n}");
        let marker = format!("keyspaces/{n}/current");
        is_refused_without(&part, Errno::EBADMSG, &words(&marker));
        is_refused_without(&format!("{part}/current"), Errno::EBADMSG, &words(&marker));
    }
    is_refused_without("namespace/0.jnl", Errno::EBADMSG, &words("journal"));
}

#[test]
fn parts_of_the_names_that_are_empty() {
    let s = Stored::new();
    let names = s.store().join("namespace");
    for part in ["version", "0.jnl"] {
        let path = names.join(part);
        let good = fs::read(&path).expect("read");
        fs::write(&path, "").expect("write");
        refused(open(&s), Errno::EBADMSG, &["restore the folder from a copy"]);
        fs::write(&path, good).expect("write");
        assert!(content(&open(&s).expect("open"), "/f") == pattern(1, 0, LEN));
    }
    let aside = s.dir.path().join("aside");
    fs::rename(&names, &aside).expect("rename");
    fs::create_dir(&names).expect("mkdir");
    refused(open(&s), Errno::EBADMSG, &["'version' is missing"]);
}

#[test]
fn a_header_that_is_gone() {
    is_refused_without("clio-store.json", Errno::EBADMSG, &["objects in 'target-", "clio-store.json", "from a copy"]);
}

/// Without objects, the names tell that the store was used.
#[test]
fn a_header_that_is_gone_from_a_store_of_empty_files() {
    let s = Stored::new();
    {
        let client = open(&s).expect("open");
        client.remove_file("/f").expect("remove");
        client.create("/empty").expect("create");
        client.sync().expect("sync");
    }
    let before = files(&s.store()).len();
    fs::remove_file(s.store().join("clio-store.json")).expect("remove");
    for targets in ["", "?targets=2"] {
        let result = Client::open(&format!("dir:{}{targets}", s.store().display()));
        refused(result, Errno::EBADMSG, &[]);
    }
    assert_eq!(files(&s.store()).len(), before - 1);
    fs::write(s.store().join("clio-store.json"), r#"{"magic":"clio store","format":1,"targets":2}"#).expect("write");
    assert!(open(&s).expect("open").exists("/empty"));
}

#[test]
fn a_header_with_too_few_targets() {
    let s = Stored::new();
    let header = s.store().join("clio-store.json");
    fs::write(&header, r#"{"magic":"clio store","format":1,"targets":1}"#).expect("write");
    refused(open(&s), Errno::EBADMSG, &["target-0001", "another store's"]);
    let aside = s.dir.path().join("aside");
    fs::rename(s.store().join("target-0001"), aside).expect("rename");
    let client = open(&s).expect("open");
    for repair in [false, true] {
        let report = client.check(repair).expect("check");
        let told = report.findings.iter().any(|f| f.contains("no such target") && f.contains("1 stripes"));
        assert!(told && report.repaired.is_empty(), "{report}");
    }
}

#[test]
fn a_stripe_that_is_gone_whole() {
    let s = Stored::new();
    for sums in [false, true] {
        s.objects(sums).iter().for_each(|o| fs::remove_file(o).expect("remove"));
    }
    let client = open(&s).expect("open");
    for repair in [false, true] {
        let report = client.check(repair).expect("check");
        assert!(report.findings.len() == 1 && report.repaired.is_empty(), "{report}");
        assert!(report.findings[0].contains("[0x1:0x2:0x1]") && report.findings[0].contains("missing"), "{report}");
    }
    let file = client.open_file("/f").expect("open");
    let mut buf = vec![0; LEN];
    refused(file.read_exact_at(&mut buf, 0), Errno::EBADMSG, &["missing", "restore"]);
    file.read_exact_at(&mut buf[..1000], 64 << 10).expect("the stripe that is there");
    drop(file);
    client.remove_file("/f").expect("a damaged file can be removed");
    assert!(client.check(false).expect("check").is_clean());
}

/// A file that is open without a name has no name to be found by: its objects are not taken for nobody's.
#[test]
fn an_open_file_without_a_name_is_kept_by_a_repair() {
    let s = Stored::new();
    let client = open(&s).expect("open");
    let file = client.open_file("/f").expect("open");
    client.remove_file("/f").expect("remove");
    for repair in [false, true] {
        let report = client.check(repair).expect("check");
        assert!(report.is_clean() && report.repaired.is_empty(), "{report}");
    }
    client.drop_caches().expect("drop");
    let mut buf = vec![0; LEN];
    file.read_exact_at(&mut buf, 0).expect("read");
    assert!(buf == pattern(1, 0, LEN));
}

/// What follows a damaged place in the journal of names can't be read any more, and is not taken for never written.
#[test]
fn a_damaged_journal_of_names() {
    let s = Stored::new();
    let (names, good) = (s.store().join("namespace"), s.dir.path().join("good"));
    copy(&names, &good);
    let bytes = fs::read(names.join("0.jnl")).expect("read");
    let written = bytes.iter().rposition(|b| *b != 0).expect("something") + 1;
    for at in (0..32).map(|n| written * n / 32).chain([written - 1]) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        fs::write(names.join("0.jnl"), &bytes).expect("write");
        for _ in 0..2 {
            refused(open(&s), Errno::EBADMSG, &["copy"]);
        }
        fs::remove_dir_all(&names).expect("remove");
        copy(&good, &names);
    }
    assert!(content(&open(&s).expect("open"), "/f") == pattern(1, 0, LEN));
}

fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
    assert!(done.success());
}

/// A target's folder from an older copy, or from another store, holds other data than the names tell of.
#[test]
fn targets_that_are_not_the_ones_that_were_there() {
    let (s, other) = (Stored::new(), Stored::new());
    let (target, aside) = (s.store().join("target-0001"), s.dir.path().join("aside"));
    copy(&target, &aside);
    drop(open(&s).expect("open"));
    let replace = |by: &Path| {
        fs::remove_dir_all(&target).expect("remove");
        copy(by, &target);
    };
    let latest = s.dir.path().join("latest");
    copy(&target, &latest);
    for (by, word) in [(aside, "older than"), (other.store().join("target-0001"), "another store")] {
        drop(open(&other).expect("open"));
        replace(&by);
        for _ in 0..2 {
            refused(open(&s), Errno::EBADMSG, &[word, "target 1", "clio-parts.json"]);
        }
        replace(&latest);
        assert!(content(&open(&s).expect("open"), "/f") == pattern(1, 0, LEN));
        fs::remove_dir_all(&latest).expect("remove");
        copy(&target, &latest);
    }
    // What tells is no part of the store.
    for text in ["", "{\"targets\":7}"] {
        fs::write(s.store().join("clio-parts.json"), text).expect("write");
        assert!(content(&open(&s).expect("open"), "/f") == pattern(1, 0, LEN));
    }
}

/// Names from a copy that is older than the data: what they don't know is set aside, not removed.
#[test]
fn names_that_have_been_set_back() {
    let s = Stored::new();
    let (names, older) = (s.store().join("namespace"), s.dir.path().join("older"));
    open(&s).expect("open").remove_file("/f").expect("remove");
    copy(&names, &older);
    let data = pattern(7, 0, LEN);
    {
        let client = open(&s).expect("open");
        let file = client.create("/later").expect("create");
        file.write_all_at(&data, 0).expect("write");
        file.sync_all().expect("sync");
    }
    fs::remove_dir_all(&names).expect("remove");
    copy(&older, &names);
    // Told, until somebody says that it is meant.
    for _ in 0..2 {
        refused(open(&s), Errno::EBADMSG, &["names are older", "clio-parts.json"]);
    }
    fs::remove_file(s.store().join("clio-parts.json")).expect("remove");
    let client = open(&s).expect("open");
    let report = client.check(true).expect("check");
    assert!(report.is_clean() && report.repaired.len() == 1, "{report}");
    assert!(report.repaired[0].contains("belongs to no file: moved to"), "{report}");
    assert!(client.check(true).expect("check").repaired.is_empty());
    let kept = files(&s.store());
    assert!(kept.iter().any(|(path, bytes)| path.parent().is_some_and(|p| p.ends_with("aside")) && *bytes == data));
    // The FID is used again: by a file that has nothing to do with that data.
    let file = client.create("/new").expect("create");
    file.write_all_at(b"new", 0).expect("write");
    assert_eq!(content(&client, "/new"), b"new");
}

/// A byte of the first target's object is changed.
fn damage(s: &Stored) {
    let path = &s.objects(false)[0];
    let mut data = fs::read(path).expect("read");
    data[5000] ^= 1;
    fs::write(path, data).expect("write");
}

fn lose(s: &Stored) {
    s.objects(false).iter().chain(&s.objects(true)).for_each(|path| fs::remove_file(path).expect("remove"));
}

fn read(client: &Client) -> Result<usize> {
    client.open_file("/f")?.read_at(&mut vec![0; LEN], 0)
}

/// What was durable when the machine went down is judged as ever.
#[test]
fn a_reboot_excuses_nothing_that_was_durable() {
    for harm in [damage, lose] {
        let s = Stored::new();
        s.pretend_reboot();
        harm(&s);
        refused(read(&open(&s).expect("open")), Errno::EBADMSG, &["restore"]);
        let report = open(&s).expect("open").check(false).expect("check");
        assert!(!report.is_clean() && report.unjudged == 0, "{report}");
    }
}

/// What was not durable may be anything after a crash of the machine, until it has been looked at: by a check, or by
/// whoever makes all durable.
#[test]
fn what_a_reboot_casts_doubt_on_is_judged_once_it_was_looked_at() {
    for by_check in [true, false] {
        let s = Stored::new();
        {
            let client = open(&s).expect("open");
            let file = client.open_with("/f", read_write()).expect("open");
            file.write_all_at(b"not durable", 0).expect("write");
        }
        s.pretend_reboot();
        damage(&s);
        let client = open(&s).expect("open");
        match by_check {
            true => {
                let report = client.check(false).expect("check");
                let blocks = fs::metadata(&s.objects(false)[0]).expect("metadata").len().div_ceil(4096);
                assert!(report.is_clean(), "{report}");
                assert_eq!(report.unjudged, blocks, "each once, of the object that was written");
            }
            false => client.sync().expect("sync"),
        }
        drop(client);
        s.pretend_reboot();
        damage(&s);
        refused(read(&open(&s).expect("open")), Errno::EBADMSG, &["damaged"]);
    }
}

/// A client makes durable also what others have written, who have gone.
#[test]
fn a_sync_of_all_is_for_what_others_wrote_too() {
    let s = Stored::new();
    {
        let keeper = open(&s).expect("open");
        {
            let writer = open(&s).expect("open");
            writer.open_with("/f", read_write()).expect("open").write_all_at(b"not durable", 0).expect("write");
        }
        keeper.sync().expect("sync");
    }
    s.pretend_reboot();
    damage(&s);
    refused(read(&open(&s).expect("open")), Errno::EBADMSG, &["damaged"]);
}

/// Of objects that no file owns any more, what is left is told of, and goes with a repair.
#[test]
fn what_is_left_of_objects_without_a_file() {
    let s = Stored::new();
    let aside = s.dir.path().join("aside");
    copy(&s.store().join("target-0000"), &aside);
    open(&s).expect("open").remove_file("/f").expect("remove");
    // The checksums come back, as after a crash of the machine, but not the data.
    for part in ["objects", "made"] {
        copy(&aside.join(part), &s.store().join("target-0000"));
    }
    s.objects(false).iter().for_each(|data| fs::remove_file(data).expect("remove"));
    let report = open(&s).expect("open").check(false).expect("check");
    assert_eq!(report.findings.len(), 1, "{report}");
    assert!(report.findings[0].contains("belongs to no file, and only its checksums are left"), "{report}");
    let report = open(&s).expect("open").check(true).expect("check");
    assert!(report.is_clean() && report.repaired.len() == 1, "{report}");
    let report = open(&s).expect("open").check(true).expect("check");
    assert!(report.is_clean() && report.repaired.is_empty(), "{report}");
}
