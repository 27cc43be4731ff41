//! Making everything durable, for clients that ask for it. That can take long, and covers all who asked before it began, so
//! that one worker at a time does it, and the others are there for names.

use super::Shared;
use super::outbox::Outbox;
use crate::wire::Answer;
use clio_core::lockrank::{LockRank, RankedMutex};
use std::sync::Arc;

/// Who waits for the next time.
pub(super) struct Syncs(RankedMutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: Vec<(u64, Arc<Outbox>)>,
    /// A worker is at it.
    is_running: bool,
}

impl Default for Syncs {
    fn default() -> Self {
        Self(RankedMutex::new(LockRank::Leaf, Queue::default()))
    }
}

/// Begins to answer request `id`.
pub(super) fn begin(shared: &Arc<Shared>, id: u64, outbox: Arc<Outbox>) {
    let first = {
        let mut queue = shared.syncs.0.lock();
        queue.waiting.push((id, outbox));
        !std::mem::replace(&mut queue.is_running, true)
    };
    if first {
        let this = shared.clone();
        shared.work(move || run(&this));
    }
}

/// Says so if the worker panics: the next request then has another one begin.
struct Running<'a>(&'a Syncs);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.lock().is_running = false;
        }
    }
}

fn run(shared: &Shared) {
    let _running = Running(&shared.syncs);
    loop {
        let asked = {
            let mut queue = shared.syncs.0.lock();
            queue.is_running = !queue.waiting.is_empty();
            std::mem::take(&mut queue.waiting)
        };
        if asked.is_empty() {
            return;
        }
        let synced = shared.served.sync();
        for (id, outbox) in asked {
            outbox.reply(id, synced.clone().map(|()| Answer::Synced));
            outbox.end();
        }
    }
}
