//! Finding a lock for a need, and asking for it until it is held.

use super::header::{Inner, LockGuard};
use super::list::Candidates;
use super::users::{LockHold, LockUser};
use super::{ExtentLock, LockCx, LockDescr, LockState};
use crate::env::Env;
use crate::error::{Errno, Error, Result};
use crate::object::Object;
use std::sync::Arc;

/// How often a need whose lock was spoilt by others is asked for anew.
const MAX_ATTEMPTS: usize = 16;

/// At this number of locks of an object, and at each doubling, those that protect nothing are dropped.
const SWEEP_AT: usize = 64;

/// What a search came to.
enum Search {
    /// A user of a lock, and whether the lock was made for this need.
    Found(LockUser, bool),
    /// The mutex of a lock that may serve is busy.
    Busy(Arc<ExtentLock>),
}

/// A hold of a lock that covers `need`: one that is granted or being asked for, or a new one. It is not enqueued.
/// Takes mutexes, but waits for no event.
///
/// # Errors
/// What a layer says about a new lock.
#[doc(alias = "cl_lock_find")]
#[doc(alias = "cl_lock_hold")]
pub fn find(env: &Env, object: &Arc<Object>, need: &LockDescr) -> Result<LockHold> {
    let user = find_user(env, object, need)?;
    user.lock().guard().holds += 1;
    let hold = LockHold::counted(user.lock().clone());
    user.release(env);
    Ok(hold)
}

/// As [`find`], but with a user: [`LockUser::step`] and [`LockUser::hold`] take it further.
///
/// # Errors
/// As [`find`].
pub fn find_user(env: &Env, object: &Arc<Object>, need: &LockDescr) -> Result<LockUser> {
    Ok(find_blocking(env, object, need)?.0)
}

/// As [`find_user`], for a slice of a top-lock under its mutex, with a sub-object. `None` if a mutex is busy: the
/// slice returns [`Step::Repeat`](super::Step::Repeat).
///
/// # Errors
/// As [`find`].
pub fn find_user_try(cx: &mut LockCx<'_>, object: &Arc<Object>, need: &LockDescr) -> Result<Option<LockUser>> {
    match search(cx.env, object, need, false)? {
        Search::Found(user, _) => Ok(Some(user)),
        Search::Busy(lock) => {
            cx.later.busy(&lock);
            Ok(None)
        }
    }
}

/// A user of a lock that is Held and covers `need`: a cached one in nanoseconds, or one that is enqueued now, by this
/// thread or with its help. Blocks; the caller holds no mutex and no folio.
///
/// # Errors
/// Why the lock can't be had: `EAGAIN` for a refused try-lock, what a layer says otherwise.
#[doc(alias = "cl_lock_request")]
#[inline]
pub fn request(env: &Env, object: &Arc<Object>, need: &LockDescr) -> Result<LockUser> {
    // What is matched is Held: the gate makes a cached lock so.
    object.locks().match_granted(need).map_or_else(|| request_slow(env, object, need), Ok)
}

#[cold]
fn request_slow(env: &Env, object: &Arc<Object>, need: &LockDescr) -> Result<LockUser> {
    let mut spoilt = None;
    for _ in 0..MAX_ATTEMPTS {
        let (mut user, is_new) = find_blocking(env, object, need)?;
        match user.hold(env) {
            Ok(()) if serves(user.descr(), need) => return Ok(user),
            // Somebody else's lock went to New and is less wide now.
            Ok(()) => {}
            Err(e) if is_new => return Err(e),
            Err(e) => spoilt = Some(e),
        }
        user.release(env);
    }
    let why = "other users of the lock kept losing it; try again";
    Err(spoilt.unwrap_or_else(|| Error::new(Errno::EBUSY, "lock", why).on(object.fid())))
}

fn find_blocking(env: &Env, object: &Arc<Object>, need: &LockDescr) -> Result<(LockUser, bool)> {
    match search(env, object, need, true)? {
        Search::Found(user, is_new) => {
            if is_new {
                sweep(env, object);
            }
            Ok((user, is_new))
        }
        Search::Busy(lock) => unreachable!("a search that waits for mutexes found {lock:?} busy"),
    }
}

fn search(env: &Env, object: &Arc<Object>, need: &LockDescr, wait: bool) -> Result<Search> {
    let list = object.locks();
    loop {
        if let Some(user) = list.match_granted(need) {
            return Ok(Search::Found(user, false));
        }
        let candidates: Candidates = list.candidates(need);
        for lock in &candidates {
            let guard = if wait { Some(lock.guard()) } else { lock.try_guard() };
            let Some(mut guard) = guard else { return Ok(Search::Busy(lock.clone())) };
            if admit(&mut guard, need) {
                lock.touch();
                let descr = guard.descr;
                drop(guard);
                return Ok(Search::Found(LockUser::counted(lock.clone(), descr), false));
            }
        }
        let lock = ExtentLock::new(env, object, need)?;
        if list.insert(&lock, need, &candidates) {
            return Ok(Search::Found(LockUser::counted(lock, *need), true));
        }
        lock.abandon(env);
    }
}

/// Adds a user for `need` if the lock may serve it.
fn admit(guard: &mut LockGuard<'_>, need: &LockDescr) -> bool {
    let inner: &Inner = guard;
    let usable = match inner.state {
        LockState::Held | LockState::Cached => true,
        LockState::New | LockState::Queuing | LockState::Enqueued => asks_alike(inner, need),
        LockState::Unlocking | LockState::Freeing => false,
    };
    let admits = usable && !inner.is_doomed() && serves(&inner.descr, need) && guard.lock.fits(&inner.descr, need);
    if admits {
        if guard.state == LockState::New && guard.all_holds() == 0 {
            guard.asked.flags = need.flags;
            guard.descr.flags = need.flags;
        }
        guard.users += 1;
    }
    admits
}

/// Whether a lock that isn't granted is, or can be, asked for in the way that `need` wants. One that nobody is asking for
/// must be no more than is needed: a read that asked for the write lock lost before would take it away from other readers.
fn asks_alike(inner: &Inner, need: &LockDescr) -> bool {
    let (theirs, ours) = (inner.asked.flags, need.flags);
    if inner.state == LockState::New && inner.all_holds() == 0 {
        return (inner.descr.mode, inner.descr.extent) == (need.mode, need.extent);
    }
    let same_wait = theirs.try_lock == ours.try_lock && theirs.glimpse == ours.glimpse;
    same_wait && (theirs.mandatory || !ours.mandatory) && inner.asked.demand == need.demand
}

fn serves(descr: &LockDescr, need: &LockDescr) -> bool {
    descr.extent.covers(need.extent) && descr.mode.serves(need.mode)
}

/// Drops locks that went to New and weren't asked for again, so that they don't gather.
fn sweep(env: &Env, object: &Arc<Object>) {
    let count = object.locks().len();
    if count < SWEEP_AT || !count.is_power_of_two() {
        return;
    }
    for lock in object.locks().all().iter().filter(|l| !l.is_granted()) {
        lock.discard_if_void(env);
    }
}
