//! Clients that come and go.

use super::{ARENA, Daemon};
use clio_core::target::{EnqueueFlags, LockMode, Op, Reply};
use clio_core::units::{Extent, Fid};
use clio_core::{Errno, Error};
use clio_namespace::{Access, IfExists, Names, NewNode, OpCtx, RenameMode};
use clio_node::client::{Connection, NodeNames, NodeTarget};
use clio_targets::conformance::{Client, pattern};
use std::sync::atomic::Ordering;

const FID: Fid = Fid::new(7, 1);

#[test]
fn locks_and_open_files_of_a_client_go_with_it() {
    let daemon = Daemon::start();
    let (dies, lives) = (daemon.connect(), daemon.connect());
    let names = NodeNames::new(lives.clone());
    let new = NewNode { layout: Some(b"x"), ..NewNode::new(0o644, 0, 0) };
    let fid = names.create(&OpCtx::at(1), "/f".into(), &new, IfExists::Fail).unwrap().0.fid;
    NodeNames::new(dies.clone()).open_ref(fid, Access::READ).unwrap();
    assert!(names.unlink(&OpCtx::at(1), "/f".into()).unwrap().destroy.is_none());
    let holder = Client::connect(NodeTarget::all(&dies).pop().unwrap());
    holder.lock(FID, Extent::WHOLE, LockMode::Pw);
    let waiter = Client::connect(NodeTarget::all(&lives).pop().unwrap());
    let waits = waiter.start_lock(FID, Extent::WHOLE, LockMode::Pw, EnqueueFlags::default());
    drop((holder, dies));
    assert!(
        matches!(waits.wait(), Ok(Reply::Granted { handle: Some(_), .. })),
        "the holder is gone, and its lock with it"
    );
    while daemon.store.destroyed.lock().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(names.getattr(fid).unwrap_err().errno(), Errno::ENOENT);
}

#[test]
fn a_client_is_told_when_the_daemon_goes() {
    let daemon = Daemon::start();
    let connection = daemon.connect();
    let names = NodeNames::new(connection.clone());
    let client = Client::connect(NodeTarget::all(&connection).pop().unwrap());
    client.lock(FID, Extent::WHOLE, LockMode::Pw);
    let path = daemon.path().to_path_buf();
    drop(daemon);
    let lost = |e: Error| assert!(e.errno() == Errno::EIO && e.detail().contains("daemon"), "{e}");
    lost(names.sync().unwrap_err());
    lost(client.call(Op::StatFs).unwrap_err());
    lost(names.rename(&OpCtx::at(1), "/a".into(), "/b".into(), RenameMode::Replace).unwrap_err());
    assert!(Connection::open(&path, ARENA).is_err());
}

/// However many ask at once: what was there when one asked is durable when it is answered.
#[test]
fn clients_have_the_daemon_make_all_durable() {
    let daemon = Daemon::start();
    let syncs = &daemon.store.syncs;
    std::thread::scope(|scope| {
        for connection in [daemon.connect(), daemon.connect()].iter().flat_map(|c| [c.clone(), c.clone(), c.clone()]) {
            scope.spawn(move || {
                for _ in 0..50 {
                    let ticket = syncs.asked.fetch_add(1, Ordering::SeqCst);
                    connection.sync().unwrap();
                    assert!(syncs.covered.load(Ordering::SeqCst) > ticket);
                }
            });
        }
    });
    *syncs.error.lock() = Some(Error::new(Errno::ENOSPC, "sync", "no room"));
    let e = daemon.connect().sync().unwrap_err();
    assert!(e.errno() == Errno::ENOSPC && e.detail() == "no room", "{e}");
    daemon.connect().sync().unwrap();
}

#[test]
fn memory_outside_the_arena_is_written_and_read_through_it() {
    let daemon = Daemon::start();
    let client = Client::connect(NodeTarget::all(&daemon.connect()).pop().unwrap());
    let data = pattern(3, (5 << 20) + 123);
    client.write(FID, 4321, &data).unwrap();
    let (there, size) = client.read(FID, 4321, data.len()).unwrap();
    assert!(there == data && size == 4321 + data.len() as u64);
}

#[test]
fn many_clients_at_once() {
    let daemon = Daemon::start();
    let all: Vec<_> = (0..200).map(|_| Connection::open(daemon.path(), 2 << 20).unwrap()).collect();
    std::thread::scope(|s| {
        for (i, connection) in all.iter().enumerate() {
            s.spawn(move || {
                let names = NodeNames::new(connection.clone());
                let path = format!("/{i}");
                names.mkdir(&OpCtx::at(1), (&path).into(), &NewNode::new(0o755, 0, 0)).unwrap();
            });
        }
    });
    assert_eq!(daemon.stop.clients(), 200);
    let names = NodeNames::new(all[0].clone());
    assert_eq!(names.readdir(clio_namespace::Namespace::ROOT, None, 1000).unwrap().len(), 200);
}
