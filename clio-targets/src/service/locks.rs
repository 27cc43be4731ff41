//! Requests for locks: attributes of the object first, then the lock manager; and its timeouts.

use super::Core;
use super::outbox::OwnLock;
use super::state::{LockRequest, SERVER, State, Waiter};
use crate::bulk;
use crate::store::ObjectStore;
use clio_core::attr::Attr;
use clio_core::lockrank::RankedGuard;
use clio_core::target::{EnqueueFlags, LockMode};
use clio_core::units::{Extent, Fid};
use clio_core::{Error, Result};
use clio_dlm::Event;
use std::sync::Arc;
use std::time::Duration;

/// Flags of the service's own locks: granted sooner or later, and no larger than the I/O.
const OWN: EnqueueFlags = EnqueueFlags { try_lock: false, glimpse: false, mandatory: true, exact: true };

impl<S: ObjectStore> Core<S> {
    /// Feeds the lock manager and tells what follows.
    pub(super) fn step(self: &Arc<Self>, event: Event) {
        let now = self.now_ms();
        self.state.lock().step(now, event);
        self.settle();
    }

    /// After the lock manager was fed: plans its next timeout, and tells what there is to tell.
    pub(super) fn settle(self: &Arc<Self>) {
        self.plan_tick(self.state.lock());
        self.deliver();
    }

    /// Takes a lock for the service's own use.
    pub(super) fn lock_for_self(self: &Arc<Self>, fid: Fid, extent: Extent, mode: LockMode, go_on: OwnLock) {
        let waiter = Waiter::Own(go_on);
        self.enqueue(fid, LockRequest { client: SERVER, extent, mode, flags: OWN, waiter });
    }

    /// Asks for a lock. The first lock of an object needs its attributes read from the store before.
    pub(super) fn enqueue(self: &Arc<Self>, fid: Fid, request: LockRequest) {
        let mut state = self.state.lock();
        if let Some(loading) = state.loading.get_mut(&fid) {
            loading.requests.push(request);
            return;
        }
        if state.dlm.lvb_known(fid) {
            let now = self.now_ms();
            state.enqueue(fid, request, None, now);
            return self.plan_tick(state);
        }
        state.loading.entry(fid).or_default().requests.push(request);
        drop(state);
        // Cached attributes cost no way through the queue.
        if let Some(attr) = self.store.try_getattr(fid) {
            return self.loaded(fid, attr);
        }
        let core = self.clone();
        self.exec.run(Box::new(move |runs| {
            let attr = runs.and_then(|()| core.store.getattr(fid));
            core.loaded(fid, attr);
            core.deliver();
        }));
    }

    /// The attributes of an object have been read: lets the requests that waited for them go on. If the object has
    /// changed since, they may be old: reads them again.
    fn loaded(self: &Arc<Self>, fid: Fid, mut attr: Result<Attr>) {
        loop {
            let mut state = self.state.lock();
            let Some(loading) = state.loading.get_mut(&fid) else { return };
            if !std::mem::take(&mut loading.stale) || attr.is_err() {
                let requests = state.loading.remove(&fid).map_or_else(Vec::new, |l| l.requests);
                self.enqueue_loaded(&mut state, fid, requests, attr);
                return self.plan_tick(state);
            }
            drop(state);
            attr = self.store.getattr(fid);
        }
    }

    fn enqueue_loaded(&self, state: &mut State, fid: Fid, requests: Vec<LockRequest>, attr: Result<Attr>) {
        let now = self.now_ms();
        for request in requests {
            match &attr {
                Ok(attr) => state.enqueue(fid, request, Some(bulk::lvb_of(attr)), now),
                Err(e) => state.fail(request.waiter, Error::clone(e).on(fid)),
            }
        }
    }

    /// Makes the object's new attributes known to the lock manager, before anybody hears that it has changed.
    pub(super) fn publish(state: &mut State, fid: Fid, attr: &Attr, truncate: bool, now: u64) {
        if let Some(loading) = state.loading.get_mut(&fid) {
            loading.stale = true;
        }
        state.step(now, Event::LvbUpdate { fid, lvb: bulk::lvb_of(attr), truncate });
    }

    /// Sees to it that the lock manager's next timeout is looked at. Called with what it was fed under.
    fn plan_tick(self: &Arc<Self>, mut state: RankedGuard<'_, State>) {
        let Some(due) = state.dlm.next_deadline() else { return };
        if state.tick_at.is_some_and(|at| at <= due) {
            return;
        }
        state.tick_at = Some(due);
        drop(state);
        let core = Arc::downgrade(self);
        let tick = move || {
            if let Some(core) = core.upgrade() {
                core.tick();
            }
        };
        let at = self.started + Duration::from_millis(due);
        if self.timer.at(at, Box::new(tick)).is_err() {
            tracing::error!(target: "clio::dlm", "no thread for timeouts: clients that don't answer keep their locks");
            self.state.lock().tick_at = None;
        }
    }

    fn tick(self: &Arc<Self>) {
        let now = self.now_ms();
        {
            let mut state = self.state.lock();
            state.tick_at = None;
            state.prolong_running(now);
            state.step(now, Event::Tick);
        }
        self.settle();
    }
}
