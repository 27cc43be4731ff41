//! Environments: pools of ready-made per-layer state, so that the steady path allocates nothing.
//!
//! An [`Env`] belongs to one thread at a time. A layer declares a static [`ContextKey`] and takes its private state
//! (for example its IO slice) out of the environment, and gives it back when the IO ends. Re-entry (a fault inside a
//! write, lock shrinking inside a read) simply takes another environment from the pool: [`Env::get`]. State in an
//! environment serves to save allocations only; it never passes parameters between layers.

use crate::lockrank::{LockRank, RankedGuard, RankedMutex};
use bitflags::bitflags;
use std::any::Any;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

bitflags! {
    /// What kind of work an environment is for; a key is built only in environments that share a tag with it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct EnvTags: u32 {
        /// Threads of the application.
        const IO = 1;
        /// Background work: write-out, cancellation, read-ahead.
        const WORK = 2;
        /// Everything.
        const ANY = u32::MAX;
    }
}

/// A typed key into every environment. Declare one as a `static` for each kind of per-layer state.
#[derive(Debug)]
#[doc(alias = "lu_context_key")]
pub struct ContextKey<T> {
    index: OnceLock<usize>,
    tags: EnvTags,
    construct: fn() -> T,
}

static NEXT_KEY: AtomicUsize = AtomicUsize::new(0);

impl<T: Any + Send> ContextKey<T> {
    /// A key whose values are made by `construct`, in environments with one of `tags`.
    pub const fn new(tags: EnvTags, construct: fn() -> T) -> Self {
        Self { index: OnceLock::new(), tags, construct }
    }

    fn index(&self) -> usize {
        *self.index.get_or_init(|| NEXT_KEY.fetch_add(1, Ordering::Relaxed))
    }
}

type Slot = Vec<Box<dyn Any + Send>>;

/// Values of one environment, a stack for each key.
#[derive(Default)]
struct Context {
    slots: Vec<Slot>,
}

/// The environment of an ongoing piece of work.
#[doc(alias = "lu_env")]
pub struct Env {
    context: RefCell<Context>,
    tags: EnvTags,
}

/// Contexts at rest. A handful covers the threads that are active at once.
static POOL: OnceLock<RankedMutex<Vec<Context>>> = OnceLock::new();
const POOL_LIMIT: usize = 64;
/// How often the pool is tried for. It is held for nanoseconds.
const TRIES: usize = 1000;

/// The pool; none under the model checker, where nothing may outlive a run. Nor is it waited for: of a forked child, the
/// thread that has it may be the parent's, and then it is held for good.
fn pool() -> Option<RankedGuard<'static, Vec<Context>>> {
    if cfg!(clio_loom) {
        return None;
    }
    let pool = POOL.get_or_init(|| RankedMutex::new(LockRank::Leaf, Vec::with_capacity(POOL_LIMIT)));
    (0..TRIES).find_map(|_| {
        let taken = pool.try_lock();
        if taken.is_none() {
            std::hint::spin_loop();
        }
        taken
    })
}

impl Env {
    /// An environment from the pool; goes back there when dropped.
    pub fn get(tags: EnvTags) -> Env {
        let context = pool().and_then(|mut pool| pool.pop()).unwrap_or_default();
        Env { context: RefCell::new(context), tags }
    }

    /// An environment for work nested in this one: a sub-IO, or a re-entry that must not disturb it.
    pub fn nested(&self) -> Env {
        Env::get(self.tags)
    }

    /// Takes a value of `key`: one that was given back earlier, or a new one.
    ///
    /// # Panics
    /// If the key's tags exclude this environment: a programming error.
    pub fn take<T: Any + Send>(&self, key: &ContextKey<T>) -> Box<T> {
        assert!(self.tags.intersects(key.tags), "key for {:?} used in an environment for {:?}", key.tags, self.tags);
        let mut context = self.context.borrow_mut();
        let pooled = context.slots.get_mut(key.index()).and_then(Vec::pop);
        match pooled.map(|b| (b as Box<dyn Any>).downcast::<T>()) {
            Some(Ok(value)) => value,
            _ => Box::new((key.construct)()),
        }
    }

    /// Gives a value back, for the next [`Env::take`]. The giver has reset what must not be seen again.
    pub fn give<T: Any + Send>(&self, key: &ContextKey<T>, value: Box<T>) {
        let mut context = self.context.borrow_mut();
        let index = key.index();
        if context.slots.len() <= index {
            context.slots.resize_with(index + 1, Vec::new);
        }
        context.slots[index].push(value);
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        let context = std::mem::take(&mut *self.context.borrow_mut());
        let Some(mut pool) = pool() else { return };
        if pool.len() < POOL_LIMIT {
            pool.push(context);
        }
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("tags", &self.tags).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_are_reused_and_nesting_does_not_disturb() {
        static KEY: ContextKey<Vec<u8>> = ContextKey::new(EnvTags::IO, || Vec::with_capacity(16));
        let env = Env::get(EnvTags::IO);
        let mut v = env.take(&KEY);
        v.push(7);
        let at = v.as_ptr();
        {
            let nested = env.nested();
            let other = nested.take(&KEY);
            assert_ne!(other.as_ptr(), at);
        }
        v.clear();
        env.give(&KEY, v);
        let again = env.take(&KEY);
        assert_eq!(again.as_ptr(), at);
        assert!(again.is_empty());
    }

    #[test]
    fn a_pool_that_is_held_for_good_is_done_without() {
        let held = pool();
        // It ends, and leaves its context nowhere.
        std::thread::spawn(|| drop(Env::get(EnvTags::IO).nested())).join().expect("it gets one");
        drop(held);
    }

    #[test]
    #[should_panic(expected = "used in an environment")]
    fn tags_are_checked() {
        static KEY: ContextKey<u8> = ContextKey::new(EnvTags::WORK, || 0);
        let env = Env::get(EnvTags::IO);
        let _ = env.take(&KEY);
    }
}
