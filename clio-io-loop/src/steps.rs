//! One iteration, as types that can't skip a step.
//!
//! Each step consumes the one before it. What a step owes is paid when its value goes, in whichever way: a [`Begun`]
//! iteration calls iter_fini; a [`Locked`] one end and unlock, and releases the locks, before that. A layer's panic
//! unwinds through the same: to the layers it is an IO that failed with `EIO`.

use clio_core::env::Env;
use clio_core::io::{Io, IoState};
use clio_core::{Errno, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is still owed to the layers. The later ones follow the earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    End,
    Unlock,
    Release,
    IterFini,
    Nothing,
}

struct Iteration<'a> {
    io: &'a mut Io,
    env: &'a Env,
    owed: Owed,
}

/// An iteration whose scope is known.
#[must_use = "the iteration ends when this is dropped"]
pub(crate) struct Begun<'a>(Iteration<'a>);

/// All locks of the iteration are held.
#[must_use = "the locks are released when this is dropped"]
pub(crate) struct Locked<'a>(Iteration<'a>);

/// Work was started.
#[must_use = "the work is over when this is finished, and not advanced over when it is dropped"]
pub(crate) struct Started<'a>(Iteration<'a>);

fn state(io: &mut Io, to: IoState) {
    if std::thread::panicking() && io.common.state().transition(to).is_err() {
        // The step before didn't get to its end.
        return;
    }
    if let Err(e) = io.set_state(to) {
        io.common.fail(Error::new(Errno::EIO, "io", e.to_string()));
    }
}

/// Does `step`; while the thread unwinds, a panic in it goes no further: it would end the process.
pub(crate) fn unless_unwinding(step: impl FnOnce()) {
    if !std::thread::panicking() {
        step();
    } else if catch_unwind(AssertUnwindSafe(step)).is_err() {
        tracing::error!(target: "clio::io", "a layer panicked again while an IO was given up");
    }
}

impl Iteration<'_> {
    /// Pays one thing that is owed. It is owed no more even if that panics.
    fn pay(&mut self) {
        let (io, env) = (&mut *self.io, self.env);
        match self.owed {
            Owed::End => {
                self.owed = Owed::Unlock;
                if io.common.state() == IoState::Locked {
                    // Never started.
                    state(io, IoState::Going);
                }
                io.end(env);
                state(io, IoState::IoFinished);
            }
            Owed::Unlock => {
                self.owed = Owed::Release;
                io.unlock(env);
            }
            Owed::Release => {
                self.owed = Owed::IterFini;
                io.common.lockset.release(env);
                if io.common.state() == IoState::IoFinished {
                    state(io, IoState::Unlocked);
                }
            }
            Owed::IterFini => {
                self.owed = Owed::Nothing;
                io.iter_fini(env);
                state(io, IoState::IterEnded);
            }
            Owed::Nothing => {}
        }
    }

    fn pay_up_to(&mut self, what: Owed) {
        while self.owed != what && self.owed != Owed::Nothing {
            self.pay();
        }
    }
}

impl Drop for Iteration<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.owed != Owed::Nothing {
            self.io.common.fail(Error::new(Errno::EIO, "io", "a layer panicked"));
        }
        while self.owed != Owed::Nothing {
            unless_unwinding(|| self.pay());
        }
    }
}

impl<'a> Begun<'a> {
    /// Starts an iteration over all that remains, which the layers then shrink.
    ///
    /// # Errors
    /// A layer's; the iteration is over then.
    pub(crate) fn begin(io: &'a mut Io, env: &'a Env) -> Result<Self> {
        let common = &mut io.common;
        common.iteration = clio_core::units::Extent::with_len(common.pos, common.count);
        common.moved = 0;
        state(io, IoState::IterStarted);
        let begun = Self(Iteration { io, env, owed: Owed::IterFini });
        begun.0.io.iter_init(env).map(|()| begun)
    }

    /// Collects and acquires the locks.
    ///
    /// # Errors
    /// A layer's, or that of an enqueue; no lock is held then, and the iteration is over.
    pub(crate) fn lock(self) -> Result<Locked<'a>> {
        let mut it = self.0;
        it.owed = Owed::Release;
        it.io.collect_locks(it.env)?;
        it.io.common.lockset.acquire(it.env)?;
        state(it.io, IoState::Locked);
        it.owed = Owed::End;
        Ok(Locked(it))
    }
}

impl<'a> Locked<'a> {
    /// Starts the work. A failure is kept in the IO: what was started must still end.
    pub(crate) fn start(self) -> Started<'a> {
        let it = self.0;
        state(it.io, IoState::Going);
        if let Err(e) = it.io.start(it.env) {
            it.io.common.fail(e);
        }
        Started(it)
    }
}

impl Started<'_> {
    /// Waits for the work, releases the locks, ends the iteration, and moves on; returns how many bytes it moved.
    pub(crate) fn finish(self) -> u64 {
        let mut it = self.0;
        it.pay_up_to(Owed::IterFini);
        let moved = it.io.common.moved;
        if moved > 0 {
            it.io.advance(it.env, moved);
            it.io.common.done += moved;
        }
        it.pay_up_to(Owed::Nothing);
        moved
    }
}
