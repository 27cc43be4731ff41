//! The locks of an IO iteration: collected, merged, sorted, acquired, and released together.

use super::users::LockUser;
use super::{LockDescr, Step, request};
use crate::env::Env;
use crate::error::Result;
use crate::io::LockDemand;
use crate::object::Object;
use crate::target::LockMode;
use crate::units::{Extent, Fid};
use smallvec::SmallVec;
use std::sync::Arc;

/// A lock that is needed.
#[derive(Debug)]
struct Need {
    object: Arc<Object>,
    descr: LockDescr,
}

/// A lock on its way or held.
#[derive(Debug)]
struct Taken {
    object: Fid,
    user: LockUser,
}

/// The locks that an iteration of an IO needs (`todo`), is waiting for (`current`) and holds (`done`).
///
/// An object has one lock in the set. Locks are taken in the order of FIDs, one after another, so that two IOs don't
/// wait for each other; those that don't wait for conflicts (try-locks, glimpses) are asked for all at once.
#[derive(Debug, Default)]
#[doc(alias = "cl_lockset")]
pub struct LockSet {
    todo: SmallVec<[Need; 1]>,
    current: SmallVec<[Taken; 1]>,
    done: SmallVec<[Taken; 1]>,
}

impl LockSet {
    /// Adds a lock to acquire. If the set has one to acquire on the same object, both become one that covers both, has
    /// a mode that serves both, and is asked for in the way of the more demanding.
    #[doc(alias = "cl_io_lock_add")]
    pub fn add(&mut self, object: &Arc<Object>, descr: LockDescr) {
        match self.todo.iter_mut().find(|n| n.object.fid() == object.fid()) {
            Some(need) => need.descr = merge(&need.descr, &descr),
            None => self.todo.push(Need { object: object.clone(), descr }),
        }
    }

    /// Whether there is nothing to acquire and nothing held.
    pub fn is_empty(&self) -> bool {
        self.todo.is_empty() && self.current.is_empty() && self.done.is_empty()
    }

    /// Whether a lock held here covers `extent` of the object for `mode`.
    pub fn covers(&self, object: Fid, extent: Extent, mode: LockMode) -> bool {
        self.held(object).any(|d| d.extent.covers(extent) && d.mode.serves(mode))
    }

    /// What the locks held here on the object cover: as granted, which may be more than was asked for.
    pub fn held(&self, object: Fid) -> impl Iterator<Item = &LockDescr> {
        self.done.iter().filter(move |t| t.object == object).map(|t| t.user.descr())
    }

    /// Acquires all locks to acquire. Blocks.
    ///
    /// # Errors
    /// Why a lock can't be had. Then none is held, those acquired earlier included, and none is left to acquire.
    #[doc(alias = "cl_lockset_lock")]
    pub fn acquire(&mut self, env: &Env) -> Result<()> {
        if self.todo.len() > 1 {
            self.todo.sort_unstable_by_key(|n| (n.object.fid(), n.descr.extent));
        }
        let taken = self.acquire_waiting(env).and_then(|()| self.acquire_trying(env));
        if taken.is_err() {
            self.release(env);
        }
        taken
    }

    /// One after another, in order.
    fn acquire_waiting(&mut self, env: &Env) -> Result<()> {
        for need in std::mem::take(&mut self.todo) {
            if is_try(&need) {
                self.todo.push(need);
            } else {
                let user = request::request(env, &need.object, &need.descr)?;
                self.done.push(Taken { object: need.object.fid(), user });
            }
        }
        Ok(())
    }

    /// All at once.
    fn acquire_trying(&mut self, env: &Env) -> Result<()> {
        for need in self.todo.drain(..) {
            let user = request::find_user(env, &need.object, &need.descr)?;
            self.current.push(Taken { object: need.object.fid(), user });
        }
        for taken in &mut self.current {
            // Started only: what it comes to is asked for below.
            let _: Step = taken.user.step(env)?;
        }
        for taken in &mut self.current {
            taken.user.hold(env)?;
        }
        self.done.extend(self.current.drain(..));
        Ok(())
    }

    /// Releases all locks, last first, and forgets those not acquired. Blocks if one was to be cancelled meanwhile.
    #[doc(alias = "cl_lockset_unlock")]
    pub fn release(&mut self, env: &Env) {
        self.todo.clear();
        while let Some(taken) = self.current.pop().or_else(|| self.done.pop()) {
            taken.user.release(env);
        }
    }
}

fn is_try(need: &Need) -> bool {
    need.descr.flags.try_lock || need.descr.flags.glimpse
}

fn merge(a: &LockDescr, b: &LockDescr) -> LockDescr {
    let demand = match (a.demand, b.demand) {
        (LockDemand::Mandatory, _) | (_, LockDemand::Mandatory) => LockDemand::Mandatory,
        (LockDemand::Never, LockDemand::Never) => LockDemand::Never,
        _ => LockDemand::Maybe,
    };
    let mut flags = a.flags;
    // A part that has to wait, and one that wants the lock and not only the size, decide for the whole.
    flags.try_lock &= b.flags.try_lock;
    flags.glimpse &= b.flags.glimpse;
    flags.mandatory |= b.flags.mandatory;
    flags.exact |= b.flags.exact;
    LockDescr { extent: a.extent.hull(b.extent), mode: a.mode.stronger(b.mode), flags, demand }
}
