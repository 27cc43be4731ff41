//! A daemon that has no descriptor left. A process of its own, since it is the process that the limit is of.

use clio_core::target::Target;
use clio_core::{Errno, Result};
use clio_namespace::{Doomed, Namespace, NewNode};
use clio_node::client::Connection;
use clio_node::server::{Served, Server};
use clio_node::wire::{Hello, MAGIC, MAJOR, MAX_MESSAGE_BYTES, MINOR, Welcome, decode, encode};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::Duration;

/// A store without targets.
struct Store(Namespace);

impl Served for Store {
    fn targets(&self) -> &[Arc<dyn Target>] {
        &[]
    }
    fn namespace(&self) -> &Namespace {
        &self.0
    }
    fn destroy(&self, _: &Doomed) {}
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn who_comes_when_descriptors_are_short_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let store = Arc::new(Store(Namespace::in_memory(&NewNode::new(0o755, 0, 0), 1).unwrap()));
    let server = Server::bind(&path, store).unwrap();
    let stop = server.stop();
    let thread = std::thread::spawn(move || server.run().unwrap());
    let before = Connection::open(&path, 1 << 20).unwrap();

    let flags = SocketFlags::CLOEXEC;
    let socket = |_| rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let all: Vec<OwnedFd> = (0..20).map(socket).collect();
    let limit = getrlimit(Resource::Nofile);
    // The lowest number that is free, and so the first one above the limit: none can be had.
    let next = std::fs::File::open("/dev/null").unwrap();
    let few = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
    drop(next);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(few), ..limit }).unwrap();
    let address = SocketAddrUnix::new(&path).unwrap();
    let (magic, major, minor) = (MAGIC, MAJOR, MINOR);
    for (token, socket) in (100..).zip(&all) {
        let wait = Some(Duration::from_secs(20));
        rustix::net::sockopt::set_socket_timeout(socket, rustix::net::sockopt::Timeout::Recv, wait).unwrap();
        rustix::net::connect(socket, &address).unwrap();
        let hello = Hello { magic, major, minor, arena_bytes: 4 << 20, brings_arena: false, token };
        // It may have been refused already.
        let _ = rustix::net::send(socket, &encode(&hello).unwrap(), SendFlags::NOSIGNAL);
        let mut packet = vec![0; MAX_MESSAGE_BYTES];
        let (n, _) = rustix::net::recv(socket, &mut packet[..], RecvFlags::empty()).unwrap();
        packet.truncate(n);
        let Welcome::Refused(e) = decode(&packet).unwrap() else { panic!("served") };
        assert_eq!(Errno::from_raw(e.errno), Errno::EUSERS);
    }
    before.status().unwrap();
    setrlimit(Resource::Nofile, limit).unwrap();
    Connection::open(&path, 1 << 20).unwrap();
    drop((before, all));
    stop.stop();
    thread.join().unwrap();
}
