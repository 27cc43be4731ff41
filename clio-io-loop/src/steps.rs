//! One iteration, as types that can't skip a step.
//!
//! Each step consumes the one before it. What a step owes is paid when its value goes: a [`Begun`] iteration calls
//! iter_fini, a [`Locked`] one end and unlock, whatever happened in between.

use clio_core::env::Env;
use clio_core::io::{Io, IoState};
use clio_core::{Error, Result};

/// An iteration whose scope is known.
pub(crate) struct Begun<'a> {
    io: &'a mut Io,
    env: &'a Env,
}

/// All locks of the iteration are held.
pub(crate) struct Locked<'a>(Begun<'a>);

/// Work was started.
pub(crate) struct Started<'a>(Begun<'a>);

fn state(io: &mut Io, to: IoState) {
    if let Err(e) = io.set_state(to) {
        io.common.fail(Error::new(clio_core::Errno::EIO, "io", e.to_string()));
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
        let begun = Self { io, env };
        match begun.io.iter_init(env) {
            Ok(()) => Ok(begun),
            Err(e) => {
                begun.fini();
                Err(e)
            }
        }
    }

    /// Collects and acquires the locks.
    ///
    /// # Errors
    /// A layer's, or that of an enqueue; no lock is held then, and the iteration is over.
    pub(crate) fn lock(self) -> Result<Locked<'a>> {
        let env = self.env;
        let locked = self.io.collect_locks(env).and_then(|()| self.io.common.lockset.acquire(env));
        match locked {
            Ok(()) => {
                state(self.io, IoState::Locked);
                Ok(Locked(self))
            }
            Err(e) => {
                self.io.common.lockset.release(env);
                self.fini();
                Err(e)
            }
        }
    }

    /// Ends the iteration; returns how many bytes it moved.
    fn fini(self) -> u64 {
        self.io.iter_fini(self.env);
        state(self.io, IoState::IterEnded);
        self.io.common.moved
    }
}

impl<'a> Locked<'a> {
    /// Starts the work. A failure is kept in the IO: what was started must still end.
    pub(crate) fn start(self) -> Started<'a> {
        state(self.0.io, IoState::Going);
        if let Err(e) = self.0.io.start(self.0.env) {
            self.0.io.common.fail(e);
        }
        Started(self.0)
    }
}

impl Started<'_> {
    /// Waits for the work, releases the locks, ends the iteration, and moves on; returns how many bytes it moved.
    pub(crate) fn finish(self) -> u64 {
        let begun = self.0;
        begun.io.end(begun.env);
        state(begun.io, IoState::IoFinished);
        begun.io.unlock(begun.env);
        begun.io.common.lockset.release(begun.env);
        state(begun.io, IoState::Unlocked);
        let env = begun.env;
        let moved = begun.io.common.moved;
        if moved > 0 {
            begun.io.advance(env, moved);
            begun.io.common.done += moved;
        }
        begun.fini();
        moved
    }
}
