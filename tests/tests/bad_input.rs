//! Bad input: each is a typed error with its errno, and a sentence that says what to do. Nothing is lost by it.

use clio::{Client, Errno, OpenOptions, Result};
use clio_tests::stored::{LEN, Stored, refused};
use clio_tests::{content, narrow, pattern, read_write};
use std::fs;
use std::path::Path;
use std::process::Command;

fn open(path: &Path) -> Result<Client> {
    Client::open(&path.display().to_string())
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("read");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("write");
}

#[test]
fn missing_and_foreign_places_are_no_stores() {
    let s = Stored::new();
    let place = s.dir.path().join("file");
    fs::write(&place, "x").expect("write");
    refused(open(&place), Errno::ENOTDIR, &["file", "give the path of a folder"]);
    let place = s.dir.path().join("foreign");
    fs::create_dir(&place).expect("mkdir");
    fs::write(place.join("letter.txt"), "x").expect("write");
    refused(open(&place), Errno::ENOTEMPTY, &["foreign", "letter.txt", "name an empty one"]);
    assert!(place.join("letter.txt").exists());
    refused(
        Client::open(&format!("dir:{}?targets=3", s.store().display())),
        Errno::EINVAL,
        &["has 2 targets, not 3", "leave 'targets=' out"],
    );
    let header = s.store().join("clio-store.json");
    fs::write(&header, r#"{"magic":"clio store","format":2,"targets":2}"#).expect("write");
    refused(open(&s.store()), Errno::EPROTO, &["format 2", "use a newer Clio"]);
    fs::write(&header, "{}").expect("write");
    refused(open(&s.store()), Errno::EBADMSG, &["clio-store.json", "damaged"]);
}

#[test]
fn target_folders_that_are_not_what_they_should_be() {
    let s = Stored::new();
    let (first, second, aside) =
        (s.store().join("target-0000"), s.store().join("target-0001"), s.dir.path().join("aside"));
    let swap = || {
        fs::rename(&first, &aside).expect("rename");
        fs::rename(&second, &first).expect("rename");
        fs::rename(&aside, &second).expect("rename");
    };
    swap();
    refused(open(&s.store()), Errno::EINVAL, &["target-0000", "target 1", "in their order"]);
    swap();
    fs::rename(&second, &aside).expect("rename");
    refused(open(&s.store()), Errno::ENOENT, &["target-0001", "no such folder", "check the path"]);
    fs::create_dir(&second).expect("mkdir");
    refused(open(&s.store()), Errno::ENOENT, &["target-0001", "no Clio target", "check the path"]);
    fs::remove_dir(&second).expect("rmdir");
    fs::write(&second, "").expect("write");
    refused(open(&s.store()), Errno::ENOTDIR, &["target-0001", "a target is a folder"]);
    fs::remove_file(&second).expect("remove");
    fs::rename(&aside, &second).expect("rename");
    let header = second.join("target");
    let good = fs::read(&header).expect("read");
    fs::write(&header, [7; 128]).expect("write");
    refused(open(&s.store()), Errno::EBADMSG, &["target-0001", "not a store header of Clio's"]);
    let mut newer = good.clone();
    newer[8] = 9;
    fs::write(&header, newer).expect("write");
    refused(open(&s.store()), Errno::EPROTO, &["format 9", "use a newer Clio"]);
    fs::write(&header, good).expect("write");
    assert!(content(&open(&s.store()).expect("open"), "/f") == pattern(1, 0, LEN), "nothing was lost by all that");
}

/// What `damage` does is found by a check, is no longer there to be read, and isn't "repaired".
fn is_found(damage: impl FnOnce(&Stored), words: &str) {
    let s = Stored::new();
    damage(&s);
    let client = open(&s.store()).expect("open");
    for repair in [false, true] {
        let report = client.check(repair).expect("check");
        assert!(!report.is_clean() && report.repaired.is_empty(), "{report}");
        assert!(report.findings.iter().any(|f| f.contains("[0x1:0x2:0x1]") && f.contains(words)), "{report}");
    }
    let file = client.open_file("/f").expect("open");
    let mut buf = vec![0; LEN];
    refused(file.read_exact_at(&mut buf, 0), Errno::EBADMSG, &[words, "restore"]);
    // The stripe that isn't damaged.
    file.read_exact_at(&mut buf[..1000], 64 << 10).expect("read");
    assert!(buf[..1000] == pattern(1, 64 << 10, 1000));
}

#[test]
fn a_truncated_object_is_found() {
    let cut = |s: &Stored| {
        let path = &s.objects(false)[0];
        let file = fs::File::options().write(true).open(path).expect("open");
        file.set_len(file.metadata().expect("metadata").len() - 70_000).expect("truncate");
    };
    is_found(cut, "cut short");
}

#[test]
fn an_altered_object_is_found() {
    is_found(|s| flip(&s.objects(false)[0], 5000), "checksum doesn't match");
}

#[test]
fn a_lengthened_object_is_found() {
    let longer = |s: &Stored| {
        let path = &s.objects(false)[0];
        let mut bytes = fs::read(path).expect("read");
        bytes.push(1);
        fs::write(path, bytes).expect("write");
    };
    is_found(longer, "longer than it should be");
}

#[test]
fn a_missing_data_file_is_found() {
    is_found(|s| fs::remove_file(&s.objects(false)[0]).expect("remove"), "data file is missing");
}

#[test]
fn missing_and_altered_checksums_are_found() {
    is_found(|s| fs::remove_file(&s.objects(true)[0]).expect("remove"), "checksum file is missing");
    is_found(|s| flip(&s.objects(true)[0], 50), "checksum file is damaged");
}

#[test]
fn names_and_paths_that_are_too_long() {
    let client = Client::open("mem:").expect("open");
    client.create("/f").expect("create");
    let name = format!("/{}", "x".repeat(256));
    let words = ["longer than 255 bytes", "use a shorter one"];
    refused(client.create(&name), Errno::ENAMETOOLONG, &words);
    refused(client.mkdir(&name), Errno::ENAMETOOLONG, &words);
    refused(client.rename("/f", &name), Errno::ENAMETOOLONG, &words);
    refused(client.metadata(&name), Errno::ENAMETOOLONG, &words);
    client.create(format!("/{}", "x".repeat(255))).expect("255 bytes are allowed");
    let path = "/abc".repeat(1025);
    let words = ["longer than 4095 bytes", "use a shorter one"];
    refused(client.create(&path), Errno::ENAMETOOLONG, &words);
    refused(client.rename("/f", &path), Errno::ENAMETOOLONG, &words);
    refused(client.metadata(&path), Errno::ENAMETOOLONG, &words);
    client.metadata("/f").expect("the file is where it was");
}

#[test]
fn layouts_that_cannot_be() {
    let client = Client::open("mem:?targets=2").expect("open");
    let make = |layout| client.open_with("/g", read_write().layout(layout));
    for (layout, words) in [
        (narrow(2).stripe_size(100_000), "not a multiple of 65536 bytes; the nearest that would do: 65536 or 131072"),
        (narrow(2).stripe_size(0), "use 65536 to 4294967296 bytes"),
        (narrow(2).stripe_size(1 << 33), "use 65536 to 4294967296 bytes"),
        (narrow(3), "3 stripes need as many targets, there are 2; allow overstriping"),
        (narrow(2001), "use 1 to 2000, or 0 for all"),
        (narrow(2).first_target(7), "first target 7 does not exist; there are targets 0 to 1"),
        (narrow(1).pool("fast"), "no pool 'fast'"),
    ] {
        refused(make(layout), Errno::EINVAL, &["/g", words]);
        refused(client.metadata("/g"), Errno::ENOENT, &["/g"]);
    }
    refused(
        Client::builder().store("mem:").set("stripe_kb", 100).connect(),
        Errno::EINVAL,
        &["stripe_kb = 100", "give a multiple of 64"],
    );
}

#[test]
fn offsets_that_cannot_be() {
    let client = Client::open("mem:?targets=2").expect("open");
    for direct in [false, true] {
        let file = client.open_with("/f", read_write().layout(narrow(2)).direct(direct)).expect("open");
        file.write_all_at(b"content", 0).expect("write");
        let mut buf = [0; 10];
        for at in [1 << 63, u64::MAX] {
            let words = [at.to_string()];
            let words = [words[0].as_str(), "2^63"];
            refused(file.read_at(&mut buf, at), Errno::EINVAL, &words);
            refused(file.write_at(&buf, at), Errno::EINVAL, &words);
            refused(file.seek_data(at), Errno::EINVAL, &["2^63"]);
            refused(file.seek_hole(at), Errno::EINVAL, &["2^63"]);
            refused(file.set_len(at), Errno::EINVAL, &words);
            refused(file.punch_hole(at, 10), Errno::EINVAL, &words);
        }
        refused(file.write_at(&buf, (1 << 63) - 1), Errno::EFBIG, &["2^63 - 1", "write at a smaller offset"]);
        assert_eq!(file.read_at(&mut buf, (1 << 63) - 1).expect("past the end"), 0);
        assert!(content(&client, "/f") == b"content");
    }
    let file = client.open_file("/f").expect("open");
    let e = std::io::Seek::seek(&mut &file, std::io::SeekFrom::Current(-1)).expect_err("before the start");
    assert_eq!(e.kind(), std::io::ErrorKind::InvalidInput);
}

/// A layout whose last component ends: an append goes up to there, and says so.
#[test]
fn appends_beyond_the_last_component() {
    const END: usize = 128 << 10;
    let client = Client::open("mem:?targets=2").expect("open");
    for (direct, stripes) in [(false, 1), (false, 2), (true, 2)] {
        let path = format!("/f{direct}{stripes}");
        let bounded = clio::Layout::composite().until(END as u64).stripe_count(stripes).stripe_size(64 << 10);
        let file = client.open_with(&path, read_write().layout(bounded).direct(direct)).expect("open");
        let data = pattern(1, 0, END + 1);
        file.write_all_at(&data[..END - 4096], 0).expect("write");
        refused(file.append(&data[END - 4096..]), Errno::EFBIG, &["only 4096 of 4097", "131072"]);
        assert_eq!(file.metadata().expect("metadata").len(), END as u64);
        refused(file.set_len(END as u64 + 1), Errno::EFBIG, &["131073"]);
        refused(file.write_at(b"x", END as u64), Errno::EFBIG, &["131072"]);
        file.punch_hole(END as u64, 10).expect("there is nothing, and nothing to punch");
        for _ in 0..3 {
            refused(file.append(b"x"), Errno::EFBIG, &["the layout's last component ends at 131072"]);
        }
        assert_eq!(file.append(b"").expect("nothing"), END as u64);
        file.sync_all().expect("nothing was lost");
        assert!(content(&client, &path) == data[..END]);
    }
}

/// A write at an offset that the disk can't hold is told once, and harms nothing that comes after.
#[test]
fn offsets_that_the_disk_cannot_hold() {
    let dir = tempfile::tempdir().expect("tempdir");
    let client = open(dir.path()).expect("open");
    for direct in [false, true] {
        let file = client.open_with("/f", read_write().direct(direct)).expect("open");
        file.write_all_at(b"abc", 0).expect("write");
        file.sync_all().expect("sync");
        // Some file systems can: those in memory.
        let failed = match file.write_at(b"x", 1 << 62) {
            Ok(_) => file.sync_all().err(),
            Err(e) => Some(e),
        };
        if let Some(e) = failed {
            assert_eq!(e.errno(), Errno::EFBIG, "{e}");
        }
        file.write_all_at(b"def", 0).expect("write");
        file.sync_all().expect("told once");
        let mut start = [0; 3];
        file.read_exact_at(&mut start, 0).expect("read");
        assert_eq!(&start, b"def");
        drop(file);
        let report = client.check(false).expect("check");
        assert!(report.is_clean(), "{report}");
        client.remove_file("/f").expect("remove");
    }
}

const OTHER: &str = "BAD_INPUT_TEST_STORE";

#[test]
fn a_second_process_is_told_to_share_by_the_daemon() {
    if let Some(path) = std::env::var_os(OTHER) {
        refused(open(Path::new(&path)), Errno::EBUSY, &["another process", "cliod"]);
        return;
    }
    let s = Stored::new();
    let client = open(&s.store()).expect("open");
    let mut again = Command::new(std::env::current_exe().expect("exe"));
    again.args(["--exact", "a_second_process_is_told_to_share_by_the_daemon"]).env(OTHER, s.store());
    let output = again.output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    drop(client);
    let output = again.output().expect("run");
    assert!(!output.status.success(), "once it is closed, the store is free");
}

#[test]
fn files_that_are_not_what_the_open_asks_for() {
    let client = Client::open("mem:").expect("open");
    client.create("/f").expect("create");
    client.mkdir("/d").expect("mkdir");
    refused(client.open_file("/none"), Errno::ENOENT, &["/none"]);
    refused(client.open_with("/d", read_write()), Errno::EISDIR, &["/d"]);
    refused(client.open_file("/f/x"), Errno::ENOTDIR, &["/f/x"]);
    refused(client.open_with("/f", OpenOptions::new().write(true).create_new(true)), Errno::EEXIST, &["/f"]);
    refused(client.remove_file("/d"), Errno::EISDIR, &["/d"]);
    let reader = client.open_file("/f").expect("open");
    refused(reader.write_at(b"x", 0), Errno::EBADF, &[]);
    refused(reader.set_len(5), Errno::EBADF, &[]);
}
