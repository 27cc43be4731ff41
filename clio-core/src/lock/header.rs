//! The header of an extent lock: what all layers share, and the mutex that guards it.

use super::events::Events;
use super::gate::{Flags, Gate};
use super::{LockDescr, LockSlice, LockState};
use crate::env::Env;
use crate::error::{Errno, Error, Result};
use crate::lockrank::{RankedGuard, RankedMutex};
use crate::object::Object;
use crate::units::Fid;
use smallvec::SmallVec;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Names an extent lock within the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockId(pub u64);

pub(super) type Slices = SmallVec<[Box<dyn LockSlice>; 2]>;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static AGE: AtomicU64 = AtomicU64::new(1);

/// An extent lock: the state machine of a request for, and later the ownership of, the right to cache an extent.
///
/// The list of its object owns it. It protects cached data from other clients; threads of this one share it.
#[doc(alias = "cl_lock")]
pub struct ExtentLock {
    id: LockId,
    fid: Fid,
    object: Weak<Object>,
    slices: Slices,
    pub(super) gate: Gate,
    pub(super) events: Events,
    /// The age (see [`ExtentLock::advance_age`]) in which the lock was used last.
    used_in: AtomicU64,
    inner: RankedMutex<Inner>,
}

/// What the mutex of a lock guards.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) state: LockState,
    /// What was asked for.
    pub(super) asked: LockDescr,
    /// What is (or will be) granted: covers what was asked for.
    pub(super) descr: LockDescr,
    /// Holds that aren't a user's.
    pub(super) holds: u32,
    /// Users; each counts as a hold too. While the gate is open, they are counted there.
    pub(super) users: u32,
    /// Slices that are done with the current step.
    pub(super) progress: usize,
    /// To be cancelled at the last release.
    pub(super) cancel_pending: bool,
    /// To be destroyed at the last release, without cancellation.
    pub(super) delete_pending: bool,
    /// Why the lock was not granted.
    pub(super) error: Option<Error>,
    /// Threads in [`ExtentLock::wait_idle`].
    pub(super) idle_waiters: u32,
    /// Sub-locks that are to be cancelled at the last release of this one.
    pub(super) subs_waiting: SmallVec<[Arc<ExtentLock>; 1]>,
}

impl Inner {
    /// Holds, those of users included.
    pub(super) fn all_holds(&self) -> u32 {
        self.holds + self.users
    }

    /// Whether the lock takes no new users.
    pub(super) fn is_doomed(&self) -> bool {
        self.cancel_pending || self.delete_pending || self.error.is_some() || !self.subs_waiting.is_empty()
    }
}

impl ExtentLock {
    /// A lock with one user that no one can find yet.
    pub(super) fn new(env: &Env, object: &Arc<Object>, need: &LockDescr) -> Result<Arc<Self>> {
        let mut slices = Slices::new();
        let mut failure = None;
        for slice in object.slices() {
            match slice.lock_init(env, object, need) {
                Ok(made) => slices.extend(made),
                Err(e) => {
                    failure = Some(e.on(object.fid()));
                    break;
                }
            }
        }
        let inner = Inner {
            state: LockState::New,
            asked: *need,
            descr: *need,
            holds: 0,
            users: 1,
            progress: 0,
            cancel_pending: false,
            delete_pending: false,
            error: None,
            idle_waiters: 0,
            subs_waiting: SmallVec::new(),
        };
        let lock = Arc::new(Self {
            id: LockId(NEXT_ID.fetch_add(1, Ordering::Relaxed)),
            fid: object.fid(),
            object: Arc::downgrade(object),
            slices,
            gate: Gate::new(),
            events: Events::new(),
            used_in: AtomicU64::new(AGE.load(Ordering::Relaxed)),
            inner: RankedMutex::new(object.locks().rank(), inner),
        });
        match failure {
            None => Ok(lock),
            Some(e) => {
                lock.abandon(env);
                Err(e)
            }
        }
    }

    /// Destroys a lock that was never in the list.
    pub(super) fn abandon(self: &Arc<Self>, env: &Env) {
        // Nobody else knows the lock: the mutex is free. Against the lock order, as a sub-lock may be abandoned under its
        // top-lock's mutex.
        if let Some(mut guard) = self.try_guard() {
            guard.users = 0;
            guard.set_state(LockState::Freeing);
        }
        self.finish(env, None);
    }

    /// Identity.
    pub fn id(&self) -> LockId {
        self.id
    }

    /// FID of the object.
    pub fn fid(&self) -> Fid {
        self.fid
    }

    /// The object.
    ///
    /// # Errors
    /// `ESTALE` if it is gone.
    pub fn object(&self) -> Result<Arc<Object>> {
        let gone = || Error::new(Errno::ESTALE, "lock", "the object of this lock is gone; open it again").on(self.fid);
        self.object.upgrade().ok_or_else(gone)
    }

    pub(super) fn weak_object(&self) -> &Weak<Object> {
        &self.object
    }

    /// The slices, top first.
    pub fn slices(&self) -> &[Box<dyn LockSlice>] {
        &self.slices
    }

    /// The state. It may have changed when this returns, unless the caller has a user or a hold of the lock that
    /// keeps it. Takes the lock's mutex.
    pub fn state(self: &Arc<Self>) -> LockState {
        self.guard().state
    }

    /// What the lock covers, or asks for. As [`ExtentLock::state`].
    pub fn descr(self: &Arc<Self>) -> LockDescr {
        self.guard().descr
    }

    /// Users, and holds with those of users. As [`ExtentLock::state`].
    pub fn counts(self: &Arc<Self>) -> (u32, u32) {
        let guard = self.guard();
        (guard.users, guard.all_holds())
    }

    /// Whether the lock protects its extent (it is Held or Cached). No mutex.
    #[inline]
    pub fn is_granted(&self) -> bool {
        self.gate.flags().granted
    }

    /// Whether the lock takes no new users: it failed, or is to be cancelled at the last release, or is in Freeing.
    /// No mutex.
    pub fn is_doomed(&self) -> bool {
        let flags = self.gate.flags();
        flags.doomed || flags.freeing
    }

    /// Whether the lock is in Freeing. No mutex.
    pub fn is_gone(&self) -> bool {
        self.gate.flags().freeing
    }

    /// Wakes those who wait for this lock, or for a parent of it: something happened that lets a step go on. Blocks on
    /// no mutex that any layer can hold: may be called in a completion or an AST, by any thread.
    #[doc(alias = "cl_lock_signal")]
    pub fn signal(&self) {
        self.events.signal();
    }

    /// Makes `parent` a top-lock of this sub-lock, of which the caller has a user or a hold: the parent is signalled when this one is, moved to New when this one is
    /// cancelled, and while it is in use, this one is not cancelled. False if this lock is in Freeing.
    pub fn add_parent(&self, parent: &Arc<ExtentLock>) -> bool {
        self.events.add_parent(parent)
    }

    /// The inverse of [`ExtentLock::add_parent`]; nothing happens if `parent` isn't one.
    pub fn remove_parent(&self, parent: &ExtentLock) {
        self.events.remove_parent(parent);
    }

    /// What would be lost if the lock was cancelled now; 0 for nothing. See [`LockSlice::weigh`].
    pub fn weigh(self: &Arc<Self>, env: &Env) -> u64 {
        let Some(object) = self.object.upgrade() else { return 0 };
        let descr = self.descr();
        self.slices.iter().map(|s| s.weigh(env, &object, &descr)).fold(0, u64::saturating_add)
    }

    /// The age in which this lock, or a parent of it, was used last. Compare it to [`ExtentLock::age`].
    pub fn last_used(&self) -> u64 {
        let own = self.used_in.load(Ordering::Relaxed);
        self.events.parents().iter().map(|p| p.last_used()).fold(own, u64::max)
    }

    /// The current age.
    pub fn age() -> u64 {
        AGE.load(Ordering::Relaxed)
    }

    /// Starts a new age, and returns it. Whoever cancels idle locks does so at each scan, so that a use costs no look
    /// at a clock: locks not used since the scan before the last are old.
    pub fn advance_age() -> u64 {
        AGE.fetch_add(1, Ordering::Relaxed) + 1
    }

    #[inline]
    pub(super) fn touch(&self) {
        let age = AGE.load(Ordering::Relaxed);
        if self.used_in.load(Ordering::Relaxed) != age {
            self.used_in.store(age, Ordering::Relaxed);
        }
    }

    /// Whether every layer lets this lock, which covers `need`, serve it.
    #[inline]
    pub(super) fn fits(&self, descr: &LockDescr, need: &LockDescr) -> bool {
        self.slices.iter().all(|s| s.fits_into(descr, need))
    }

    /// Takes the mutex.
    #[track_caller]
    pub(super) fn guard(self: &Arc<Self>) -> LockGuard<'_> {
        LockGuard::close(self, self.inner.lock())
    }

    /// Takes the mutex if it is free.
    pub(super) fn try_guard(self: &Arc<Self>) -> Option<LockGuard<'_>> {
        Some(LockGuard::close(self, self.inner.try_lock()?))
    }
}

impl fmt::Debug for ExtentLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<_> = self.slices.iter().map(|s| s.layer()).collect();
        f.debug_struct("ExtentLock")
            .field("id", &self.id.0)
            .field("fid", &self.fid)
            .field("gate", &self.gate)
            .field("layers", &layers)
            .finish_non_exhaustive()
    }
}

/// Holds the mutex of a lock, with its gate closed.
pub(super) struct LockGuard<'a> {
    pub(super) lock: &'a Arc<ExtentLock>,
    inner: RankedGuard<'a, Inner>,
}

impl<'a> LockGuard<'a> {
    fn close(lock: &'a Arc<ExtentLock>, inner: RankedGuard<'a, Inner>) -> Self {
        let mut guard = Self { lock, inner };
        if let Some(users) = lock.gate.close() {
            guard.users = users;
            guard.catch_up();
        }
        guard
    }

    /// Records what happened while the gate was open. The slices have nothing to do about it.
    fn catch_up(&mut self) {
        match (self.state, self.users) {
            (LockState::Cached, 1..) => self.set_state(LockState::Held),
            (LockState::Held, 0) => {
                self.set_state(LockState::Unlocking);
                self.set_state(LockState::Cached);
            }
            _ => {}
        }
    }

    /// The one setter of the state.
    #[track_caller]
    pub(super) fn set_state(&mut self, to: LockState) {
        let from = self.state;
        if let Err(e) = from.transition(to) {
            debug_assert!(false, "{e}");
            tracing::error!(target: "clio::lock", id = self.lock.id.0, fid = %self.lock.fid, error = %e);
            return;
        }
        debug_assert!(self.users == 0 || !from.is_for_users() || to.is_for_users(), "{from:?} -> {to:?} with users");
        debug_assert!(to != LockState::Freeing || self.all_holds() == 0, "{from:?} -> {to:?} with holds");
        tracing::trace!(target: "clio::lock", id = self.lock.id.0, fid = %self.lock.fid, prev = ?from, next = ?to);
        self.state = to;
        self.progress = 0;
        match (from, to) {
            (_, LockState::New) => {
                self.descr = self.asked;
                self.list_descr();
            }
            (LockState::Enqueued, LockState::Held) => self.list_descr(),
            _ => {}
        }
        if !matches!(to, LockState::Queuing | LockState::Unlocking | LockState::Cached) {
            self.lock.signal();
        }
    }

    /// Whether users may come and go without the mutex.
    fn may_open(&self) -> bool {
        let settled = match self.state {
            LockState::Held => true,
            LockState::Cached => self.users == 0,
            _ => false,
        };
        settled && !self.is_doomed() && self.idle_waiters == 0 && self.lock.slices.iter().all(|s| s.is_passive())
    }

    /// Tells the list what the lock covers now.
    fn list_descr(&mut self) {
        if let Some(object) = self.lock.object.upgrade() {
            object.locks().update(self.lock, &self.descr);
        }
    }
}

impl std::ops::Deref for LockGuard<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl std::ops::DerefMut for LockGuard<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        let flags = Flags {
            granted: self.state.is_granted(),
            doomed: self.is_doomed(),
            freeing: self.state == LockState::Freeing,
        };
        let users = self.may_open().then_some(self.users);
        self.lock.gate.publish(flags, users);
    }
}
