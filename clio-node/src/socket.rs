//! Packets over a Unix socket, with a descriptor beside one.

use crate::wire::MAX_MESSAGE_BYTES;
use clio_core::{Errno, Error, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno as Os;
use rustix::net::sockopt::Timeout;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, UCred,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// One end of a connection. Packets arrive whole and in order, or not at all.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Connects to the daemon that listens at `path`. Blocks; from then on, what blocks does so for `limit` at most, and
    /// comes to what it does where it must not block.
    ///
    /// # Errors
    /// `ENOENT`, `ECONNREFUSED` (as `ENODEV`) if nobody listens; `ETIMEDOUT` if nobody listens to whom waits there; what the
    /// system says.
    pub(crate) fn connect(path: &Path, limit: Duration) -> Result<Socket> {
        let socket = Socket(open()?);
        socket.block_for(Some(limit))?;
        match net::connect(&socket.0, &address(path)?) {
            Ok(()) => Ok(socket),
            Err(Os::AGAIN) => {
                Err(Error::new(Errno::ETIMEDOUT, "connect", "the daemon lets nobody in: it may be stopped"))
            }
            Err(e) => Err(failed("connect", e)),
        }
    }

    /// Has what blocks do so for `limit` at most; for as long as it takes, without one.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn block_for(&self, limit: Option<Duration>) -> Result<()> {
        for which in [Timeout::Recv, Timeout::Send] {
            net::sockopt::set_socket_timeout(&self.0, which, limit).map_err(|e| failed("socket", e))?;
        }
        Ok(())
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn peer(&self) -> Result<UCred> {
        net::sockopt::socket_peercred(&self.0).map_err(|e| failed("peer", e))
    }

    /// Sends one packet, with a descriptor if one is given. False if that would block, and `block` isn't set.
    ///
    /// # Errors
    /// `ESHUTDOWN` if the other end is gone; what the system says.
    pub(crate) fn send(&self, packet: &[u8], fd: Option<BorrowedFd<'_>>, block: bool) -> Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = fd.map(|fd| [fd]);
        if let Some(fds) = &fds {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::NOSIGNAL | if block { SendFlags::empty() } else { SendFlags::DONTWAIT };
        loop {
            match net::sendmsg(&self.0, &[IoSlice::new(packet)], &mut ancillary, flags) {
                Ok(_) => return Ok(true),
                Err(Os::INTR) => {}
                Err(Os::AGAIN) => return Ok(false),
                Err(e) => return Err(failed("send", e)),
            }
        }
    }

    /// Receives one packet into `buf`, and the descriptor that came with it; `None` if there is none now, and `block`
    /// isn't set.
    ///
    /// # Errors
    /// `ESHUTDOWN` if the other end is gone; `EPROTO` for a packet longer than any message; what the system says.
    pub(crate) fn receive<'b>(&self, buf: &'b mut Buffer, block: bool) -> Result<Option<(&'b [u8], Option<OwnedFd>)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | if block { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let got = loop {
            match net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut buf.0)], &mut ancillary, flags) {
                Ok(got) => break got,
                Err(Os::INTR) => {}
                Err(Os::AGAIN) => return Ok(None),
                Err(e) => return Err(failed("receive", e)),
            }
        };
        let fd = ancillary.drain().find_map(|m| match m {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(Error::new(Errno::EPROTO, "receive", "a packet is longer than any message"));
        } else if got.bytes == 0 {
            return Err(Error::new(Errno::ESHUTDOWN, "receive", "the other end has closed the connection"));
        }
        Ok(Some((&buf.0[..got.bytes], fd)))
    }

    /// Makes [`Socket::receive`] meet an end, here alone.
    pub(crate) fn stop_receiving(&self) {
        let _ = net::shutdown(&self.0, net::Shutdown::Read);
    }

    /// Ends the connection for both sides; whoever waits in [`Socket::receive`] comes back.
    pub(crate) fn shut_down(&self) {
        // An error means that it is down already.
        let _ = net::shutdown(&self.0, net::Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Room for the longest message.
pub(crate) struct Buffer(Box<[u8]>);

impl Buffer {
    pub(crate) fn new() -> Self {
        Self(vec![0; MAX_MESSAGE_BYTES].into_boxed_slice())
    }
}

/// Where clients connect.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    /// Listens at `path`, where nothing must be.
    ///
    /// # Errors
    /// `EADDRINUSE` (as `EEXIST`), `ENAMETOOLONG`, what the system says.
    pub(crate) fn bind(path: &Path) -> Result<Listener> {
        let socket = open()?;
        net::bind(&socket, &address(path)?).map_err(|e| failed("bind", e))?;
        net::listen(&socket, BACKLOG).map_err(|e| failed("listen", e))?;
        Ok(Listener(socket))
    }

    /// The next client; `None` if nobody waits.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub(crate) fn accept(&self) -> Result<Option<Socket>> {
        match net::accept_with(&self.0, SocketFlags::CLOEXEC) {
            Ok(fd) => {
                enlarge(&fd);
                Ok(Some(Socket(fd)))
            }
            Err(Os::AGAIN | Os::INTR | Os::CONNABORTED) => Ok(None),
            Err(e) => Err(failed("accept", e)),
        }
    }

    /// Makes [`Listener::accept`] return at once.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn set_nonblocking(&self) -> Result<()> {
        rustix::io::ioctl_fionbio(&self.0, true).map_err(|e| failed("listen", e))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(|e| failed("socket", e))?;
    enlarge(&socket);
    Ok(socket)
}

/// The longest message must fit. The kernel doubles what is asked for; where it allows less, long messages fail alone.
fn enlarge(socket: &OwnedFd) {
    let _ = net::sockopt::set_socket_send_buffer_size(socket, MAX_MESSAGE_BYTES);
}

fn address(path: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        Error::new(Errno::ENAMETOOLONG, "connect", "a socket's path has 107 bytes at most; name a shorter folder")
            .at(path.display().to_string())
    })
}

fn failed(op: &'static str, e: Os) -> Error {
    let errno = match e {
        Os::PIPE | Os::CONNRESET | Os::NOTCONN => Errno::ESHUTDOWN,
        Os::CONNREFUSED => Errno::ENODEV,
        Os::ADDRINUSE => Errno::EEXIST,
        Os::MSGSIZE => Errno::E2BIG,
        e => Errno::from_raw(e.raw_os_error()),
    };
    Error::new(errno, op, e.to_string()).with_cause(std::io::Error::from(e))
}
