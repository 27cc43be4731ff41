//! Extent locks: cached rights to cache the data of an object.
//!
//! A lock is a state machine ([`LockState`]) guarded by its own mutex. Its steps never sleep: they say
//! [`Step::Wait`], and one generic function, [`LockUser::hold`], sleeps until the lock is signalled and calls again.
//! Two counts restrict where it may go: a [`LockHold`] keeps it from Freeing, a [`LockUser`] keeps it in use.
//!
//! # For IO
//! [`request`] returns a user of a lock that covers a need, [`LockSet`] does so for all needs of an iteration. A cached
//! lock is matched without its mutex, through its gate, if its layers are passive ([`LockSlice::is_passive`]).
//!
//! # For a layer at the bottom
//! `enqueue` sends the request; the completion stores the answer in the slice and calls [`ExtentLock::signal`], which
//! may be done anywhere; `wait` reads the answer. A blocking AST is queued, and later answered by
//! [`ExtentLock::cancel`] from a thread that may block.
//!
//! # For a layer with sub-locks
//! Under the top-lock's mutex, sub-locks are found by [`find_user_try`] and advanced by [`LockUser::enqueue_try`] and
//! [`LockUser::hold_try`], which never wait for a mutex, since sub-locks' mutexes come first in the lock order. The
//! top-lock is registered with [`ExtentLock::add_parent`]. Users of sub-locks are released through
//! [`LockCx::release_later`].
//!
//! # Life
//! The object's [`LockList`] owns the lock; the lock has a weak pointer to the object; a sub-lock has weak pointers to
//! its parents. A lock ends in three phases: in Freeing it isn't found any more and slices cut their pointers; pointers
//! drain; the memory goes.

mod cancel;
mod closure;
mod events;
mod extents;
mod gate;
mod header;
mod later;
mod list;
mod lockset;
mod request;
mod slice;
mod state;
mod steps;
mod users;

#[cfg(all(test, clio_loom))]
mod loom_tests;
#[cfg(test)]
mod scripted;
#[cfg(all(test, not(clio_loom)))]
mod tests;

pub use cancel::Retired;
pub use header::{ExtentLock, LockId};
pub use list::LockList;
pub use lockset::LockSet;
pub use request::{find, find_user, find_user_try, request};
pub use slice::{LockCx, LockDescr, LockSlice, Step, Unused};
pub use state::{IllegalLockTransition, LockState};
pub use users::{LockHold, LockUser};
