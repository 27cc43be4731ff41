//! Names: made, linked, moved and removed by two clients at once.

use crate::at_once;
use clio::{Client, Errno, FileType, OpenOptions, Result};
use clio_tests::{clients, content, narrow, pattern, read_write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn a_file_removed_there_stays_while_open_here() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(2, 0, 100_000), 0).expect("write");
    b.remove_file("/f").expect("remove");
    assert_eq!(a.open_file("/f").expect_err("gone").errno(), Errno::ENOENT);
    a.drop_caches().expect("drop");
    let mut got = vec![0; 100_000];
    file.read_exact_at(&mut got, 0).expect("read");
    assert_eq!(got, pattern(2, 0, 100_000));
    file.write_all_at(&[7; 10], 0).expect("write");
    file.sync_all().expect("sync");
}

#[test]
fn names_made_and_removed_by_two_at_once() {
    let [a, b] = clients(1);
    a.mkdir("/d").expect("mkdir");
    let won: usize = thread::scope(|s| {
        let sides: Vec<_> = [&a, &b]
            .into_iter()
            .map(|c| {
                s.spawn(move || {
                    let mut won = 0;
                    for n in 0..200 {
                        let new = OpenOptions::new().write(true).create_new(true);
                        won += usize::from(c.open_with(format!("/d/{n}"), new).is_ok());
                        let _ = c.rename(format!("/d/{n}"), format!("/d/moved-{}", n % 10));
                    }
                    won
                })
            })
            .collect();
        sides.into_iter().map(|t| t.join().expect("thread")).sum()
    });
    assert!(won >= 200, "each name was made at least once: {won}");
    assert_eq!(a.read_dir("/d").expect("list"), b.read_dir("/d").expect("list"));
    assert!(a.check(false).expect("check").is_clean());
}

fn listed(client: &Client, dir: &str) -> Vec<String> {
    let entries = client.read_dir(dir).expect("list");
    entries.iter().map(|e| e.name().to_str().expect("ASCII").to_string()).collect()
}

/// One of two comes first; the other is told `errno`. Says whether it was the first of them.
fn one_wins(what: &str, both: (Result<()>, Result<()>), errno: Errno) -> bool {
    match both {
        (Ok(()), Err(e)) | (Err(e), Ok(())) if e.errno() != errno => panic!("{what}: {e}"),
        (Ok(()), Err(_)) => true,
        (Err(_), Ok(())) => false,
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn of_two_who_do_the_same_one_wins() {
    let [a, b] = clients(1);
    a.mkdir("/d").expect("mkdir");
    for n in 0..60 {
        let p = |name: &str| format!("/d/{name}-{n}");
        one_wins("mkdir", at_once(|| a.mkdir(p("dir")), || b.mkdir(p("dir"))), Errno::EEXIST);
        let new = || OpenOptions::new().write(true).create_new(true);
        let make = |c: &Client| c.open_with(p("file"), new()).map(drop);
        one_wins("create", at_once(|| make(&a), || make(&b)), Errno::EEXIST);
        let link = |c: &Client| c.hard_link(p("file"), p("link"));
        one_wins("link", at_once(|| link(&a), || link(&b)), Errno::EEXIST);
        let symlink = |c: &Client, to: &str| c.symlink(to, p("symlink"));
        let first = one_wins("symlink", at_once(|| symlink(&a, "a"), || symlink(&b, "b")), Errno::EEXIST);
        assert_eq!(b.read_link(p("symlink")).expect("read").to_str(), Some(if first { "a" } else { "b" }));
        let moved = |c: &Client, to: &str| c.rename(p("file"), p(to));
        let first = one_wins("rename", at_once(|| moved(&a, "a"), || moved(&b, "b")), Errno::ENOENT);
        let (there, gone) = if first { ("a", "b") } else { ("b", "a") };
        assert!(a.exists(p(there)) && !a.exists(p(gone)) && !b.exists(p("file")));
        assert_eq!(b.metadata(p("link")).expect("stat").nlink(), 2);
        let unlink = |c: &Client| c.remove_file(p(there));
        one_wins("unlink", at_once(|| unlink(&a), || unlink(&b)), Errno::ENOENT);
        assert_eq!(a.metadata(p("link")).expect("stat").nlink(), 1);
        one_wins("rmdir", at_once(|| a.remove_dir(p("dir")), || b.remove_dir(p("dir"))), Errno::ENOENT);
    }
    let mut want: Vec<_> = (0..60).flat_map(|n| [format!("link-{n}"), format!("symlink-{n}")]).collect();
    want.sort();
    assert_eq!(listed(&a, "/d"), want);
    assert_eq!(listed(&b, "/d"), want);
    assert!(a.check(false).expect("check").is_clean());
}

#[test]
fn pairs_that_exclude_each_other() {
    let [a, b] = clients(1);
    for n in 0..60 {
        let (dir, file) = (format!("/d{n}"), format!("/d{n}/f"));
        a.mkdir(&dir).expect("mkdir");
        let make = || b.open_with(&file, OpenOptions::new().write(true).create_new(true)).map(drop);
        match at_once(|| a.remove_dir(&dir), make) {
            (Ok(()), Err(e)) => assert!(e.errno() == Errno::ENOENT && !b.exists(&dir), "{e}"),
            (Err(e), Ok(())) => assert!(e.errno() == Errno::ENOTEMPTY && a.exists(&file), "{e}"),
            other => panic!("rmdir against create: {other:?}"),
        }
        // Neither folder can come to lie within the other while that goes the other way.
        let (x, y) = (format!("/x{n}"), format!("/y{n}"));
        a.mkdir(&x).expect("mkdir");
        b.mkdir(&y).expect("mkdir");
        let into = |c: &Client, from: &str, to: &str| c.rename(from, format!("{to}/in"));
        let (xy, yx) = at_once(|| into(&a, &x, &y), || into(&b, &y, &x));
        assert!(xy.is_ok() != yx.is_ok(), "one of two: {xy:?} {yx:?}");
        let outer = if xy.is_ok() { &y } else { &x };
        assert_eq!(listed(&a, outer), ["in"]);
        // Two that are moved onto one name: one of them is there in the end, whole.
        let (from_a, from_b, to) = (format!("/a{n}"), format!("/b{n}"), format!("/to{n}"));
        a.create(&from_a).expect("create").write_all_at(b"from a", 0).expect("write");
        b.create(&from_b).expect("create").write_all_at(b"from b", 0).expect("write");
        let both = at_once(|| a.rename(&from_a, &to), || b.rename(&from_b, &to));
        assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
        let left = content(&a, &to);
        assert!(left == b"from a" || left == b"from b", "{left:?}");
        assert_eq!(content(&b, &to), left);
    }
    assert!(a.check(false).expect("check").is_clean(), "what was replaced has left nothing");
}

#[test]
fn two_clients_build_one_tree_while_it_is_listed() {
    const EACH: usize = 60;
    let all = clients::<3>(1);
    all[0].mkdir("/t").expect("mkdir");
    for n in 0..20 {
        all[0].create(format!("/t/stays-{n:02}")).expect("create");
    }
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        let builders = [(&all[0], "a"), (&all[1], "b")].map(|(c, who)| {
            s.spawn(move || {
                for n in 0..EACH {
                    let p = |what: &str| format!("/t/{who}-{what}-{n}");
                    c.mkdir(p("dir")).expect("mkdir");
                    c.create(p("new")).expect("create").write_all_at(who.as_bytes(), 0).expect("write");
                    c.hard_link(p("new"), format!("{}/hard", p("dir"))).expect("link");
                    c.rename(p("new"), p("moved")).expect("rename");
                    c.symlink("moved", p("soft")).expect("symlink");
                    if n % 3 == 0 {
                        c.remove_file(p("moved")).expect("unlink");
                    }
                    if n % 4 == 0 {
                        c.remove_dir_all(p("dir")).expect("remove");
                    }
                    c.rename(p("soft"), format!("/t/{who}-last")).expect("rename over the one before");
                }
            })
        });
        let lister = s.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let names = listed(&all[2], "/t");
                assert!(names.windows(2).all(|w| w[0] < w[1]), "in order, and each once");
                assert_eq!(names.iter().filter(|n| n.starts_with("stays-")).count(), 20);
            }
        });
        for t in builders {
            t.join().expect("builder");
        }
        done.store(true, Ordering::Relaxed);
        lister.join().expect("lister");
    });
    let mut want: Vec<_> = (0..20).map(|n| (format!("stays-{n:02}"), FileType::File)).collect();
    for who in ["a", "b"] {
        want.push((format!("{who}-last"), FileType::Symlink));
        want.extend((0..EACH).filter(|n| n % 3 != 0).map(|n| (format!("{who}-moved-{n}"), FileType::File)));
        want.extend((0..EACH).filter(|n| n % 4 != 0).map(|n| (format!("{who}-dir-{n}"), FileType::Dir)));
    }
    want.sort_by(|x, y| x.0.cmp(&y.0));
    for c in &all {
        let got = c.read_dir("/t").expect("list");
        let got: Vec<_> = got.iter().map(|e| (e.name().to_str().expect("ASCII").to_string(), e.file_type())).collect();
        assert_eq!(got, want);
        for (who, n) in [("a", 1), ("b", 2), ("a", 3), ("b", 9)] {
            let hard = format!("/t/{who}-dir-{n}/hard");
            assert_eq!(content(c, &hard), who.as_bytes());
            assert_eq!(c.metadata(&hard).expect("stat").nlink(), if n % 3 == 0 { 1 } else { 2 });
        }
    }
    assert!(all[0].check(false).expect("check").is_clean());
}

#[test]
fn a_file_that_is_replaced_there_stays_while_open_here() {
    let [a, b] = clients(2);
    let file = a.open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(1, 0, 100_000), 0).expect("write");
    b.create("/g").expect("create").write_all_at(b"new", 0).expect("write");
    b.rename("/g", "/f").expect("rename");
    assert_eq!(content(&a, "/f"), b"new");
    assert_eq!(file.metadata().expect("stat").nlink(), 0);
    a.drop_caches().expect("drop");
    let mut got = vec![0; 100_000];
    file.read_exact_at(&mut got, 0).expect("read");
    assert_eq!(got, pattern(1, 0, 100_000));
    file.close().expect("close");
    assert!(a.check(false).expect("check").is_clean(), "its objects went with the last close");
}
