//! A lasting error of one kind of request: which call tells it, of what, and that all is well when it ends. Of the other
//! kinds, clients send no create and no setattr: writing makes objects, and times go with the data.

use clio::{Client, Errno, Error, File};
use clio_core::error::Subject;
use clio_core::target::{Op, Reply, Target};
use clio_targets::wrap::Fault;
use clio_tests::faults::{Kind, World, dirty, eventually, idle};
use clio_tests::{content, narrow, pattern, read_write};
use std::sync::mpsc;

const LEN: usize = 150_000;
const EIO: Fault = Fault::Refuse(Errno::EIO);

/// A file of two stripes with durable content, open at the first of two clients.
fn start() -> (World, [Client; 2], File) {
    let world = World::new(2);
    let clients = world.two_clients();
    let file = clients[0].open_with("/f", read_write().layout(narrow(2))).expect("open");
    file.write_all_at(&pattern(1, 0, LEN), 0).expect("write");
    file.sync_all().expect("fsync");
    (world, clients, file)
}

/// The error is EIO, and says that it is about the file or one of its stripes.
fn about(e: &Error, file: &File) {
    assert_eq!(e.errno(), Errno::EIO, "{e}");
    let named = matches!(e.subject(), Subject::Fid(fid) if fid.file() == file.fid());
    assert!(named, "'{e}' doesn't name the file, {}", file.fid());
    assert!(e.to_string().contains("fault injected (EIO)"), "{e}");
}

/// The error is EIO, and names the file as the caller did.
fn about_path(e: &Error, path: &str) {
    assert_eq!((e.errno(), e.subject()), (Errno::EIO, &Subject::Path(path.into())), "{e}");
}

/// All works again, and nobody is told anything any more.
fn end(world: World, clients: [Client; 2], file: File, want: &[u8]) {
    world.heal();
    let [a, b] = &clients;
    assert!(content(a, "/f") == want);
    assert!(content(b, "/f") == want);
    file.write_all_at(&pattern(8, 0, LEN), 0).expect("write");
    file.sync_all().expect("fsync");
    assert_eq!(content(b, "/f")[..LEN], pattern(8, 0, LEN));
    file.close().expect("close");
    clients.iter().for_each(idle);
    world.end(clients);
}

#[test]
fn a_write_that_fails_is_told_by_fsync() {
    let (world, clients, file) = start();
    world.fail(Kind::Write, EIO);
    file.write_all_at(&pattern(2, 0, 100), 0).expect("write-behind takes it");
    about(&file.sync_all().expect_err("write-out failed"), &file);
    assert_eq!(dirty(&clients[0].stats()), 0, "what can't be written isn't kept");
    // A direct write tells of itself, and fsync has nothing to add.
    let direct = clients[0].open_with("/f", read_write().direct(true)).expect("open");
    about(&direct.write_at(&[1; 100], 0).expect_err("direct"), &file);
    direct.sync_all().expect("nothing is owed");
    direct.close().expect("nothing is owed");
    end(world, clients, file, &pattern(1, 0, LEN));
}

#[test]
fn a_write_that_fails_is_told_by_close() {
    let (world, clients, file) = start();
    let second = clients[0].open_with("/f", read_write()).expect("open");
    world.fail(Kind::Write, EIO);
    second.write_all_at(&pattern(2, 0, 100), 0).expect("write-behind takes it");
    clients[0].drop_caches().expect_err("written out");
    about(&second.close().expect_err("close tells it"), &file);
    about(&file.sync_all().expect_err("this file was open too"), &file);
    end(world, clients, file, &pattern(1, 0, LEN));
}

#[test]
fn a_read_that_fails_is_told_by_read() {
    let (world, clients, file) = start();
    clients[0].drop_caches().expect("drop");
    world.fail(Kind::Read, EIO);
    let mut buf = [0; 100];
    about(&file.read_at(&mut buf, 0).expect_err("read"), &file);
    let direct = clients[1].open_with("/f", read_write().direct(true)).expect("open");
    about(&direct.read_at(&mut buf, 70_000).expect_err("direct read"), &file);
    direct.close().expect("close");
    file.sync_all().expect("a failed read is no failed write");
    end(world, clients, file, &pattern(1, 0, LEN));
}

#[test]
fn a_sync_that_fails_is_told_by_fsync_and_not_tried_again() {
    let (world, clients, file) = start();
    file.write_all_at(&pattern(2, 0, 100), 0).expect("write");
    world.fail(Kind::Sync, EIO);
    let resends = |c: &Client| c.stats().targets.iter().map(|t| t.resends).sum::<u64>();
    about(&file.sync_all().expect_err("fsync"), &file);
    about(&file.sync_data().expect_err("fdatasync"), &file);
    assert_eq!(resends(&clients[0]), 0, "a disk that failed to sync is not asked again");
    let mut want = pattern(1, 0, LEN);
    want[..100].copy_from_slice(&pattern(2, 0, 100));
    end(world, clients, file, &want);
}

#[test]
fn a_punch_that_fails_is_told_by_truncate_and_changes_nothing() {
    let (world, clients, file) = start();
    world.fail(Kind::Punch, EIO);
    about(&file.set_len(1000).expect_err("truncate"), &file);
    about(&file.set_len(1_000_000).expect_err("truncate"), &file);
    about(&file.punch_hole(10, 100_000).expect_err("punch"), &file);
    let e = clients[1].create("/f").expect_err("open with truncate");
    about_path(&e, "/f");
    file.sync_all().expect("told already");
    end(world, clients, file, &pattern(1, 0, LEN));
}

#[test]
fn a_glimpse_that_fails_is_told_by_stat() {
    let (world, clients, file) = start();
    world.fail(Kind::Glimpse, EIO);
    about_path(&clients[1].metadata("/f").expect_err("stat"), "/f");
    let other = clients[1].open_file("/f").expect("open asks no target");
    about(&other.metadata().expect_err("fstat"), &file);
    other.close().expect("close");
    end(world, clients, file, &pattern(1, 0, LEN));
}

#[test]
fn a_lock_that_fails_is_told_by_whoever_needs_it() {
    let (world, clients, file) = start();
    let other = clients[1].open_with("/f", read_write()).expect("open");
    world.fail(Kind::Enqueue, EIO);
    let mut buf = [0; 100];
    about(&other.read_at(&mut buf, 0).expect_err("read"), &file);
    about(&other.write_at(&buf, 0).expect_err("write"), &file);
    about(&other.append(&buf).expect_err("append"), &file);
    about(&other.set_len(0).expect_err("truncate"), &file);
    other.close().expect("told already");
    end(world, clients, file, &pattern(1, 0, LEN));
}

/// Nobody can be told that a cancel isn't heard: it is said again, and whoever waits for the lock gets it then.
#[test]
fn a_cancel_that_fails_is_said_until_it_is_heard() {
    let (world, clients, file) = start();
    let data = pattern(2, 0, LEN);
    file.write_all_at(&data, 0).expect("write");
    world.fail(Kind::Cancel, EIO);
    let (tx, rx) = mpsc::channel();
    let b = clients[1].clone();
    let reader = std::thread::spawn(move || tx.send(content(&b, "/f")).expect("send"));
    let said = |c: &Client| c.stats().targets.iter().map(|t| t.resends).sum::<u64>();
    // More often than anything else is tried.
    eventually("the cancel is said again", || said(&clients[0]) > 4);
    assert!(rx.try_recv().is_err(), "a lock was granted that another has");
    world.heal();
    assert!(rx.recv().expect("content") == data);
    reader.join().expect("reader");
    end(world, clients, file, &data);
}

#[test]
fn a_seek_that_fails_is_told() {
    let (world, clients, file) = start();
    world.fail(Kind::Seek, EIO);
    about(&file.seek_data(0).expect_err("seek"), &file);
    about(&file.seek_hole(0).expect_err("seek"), &file);
    end(world, clients, file, &pattern(1, 0, LEN));
}

fn objects(world: &World) -> u64 {
    let count = |i| {
        let (tx, rx) = mpsc::channel();
        let target = world.target(i);
        let (client, _) = target.connect(std::sync::Arc::new(Nobody)).expect("connect");
        target.submit(client, Op::StatFs, Box::new(move |r| tx.send(r).expect("send")));
        let reply = rx.recv().expect("reply").expect("statfs");
        target.submit(client, Op::Disconnect, Box::new(|_| {}));
        match reply {
            Reply::StatFs { objects, .. } => objects,
            other => panic!("{other:?}"),
        }
    };
    count(0) + count(1)
}

struct Nobody;

impl clio_core::target::TargetClient for Nobody {
    fn blocking_ast(&self, _: clio_core::units::TargetIndex, _: clio_core::target::DlmHandle) {}
    fn glimpse_ast(
        &self,
        _: clio_core::units::TargetIndex,
        _: clio_core::target::DlmHandle,
        _: clio_core::target::GlimpseReply,
    ) {
    }
    fn evicted(&self, _: clio_core::units::TargetIndex) {}
}

/// The name is gone, which is what the caller asked for; the objects are the store's to remove, later.
#[test]
fn a_destroy_that_fails_is_not_told() {
    let (world, clients, file) = start();
    let doomed = clients[0].open_with("/g", read_write().layout(narrow(2))).expect("open");
    doomed.write_all_at(&pattern(3, 0, LEN), 0).expect("write");
    doomed.sync_all().expect("fsync");
    doomed.close().expect("close");
    let before = objects(&world);
    assert_eq!(before, 4);
    world.fail(Kind::Destroy, EIO);
    clients[0].remove_file("/g").expect("unlink");
    assert!(!clients[1].exists("/g"));
    assert_eq!(dirty(&clients[0].stats()), 0, "nothing of it is to be written any more");
    assert_eq!(objects(&world), before);
    world.heal();
    let again = clients[0].open_with("/g", read_write().layout(narrow(2))).expect("open");
    assert_eq!(again.metadata().expect("stat").len(), 0, "another file");
    again.close().expect("close");
    end(world, clients, file, &pattern(1, 0, LEN));
}

#[test]
fn targets_that_do_not_answer_get_no_stripes() {
    let (world, clients, file) = start();
    world.fail(Kind::StatFs, EIO);
    let new = clients[0].open_with("/g", read_write().layout(narrow(2))).expect("a name needs no target");
    let e = new.write_at(&[1; 100], 0).expect_err("no target");
    assert_eq!(e.errno(), Errno::ENOSPC);
    assert!(e.to_string().contains("offline"), "{e}");
    world.heal();
    new.write_all_at(&[1; 100], 0).expect("write");
    new.sync_all().expect("nothing is owed");
    new.close().expect("close");
    end(world, clients, file, &pattern(1, 0, LEN));
}

#[test]
fn a_client_whose_goodbye_is_not_heard_goes_all_the_same() {
    let (world, clients, file) = start();
    let data = pattern(4, 0, LEN);
    let third = clients[0].second_client().expect("client");
    let mine = third.open_with("/f", read_write()).expect("open");
    mine.write_all_at(&data, 0).expect("write");
    mine.close().expect("close");
    // Both the request and its repetitions are refused, as far as this client goes.
    world.fail(Kind::Disconnect, EIO);
    drop(third);
    world.heal();
    assert!(content(&clients[0], "/f") == data, "all was written, and its locks went");
    let [a, b] = clients;
    file.close().expect("close");
    drop((a, b));
}
