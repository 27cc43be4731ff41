//! A client's first packet, and its answer.

use super::Shared;
use super::clients::Leaving;
use super::registry::Known;
use crate::socket::Socket;
use crate::wire::{self, Hello, MAGIC, MAJOR, MINOR, Welcome, WireError};
use clio_arena::{CHUNK_BYTES, Mapping};
use clio_core::{Errno, Error, Result};
use rustix::fd::OwnedFd;
use rustix::net::UCred;
use std::sync::Arc;

/// Smallest and largest arena of a client, in bytes of address space; memory is only taken as it is used.
const ARENA_BYTES: std::ops::RangeInclusive<u64> = CHUNK_BYTES as u64..=1 << 40;

/// A client that has been greeted.
pub(super) struct Greeted {
    pub(super) token: u64,
    /// What is shared with it: an arena that was made for it, or its own, of an earlier daemon.
    pub(super) arena: Arc<Mapping>,
    /// An earlier daemon had it, and it may take up what it held.
    pub(super) is_awaited: bool,
    /// It is new, and others have to be waited for.
    pub(super) waits: bool,
}

/// Answers a client's first packet.
///
/// # Errors
/// What the client did wrong, or what is short; it has been told.
pub(super) fn greet(
    shared: &Shared,
    socket: &Socket,
    peer: &UCred,
    hello: &[u8],
    arena: Option<OwnedFd>,
) -> Result<Greeted> {
    let welcomed = check(hello).and_then(|hello| {
        if hello.brings_arena {
            let none = || Error::new(Errno::EPROTO, "connect", "the client's arena didn't come with its greeting");
            return Ok((hello.token, Arc::new(Mapping::attach(arena.ok_or_else(none)?)?)));
        }
        let bytes = hello.arena_bytes.clamp(*ARENA_BYTES.start(), *ARENA_BYTES.end());
        Ok((hello.token, Arc::new(Mapping::for_arena(bytes as usize)?)))
    });
    let (token, arena) = welcomed.inspect_err(|e| refuse(socket, e))?;
    let who = Known::of(token, peer.pid.as_raw_nonzero().get() as u32);
    let come = {
        let mut clients = shared.clients_known.lock();
        if clients.is_anothers(&who) {
            Err(Error::new(Errno::EACCES, "connect", "the client names itself as another process has"))
        } else {
            // Before the client holds anything.
            clients.registry.add(who);
            let is_awaited = clients.recovery.came(token);
            Ok((is_awaited, clients.recovery.is_on() && !is_awaited))
        }
    };
    let (is_awaited, waits) = come.inspect_err(|e| refuse(socket, e))?;
    let targets = shared.served.targets().len() as u16;
    let welcome = wire::encode(&Welcome::Served { minor: MINOR, targets, is_awaited })?;
    let greeted = Greeted { token, arena, is_awaited, waits };
    match socket.send(&welcome, greeted.arena.fd(), false) {
        Ok(true) => Ok(greeted),
        sent => {
            // The session doesn't know yet whose it is.
            shared.gone(token, Leaving::Cut);
            sent?;
            Err(Error::new(Errno::EPROTO, "connect", "the client leaves no room for an answer"))
        }
    }
}

fn check(hello: &[u8]) -> Result<Hello> {
    let hello: Hello = wire::decode(hello)?;
    if hello.magic != MAGIC {
        return Err(Error::new(Errno::EPROTO, "connect", "the client speaks another protocol"));
    } else if hello.major != MAJOR {
        let why = format!(
            "the client speaks version {}.{} of the protocol, the daemon {MAJOR}.{MINOR}; use the same release for both",
            hello.major, hello.minor
        );
        return Err(Error::new(Errno::EPROTO, "connect", why));
    }
    Ok(hello)
}

/// Tells somebody that connects why it isn't served.
pub(super) fn refuse(socket: &Socket, e: &Error) {
    tracing::info!(target: "clio::node", error = %e, "a client is refused");
    // It may be gone already.
    let _ = wire::encode(&Welcome::Refused(WireError::from(e))).and_then(|packet| socket.send(&packet, None, false));
}
