//! Clients that keep to no rule. The daemon ends their sessions, or answers with errors, and serves the others on.

use super::Daemon;
use clio_core::Errno;
use clio_namespace::{Names, NewNode, OpCtx};
use clio_node::client::NodeNames;
use clio_node::wire::{
    Answer, FromClient, FromDaemon, Hello, MAGIC, MAJOR, MAX_MESSAGE_BYTES, MINOR, NamesOp, Request, Welcome,
    WireFlags, WireMode, WireOp, WireReply, WireSegment, decode, encode,
};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::time::Duration;

const FID: [u8; 16] = [1; 16];

/// A client that says what it likes.
struct Raw(OwnedFd);

impl Raw {
    fn connect(daemon: &Daemon) -> Raw {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(daemon.path()).unwrap()).unwrap();
        let limit = Some(Duration::from_secs(20));
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, limit).unwrap();
        Raw(socket)
    }

    fn greeted(daemon: &Daemon) -> Raw {
        let (raw, is_awaited) = Self::greeted_as(daemon, 7);
        assert!(!is_awaited);
        raw
    }

    /// Greeted as client `token`; whether the daemon waits for that.
    fn greeted_as(daemon: &Daemon, token: u64) -> (Raw, bool) {
        let raw = Self::connect(daemon);
        raw.hello(token);
        match decode(&raw.receive()).unwrap() {
            Welcome::Served { targets: 1, is_awaited, .. } => (raw, is_awaited),
            other => panic!("{other:?}"),
        }
    }

    /// Registers with what it says that it held.
    fn resume(&self, grant: u64) -> Result<u64, Errno> {
        self.ask(1, Request::Resume { target: 0, grant });
        match decode(&self.receive()).unwrap() {
            FromDaemon::Reply { id: 1, result: Ok(Answer::Connected { client, .. }) } => Ok(client),
            FromDaemon::Reply { id: 1, result: Err(e) } => Err(Errno::from_raw(e.errno)),
            other => panic!("{other:?}"),
        }
    }

    /// Asks for a write lock of one block of `FID`, and has it.
    fn lock(&self, client: u64, block: u64) {
        self.ask(2, enqueue(client, block));
        match decode(&self.receive()).unwrap() {
            FromDaemon::Reply { id: 2, result: Ok(Answer::Target(WireReply::Granted { handle: Some(_), .. })) } => {}
            other => panic!("{other:?}"),
        }
    }

    fn hello(&self, token: u64) {
        let (magic, major, minor) = (MAGIC, MAJOR, MINOR);
        let hello = Hello { magic, major, minor, arena_bytes: 4 << 20, brings_arena: false, token };
        self.send(&encode(&hello).unwrap());
    }

    fn send(&self, packet: &[u8]) {
        rustix::net::send(&self.0, packet, SendFlags::NOSIGNAL).unwrap();
    }

    /// Empty at the end of the connection.
    fn receive(&self) -> Vec<u8> {
        let mut buf = vec![0; MAX_MESSAGE_BYTES];
        let n = match rustix::net::recv(&self.0, &mut buf[..], RecvFlags::empty()) {
            Ok((n, _)) => n,
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(e) => panic!("{e}"),
        };
        buf.truncate(n);
        buf
    }

    fn is_cut_off(&self) -> bool {
        self.receive().is_empty()
    }

    fn ask(&self, id: u64, request: Request) {
        self.send(&encode(&FromClient::Request { id, request }).unwrap());
    }

    /// The errno of the answer to `request`.
    fn refused(&self, request: Request) -> Errno {
        self.ask(9, request);
        match decode(&self.receive()).unwrap() {
            FromDaemon::Reply { id: 9, result: Err(e) } => Errno::from_raw(e.errno),
            other => panic!("{other:?}"),
        }
    }

    fn link(&self) -> u64 {
        self.ask(1, Request::Connect(0));
        match decode(&self.receive()).unwrap() {
            FromDaemon::Reply { id: 1, result: Ok(Answer::Connected { client, .. }) } => client,
            other => panic!("{other:?}"),
        }
    }
}

fn enqueue(client: u64, block: u64) -> Request {
    let flags = WireFlags { try_lock: false, glimpse: false, mandatory: false, exact: true };
    let range = (block * 4096, block * 4096 + 4096);
    let op = WireOp::Enqueue { fid: FID, range, mode: WireMode::Pw, flags };
    Request::Target { target: 0, client, op }
}

/// The daemon still does what an honest client asks.
fn serves_on(daemon: &Daemon, name: &str) {
    let names = NodeNames::new(daemon.connect());
    names.mkdir(&OpCtx::at(1), name.into(), &NewNode::new(0o755, 0, 0)).unwrap();
}

#[test]
fn strangers_are_told_why() {
    let daemon = Daemon::start();
    let hello = Hello { magic: MAGIC, major: MAJOR, minor: MINOR, arena_bytes: 0, brings_arena: false, token: 7 };
    for (bad, errno) in [
        (Hello { magic: *b"http", ..hello.clone() }, Errno::EPROTO),
        (Hello { major: MAJOR + 1, ..hello.clone() }, Errno::EPROTO),
        (Hello { brings_arena: true, ..hello.clone() }, Errno::EPROTO),
    ] {
        let raw = Raw::connect(&daemon);
        raw.send(&encode(&bad).unwrap());
        let Welcome::Refused(e) = decode(&raw.receive()).unwrap() else { panic!("served") };
        assert_eq!(Errno::from_raw(e.errno), errno);
        assert!(raw.is_cut_off());
    }
    let raw = Raw::connect(&daemon);
    raw.send(b"GET / HTTP/1.1\r\n\r\n");
    assert!(matches!(decode(&raw.receive()).unwrap(), Welcome::Refused(_)) && raw.is_cut_off());
    serves_on(&daemon, "/a");
}

#[test]
fn garbage_ends_the_session() {
    let daemon = Daemon::start();
    for garbage in [&[0xff; 40][..], &[0], &vec![7; MAX_MESSAGE_BYTES]] {
        let raw = Raw::greeted(&daemon);
        raw.send(garbage);
        assert!(raw.is_cut_off());
    }
    serves_on(&daemon, "/a");
}

#[test]
fn what_is_not_the_clients_is_refused() {
    let daemon = Daemon::start();
    let (raw, other) = (Raw::greeted(&daemon), Raw::greeted(&daemon));
    let (client, others) = (raw.link(), other.link());
    let on = |client, op| Request::Target { target: 0, client, op };
    assert_eq!(raw.refused(Request::Connect(1)), Errno::ENODEV);
    assert_eq!(raw.refused(on(others, WireOp::StatFs)), Errno::ESTALE, "another client's registration");
    assert_eq!(raw.refused(Request::Target { target: 900, client, op: WireOp::StatFs }), Errno::ENODEV);
    let read = |segments: &[(u64, u64, u32)]| {
        let bulk = segments.iter().map(|s| WireSegment { offset: s.0, at: s.1, len: s.2 }).collect();
        on(client, WireOp::Read { fid: FID, bulk, checksum: false })
    };
    // 4 MiB of page memory, after a head of 2 MiB.
    let end = 6 << 20;
    raw.ask(2, read(&[(0, end - 1, 1)]));
    assert!(matches!(decode(&raw.receive()).unwrap(), FromDaemon::Reply { id: 2, result: Ok(_) }), "the last place");
    for places in [
        &[(0, end, 1)][..],
        &[(0, u64::MAX, 1)],
        &[(0, end - 1, 2)],
        &[(0, 0, u32::MAX)],
        &[(0, 0, 0)],
        &[(4096, 0, 4096), (0, 0, 4096)],
        &[(0, 0, 4096), (4095, 0, 4096)],
        &[(0, 0, 1); 5000],
    ] {
        assert_eq!(raw.refused(read(places)), Errno::EINVAL, "{places:?}");
    }
    assert_eq!(raw.refused(read(&[(u64::MAX, 0, 4096)])), Errno::EFBIG);
    let fid = FID;
    let attr = clio_node::wire::WireAttr { words: [1; 6], owner: [0; 2] };
    let odd = WireOp::SetAttr { fid, attr, mask: u32::MAX };
    assert_eq!(raw.refused(on(client, odd)), Errno::EINVAL);
    let backwards = WireOp::Punch { fid, range: (9, 3), lock: None, mtime: 0 };
    assert_eq!(raw.refused(on(client, backwards)), Errno::EINVAL);
    assert_eq!(raw.refused(Request::Names(NamesOp::CloseRef(FID))), Errno::EBADF);
    raw.send(&encode(&FromClient::Glimpsed { token: 77, lvb: None }).unwrap());
    raw.ask(3, on(client, WireOp::Disconnect));
    assert!(matches!(decode(&raw.receive()).unwrap(), FromDaemon::Reply { id: 3, result: Ok(_) }));
    assert_eq!(raw.refused(on(client, WireOp::StatFs)), Errno::ESTALE, "it is gone");
    serves_on(&daemon, "/a");
}

#[test]
fn a_client_that_floods_and_never_reads_is_cut_off_and_the_others_are_not() {
    let daemon = Daemon::start();
    let names = NodeNames::new(daemon.connect());
    for i in 0..300 {
        let name = format!("/{i:0>200}");
        names.mkdir(&OpCtx::at(1), (&name).into(), &NewNode::new(0o755, 0, 0)).unwrap();
    }
    let raw = Raw::greeted(&daemon);
    let list = NamesOp::ReadDir { dir: clio_namespace::Namespace::ROOT.to_bytes(), after: None, limit: 4096 };
    let packet = encode(&FromClient::Request { id: 1, request: Request::Names(list) }).unwrap();
    let sent = (0..100_000).take_while(|_| rustix::net::send(&raw.0, &packet, SendFlags::NOSIGNAL).is_ok()).count();
    assert!(sent < 100_000, "its answers are some 60 KB each, and nobody reads them");
    serves_on(&daemon, "/a");
}

#[test]
fn a_client_that_goes_in_the_middle_leaves_nothing_behind() {
    let daemon = Daemon::start();
    for round in 0..50 {
        let raw = Raw::greeted(&daemon);
        let client = raw.link();
        let flags = WireFlags { try_lock: false, glimpse: false, mandatory: false, exact: false };
        let (fid, range, mode) = (FID, (0, 4096), WireMode::Pw);
        for id in 0..20 {
            let op = WireOp::Enqueue { fid, range, mode, flags };
            raw.ask(id, Request::Target { target: 0, client, op });
            let bulk = vec![WireSegment { offset: round * 4096, at: 0, len: 1 << 20 }];
            let op = WireOp::Read { fid, bulk, checksum: true };
            raw.ask(100 + id, Request::Target { target: 0, client, op });
        }
    }
    let raw = Raw::greeted(&daemon);
    let client = raw.link();
    let flags = WireFlags { try_lock: false, glimpse: false, mandatory: false, exact: false };
    let op = WireOp::Enqueue { fid: FID, range: (0, 4096), mode: WireMode::Pw, flags };
    raw.ask(1, Request::Target { target: 0, client, op });
    assert!(matches!(decode(&raw.receive()).unwrap(), FromDaemon::Reply { id: 1, result: Ok(_) }), "the lock is free");
    while daemon.stop.clients() > 1 {
        std::thread::yield_now();
    }
}

/// Clients `tokens` hold a lock each when their daemon ends; the next daemon, which waits for them.
fn awaited(tokens: &[u64], patience: Duration) -> Daemon {
    let daemon = Daemon::start();
    let hold = |token: &u64| {
        let (raw, _) = Raw::greeted_as(&daemon, *token);
        raw.lock(raw.link(), *token);
        raw
    };
    let holders: Vec<Raw> = tokens.iter().map(hold).collect();
    // They give nothing back.
    let next = daemon.succeeded(patience);
    drop(holders);
    next
}

/// What it holds by then could be another's a moment later.
#[test]
fn a_client_that_doesnt_get_done_with_taking_up_its_locks_is_cut_off() {
    let daemon = awaited(&[7], Duration::from_secs(2));
    let (slow, is_awaited) = Raw::greeted_as(&daemon, 7);
    assert!(is_awaited);
    slow.lock(slow.resume(0).unwrap(), 7);
    // It is heard when nobody is waited for any more, and the lock is free then.
    let (other, is_awaited) = Raw::greeted_as(&daemon, 8);
    assert!(!is_awaited);
    other.lock(other.link(), 7);
    assert!(slow.is_cut_off(), "before it is asked for its lock, or anything else is said");
    let (_slow, is_awaited) = Raw::greeted_as(&daemon, 7);
    assert!(!is_awaited, "it has lost its locks");
}

#[test]
fn grant_is_taken_up_by_who_is_awaited_and_only_until_it_says_that_it_is_done() {
    let daemon = awaited(&[7], Duration::from_secs(20));
    let (raw, is_awaited) = Raw::greeted_as(&daemon, 7);
    assert!(is_awaited && raw.resume(4096).is_ok());
    raw.ask(3, Request::Recovered);
    assert!(matches!(decode(&raw.receive()).unwrap(), FromDaemon::Reply { id: 3, result: Ok(Answer::Recovered) }));
    let new = Raw::greeted_as(&daemon, 8).0;
    for raw in [raw, new] {
        assert_eq!(raw.resume(4096).unwrap_err(), Errno::EPERM);
        assert!(raw.resume(0).is_ok(), "it claims nothing");
    }
    serves_on(&daemon, "/a");
}

#[test]
fn a_client_is_done_once() {
    let daemon = awaited(&[7, 8], Duration::from_secs(20));
    let (raw, other) = (Raw::greeted_as(&daemon, 7).0, Raw::greeted_as(&daemon, 8).0);
    raw.ask(3, Request::Recovered);
    for _ in 0..100 {
        assert_eq!(raw.refused(Request::Recovered), Errno::EINVAL, "the first one waits for the other client");
    }
    other.ask(4, Request::Recovered);
    for (raw, asked) in [(raw, 3), (other, 4)] {
        match decode(&raw.receive()).unwrap() {
            FromDaemon::Reply { id, result: Ok(Answer::Recovered) } => assert_eq!(id, asked),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(Raw::greeted_as(&daemon, 9).0.refused(Request::Recovered), Errno::EINVAL, "nobody waits for it");
}

/// The tokens of those that have been connected are there for all processes of the user to read.
#[test]
fn a_client_that_names_itself_as_another_process_has_is_refused() {
    let daemon = Daemon::start();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let started = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    let notes = format!("{}.clients", daemon.path().display());
    std::fs::write(format!("{notes}/{:016x}", 9), format!("{} {started} holder", child.id())).unwrap();
    let daemon = daemon.succeeded(Duration::from_secs(20));
    let raw = Raw::connect(&daemon);
    raw.hello(9);
    let Welcome::Refused(e) = decode(&raw.receive()).unwrap() else { panic!("served") };
    assert_eq!(Errno::from_raw(e.errno), Errno::EACCES);
    assert!(raw.is_cut_off());
    child.kill().unwrap();
    child.wait().unwrap();
    serves_on(&daemon, "/a");
}

/// Connections that never say anything make room for those that do, and for the newest of them.
#[test]
fn connections_without_a_greeting_keep_nobody_out() {
    let daemon = Daemon::start();
    let silent: Vec<Raw> = (0..200).map(|_| Raw::connect(&daemon)).collect();
    assert!(silent[0].is_cut_off(), "the oldest goes");
    serves_on(&daemon, "/a");
    let last = silent.last().unwrap();
    last.hello(7);
    assert!(matches!(decode(&last.receive()).unwrap(), Welcome::Served { .. }), "the newest may still greet");
    assert!(silent[..100].iter().all(Raw::is_cut_off));
}
