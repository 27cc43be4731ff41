//! What is on its way to a client, and whether the client is listened to.

use super::session::MAX_OPEN;
use super::{Shared, failed};
use crate::socket::Socket;
use crate::wire::{self, Answer, FromDaemon, WireError};
use clio_core::lockrank::{LockRank, RankedGuard, RankedMutex};
use clio_core::{Errno, Error, Result};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that may wait for a client that doesn't read; then its session ends.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// Sends to one client, in order, from any thread, without blocking.
pub(super) struct Outbox {
    id: u64,
    socket: Arc<Socket>,
    shared: Arc<Shared>,
    state: RankedMutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Requests that are being worked on.
    open: usize,
    /// Too many are: no more packets are taken.
    is_paused: bool,
    /// Nothing can be sent any more.
    is_closed: bool,
    /// The session is over.
    is_ended: bool,
}

impl Outbox {
    pub(super) fn new(id: u64, socket: Arc<Socket>, shared: Arc<Shared>) -> Self {
        Self { id, socket, shared, state: RankedMutex::new(LockRank::Leaf, State::default()) }
    }

    /// Sends, or has it wait for room. A client that is gone, or that lets too much wait, loses its session.
    pub(super) fn send(&self, message: &FromDaemon) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        let sent = wire::encode(message).and_then(|packet| {
            if state.waiting.is_empty() && self.socket.send(&packet, None, false)? {
                return Ok(());
            }
            state.waiting_bytes += packet.len();
            state.waiting.push_back(packet);
            if state.waiting_bytes > MAX_WAITING_BYTES {
                return Err(Error::new(Errno::ETIMEDOUT, "send", "the client doesn't read its answers"));
            }
            self.watch(&state)
        });
        if let Err(e) = sent {
            tracing::info!(target: "clio::node", session = self.id, error = %e, "a session is cut");
            state.is_closed = true;
            // The thread that waits for packets sees an end, and does the rest.
            self.socket.stop_receiving();
        }
    }

    /// Answers request `id`.
    pub(super) fn reply(&self, id: u64, result: Result<Answer>) {
        self.send(&FromDaemon::Reply { id, result: result.map_err(|e| WireError::from(&e)) });
    }

    /// Sends what waits, as far as there is room.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        while let Some(packet) = state.waiting.front() {
            if !self.socket.send(packet, None, false)? {
                return Ok(());
            }
            state.waiting_bytes -= packet.len();
            state.waiting.pop_front();
        }
        self.watch(&state)
    }

    /// A request begins. False if it is one too many for now: no further packet is taken until one ends.
    pub(super) fn begin(&self) -> Result<bool> {
        let mut state = self.state.lock();
        state.open += 1;
        if state.open >= MAX_OPEN && !state.is_paused {
            state.is_paused = true;
            self.watch(&state)?;
        }
        Ok(!state.is_paused)
    }

    /// A request ends.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.open -= 1;
        if state.is_paused && state.open < MAX_OPEN / 2 {
            state.is_paused = false;
            if !state.is_closed && self.watch(&state).is_err() {
                self.socket.stop_receiving();
            }
        }
        if state.is_ended && state.open == 0 {
            self.socket.shut_down();
        }
    }

    /// The session has ended: nothing is sent any more. The client sees the end once nothing moves data in its arena any
    /// more: from then on it may use the memory for something else.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        (state.is_closed, state.is_ended) = (true, true);
        state.waiting.clear();
        if state.open == 0 {
            self.socket.shut_down();
        }
    }

    /// Has the system tell what can be done next.
    fn watch(&self, state: &RankedGuard<'_, State>) -> Result<()> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !state.is_paused);
        flags.set(EventFlags::OUT, !state.waiting.is_empty());
        let data = EventData::new_u64(self.id);
        epoll::modify(&self.shared.epoll, &*self.socket, data, flags).map_err(|e| failed("epoll", e))
    }
}
