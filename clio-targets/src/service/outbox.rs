//! What the service has to tell, in the order it was decided, told without any lock held.

use super::Core;
use crate::store::ObjectStore;
use clio_core::Result;
use clio_core::attr::Lvb;
use clio_core::target::{Completion, DlmHandle, Reply, TargetClient};
use clio_core::units::{ClientId, Fid};
use clio_dlm::Event;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Goes on with an operation for which the service takes the lock itself.
pub(super) type OwnLock = Box<dyn FnOnce(Result<DlmHandle>) + Send>;

/// One thing to tell.
pub(super) enum Delivery {
    /// The outcome of a request.
    Complete(Completion, Result<Reply>),
    /// A client's lock on an object was granted. The attributes in the reply are brought up to date when it is told.
    Granted(Fid, Completion, Reply),
    /// The service's own lock was granted or refused.
    Own(OwnLock, Result<DlmHandle>),
    /// A blocking AST.
    Blocking(Arc<dyn TargetClient>, DlmHandle),
    /// A glimpse AST.
    Glimpse(Arc<dyn TargetClient>, GlimpseId),
    /// An eviction.
    Evicted(Arc<dyn TargetClient>),
}

/// Which glimpse of which holder.
#[derive(Clone, Copy, Debug)]
pub(super) struct GlimpseId {
    pub(super) client: ClientId,
    pub(super) handle: DlmHandle,
    pub(super) glimpse: u64,
}

/// Deliveries in order. One thread at a time makes them, so that the order holds for each client: a grant never comes
/// after the blocking AST for it. Whoever adds something while a delivery is being made leaves it to that thread.
#[derive(Default)]
pub(super) struct Outbox {
    queue: VecDeque<Delivery>,
    delivering: bool,
    /// Deliveries wait for so many things.
    holds: usize,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to deliver", self.queue.len())
    }
}

impl Outbox {
    pub(super) fn push(&mut self, delivery: Delivery) {
        self.queue.push_back(delivery);
    }

    /// Keeps everything back, until as many calls of [`Outbox::release`] have come.
    pub(super) fn hold(&mut self) {
        self.holds += 1;
    }

    pub(super) fn release(&mut self) {
        self.holds -= 1;
    }

    pub(super) fn pop(&mut self) -> Option<Delivery> {
        if self.holds > 0 { None } else { self.queue.pop_front() }
    }
}

/// Lets go of the right to deliver even if a callback panics.
struct Delivering<'a, S: ObjectStore>(&'a Core<S>);

impl<S: ObjectStore> Drop for Delivering<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().outbox.delivering = false;
        }
    }
}

impl<S: ObjectStore> Core<S> {
    /// Makes all deliveries, unless another thread (or a caller up this stack) is at it.
    pub(super) fn deliver(self: &Arc<Self>) {
        {
            let outbox = &mut self.state.lock().outbox;
            if outbox.delivering || outbox.queue.is_empty() {
                return;
            }
            outbox.delivering = true;
        }
        let _right = Delivering(self);
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state.next_delivery();
                state.outbox.delivering = next.is_some();
                next
            };
            let Some(delivery) = next else { return };
            self.make(delivery);
        }
    }

    fn make(self: &Arc<Self>, delivery: Delivery) {
        match delivery {
            Delivery::Complete(done, result) => done(result),
            Delivery::Granted(_, done, reply) => done(Ok(reply)),
            Delivery::Own(go_on, result) => go_on(result),
            Delivery::Blocking(client, handle) => client.blocking_ast(self.index, handle),
            Delivery::Evicted(client) => client.evicted(self.index),
            Delivery::Glimpse(client, id) => {
                let answer = GlimpseAnswer { core: Arc::downgrade(self), id, answered: false };
                client.glimpse_ast(self.index, id.handle, Box::new(move |lvb| answer.give(lvb)));
            }
        }
    }
}

/// The right to answer a glimpse once. Dropped unused, it answers "nothing better than yours".
struct GlimpseAnswer<S: ObjectStore> {
    core: Weak<Core<S>>,
    id: GlimpseId,
    answered: bool,
}

impl<S: ObjectStore> GlimpseAnswer<S> {
    fn give(mut self, lvb: Lvb) {
        self.answered = true;
        self.tell(Some(lvb));
    }

    fn tell(&self, lvb: Option<Lvb>) {
        let GlimpseId { client, handle, glimpse } = self.id;
        if let Some(core) = self.core.upgrade() {
            core.step(Event::GlimpseReply { client, handle, glimpse, lvb });
        }
    }
}

impl<S: ObjectStore> Drop for GlimpseAnswer<S> {
    fn drop(&mut self) {
        if !self.answered {
            self.tell(None);
        }
    }
}
