//! Folders, links, renames and removals.

use crate::harness::Bed;
use std::ffi::OsStr;

fn with_file(bed: &Bed, path: &str, bytes: &[u8]) {
    bed.run_with_input(["put", "-", path], bytes).ok();
}

#[test]
fn folders() {
    let bed = Bed::new();
    bed.run(["mkdir", "/a/b"]).failed(1, &["clio: mkdir '/a/b':", "ENOENT"]);
    bed.ok(["mkdir", "-p", "-m", "700", "/a/b", "/c"]);
    bed.ok(["mkdir", "-p", "/a/b"]);
    bed.run(["mkdir", "/a/b"]).failed(1, &["EEXIST"]);
    assert_eq!(bed.json(["stat", "/a/b"])[0]["mode"], "0700");
    with_file(&bed, "/f", b"x");
    bed.run(["mkdir", "-p", "/f"]).failed(1, &["clio: mkdir '/f':"]);
    bed.run(["mkdir", "-p", "/f/x"]).failed(1, &["clio: mkdir '/f/x':"]);
    bed.run(["mkdir", "-m", "9", "/x"]).failed(2, &["octal"]);
}

#[test]
fn removals() {
    let bed = Bed::new();
    bed.ok(["mkdir", "-p", "/t/u/v"]);
    with_file(&bed, "/t/u/f", b"x");
    with_file(&bed, "/g", b"x");
    bed.run(["rm", "/t"]).failed(1, &["clio: rm '/t': it is a folder; give -r"]);
    for root in ["/", "//", "/t/..", "."] {
        bed.run(["rm", "-r", "-f", root]).failed(1, &["the root of the store", "EBUSY"]);
    }
    bed.run(["rm", "/none", "/g"]).failed(1, &["clio: rm '/none':"]);
    bed.ok(["rm", "-f", "/none"]);
    bed.ok(["rm", "-r", "/t"]);
    assert_eq!(bed.ok(["ls", "-a"]).text(), "");
    let report = bed.json(["check"]);
    assert_eq!((&report["clean"], &report["objects"]), (&true.into(), &0.into()));
}

#[test]
fn renames() {
    let bed = Bed::new();
    with_file(&bed, "/a", b"A");
    with_file(&bed, "/b", b"B");
    bed.ok(["mkdir", "/d"]);
    bed.run(["mv", "-n", "/a", "/b"]).failed(1, &["clio: mv '/a':", "EEXIST"]);
    bed.ok(["mv", "/a", "/b"]);
    assert_eq!(bed.ok(["cat", "/b"]).stdout, b"A");
    bed.ok(["mv", "/b", "/d"]);
    bed.run(["mv", "/d", "/d/e"]).failed(1, &["clio: mv '/d':", "EINVAL"]);
    bed.run(["mv", "/none", "/x"]).failed(1, &["clio: mv '/none':", "ENOENT"]);
    assert_eq!(bed.ok(["ls", "/d"]).lines(), ["b"]);
}

#[test]
fn links() {
    let bed = Bed::new();
    with_file(&bed, "/f", b"F");
    bed.ok(["ln", "/f", "/hard"]);
    bed.ok(["ln", "-s", "f", "/soft"]);
    bed.ok(["ln", "-s", "missing", "/dangling"]);
    let stat = bed.json(["stat", "/f", "/hard", "/soft"]);
    assert_eq!((&stat[0]["nlink"], &stat[0]["fid"]), (&2.into(), &stat[1]["fid"]));
    assert_eq!((&stat[2]["type"], &stat[2]["target"]["path"]), (&"symlink".into(), &"f".into()));
    assert_eq!(bed.json(["stat", "-L", "/soft"])[0]["type"], "file");
    assert_eq!(bed.ok(["cat", "/soft"]).stdout, b"F");
    bed.run(["cat", "/dangling"]).failed(1, &["clio: cat '/dangling':", "ENOENT"]);
    bed.run(["ln", "-s", "g", "/soft"]).failed(1, &["clio: ln '/soft':", "EEXIST"]);
    bed.ok(["ln", "-sf", "hard", "/soft"]);
    assert_eq!(bed.json(["stat", "/soft"])[0]["target"]["path"], "hard");
    bed.ok(["ln", "-f", "/f", "/hard"]);
    assert_eq!(bed.ok(["ls"]).lines(), ["dangling", "f", "hard", "soft"]);
    // The data stays with the second name.
    bed.ok(["rm", "/f"]);
    assert_eq!(bed.ok(["cat", "/hard"]).stdout, b"F");
    let du = bed.json(["du", "-s", "/"]);
    assert_eq!((&du[0]["files"], &du[0]["path"]), (&3.into(), &"/".into()));
}

#[test]
fn names_that_are_not_text_work_in_messages_and_arguments() {
    use std::os::unix::ffi::OsStrExt;
    let bed = Bed::new();
    let name = OsStr::from_bytes(b"/\xff\x07");
    bed.ok([OsStr::new("mkdir"), name]);
    bed.run([OsStr::new("mkdir"), name]).failed(1, &["clio: mkdir '/\\xff\\x07':"]);
    // Raw where no terminal can be tricked.
    assert_eq!(bed.ok(["ls"]).stdout, b"\xff\x07\n");
}
