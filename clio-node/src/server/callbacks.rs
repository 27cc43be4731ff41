//! What the lock manager tells a client.

use super::locks::Locks;
use super::outbox::Outbox;
use crate::wire::{Event, FromDaemon, Salt, WireLvb};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{DlmHandle, GlimpseReply, TargetClient};
use clio_core::units::TargetIndex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Glimpses that a client has been asked for and has not answered. Dropped, they say that nothing better is known.
pub(super) struct Glimpses(RankedMutex<Open>);

#[derive(Default)]
struct Open {
    next: u64,
    replies: HashMap<u64, GlimpseReply>,
    is_closed: bool,
}

impl Default for Glimpses {
    fn default() -> Self {
        Self(RankedMutex::new(LockRank::Leaf, Open::default()))
    }
}

impl Glimpses {
    fn add(&self, reply: GlimpseReply) -> Option<u64> {
        let mut open = self.0.lock();
        if open.is_closed {
            return None;
        }
        open.next += 1;
        let token = open.next;
        open.replies.insert(token, reply);
        Some(token)
    }

    /// The client's answer. One that was not asked for is ignored.
    pub(super) fn answer(&self, token: u64, lvb: Option<WireLvb>) {
        let reply = self.0.lock().replies.remove(&token);
        if let (Some(reply), Some(lvb)) = (reply, lvb) {
            reply(lvb.into());
        }
    }

    /// No answer will come.
    pub(super) fn close(&self) {
        let replies = {
            let mut open = self.0.lock();
            open.is_closed = true;
            std::mem::take(&mut open.replies)
        };
        drop(replies);
    }
}

/// The callbacks of one client at one target.
pub(super) struct Callbacks {
    pub(super) outbox: Arc<Outbox>,
    pub(super) glimpses: Arc<Glimpses>,
    pub(super) salt: Salt,
    pub(super) locks: Arc<Locks>,
    /// Known as soon as the target has given it, which is before it gives any lock.
    pub(super) client: OnceLock<u64>,
}

impl Callbacks {
    fn send(&self, target: TargetIndex, event: Event) {
        if let Some(client) = self.client.get() {
            self.outbox.send(&FromDaemon::Event { target: target.0, client: *client, event });
        }
    }
}

impl TargetClient for Callbacks {
    fn blocking_ast(&self, target: TargetIndex, handle: DlmHandle) {
        self.send(target, Event::Blocking(self.salt.out(handle.0)));
    }

    fn glimpse_ast(&self, target: TargetIndex, handle: DlmHandle, reply: GlimpseReply) {
        if let Some(token) = self.glimpses.add(reply) {
            self.send(target, Event::Glimpse { handle: self.salt.out(handle.0), token });
        }
    }

    fn evicted(&self, target: TargetIndex) {
        if let Some(client) = self.client.get() {
            self.locks.remove_all(target.0, *client);
        }
        self.send(target, Event::Evicted);
    }
}
