//! Sub-IOs: the part of an IO on one stripe, driven through the same states as the IO itself.

use crate::layout::StripeRef;
use clio_core::env::Env;
use clio_core::io::{Io, IoCommon, IoKind, IoState};
use clio_core::object::Object;
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// An IO on one stripe. Made when the stripe is first met, and kept until the IO ends.
pub(crate) struct SubIo {
    pub(crate) at: StripeRef,
    io: Io,
    /// Its environment; `None` if it uses that of the IO, being the only one.
    env: Option<Env>,
    /// Its bytes are those of the IO that `advance` tells about.
    moves: bool,
}

impl SubIo {
    /// A sub-IO of `top` on `extent` of `object`.
    ///
    /// # Errors
    /// What a layer says.
    #[doc(alias = "lov_io_sub_inherit")]
    pub(crate) fn new(
        env: &Env,
        top: &IoCommon,
        at: StripeRef,
        object: &Arc<Object>,
        kind: IoKind,
        extent: Extent,
        shares_env: bool,
    ) -> Result<Self> {
        let own = (!shares_env).then(|| env.nested());
        let io = Io::with(own.as_ref().unwrap_or(env), object, kind, extent.start, extent.len(), |c| {
            c.id = top.id;
            c.demand = top.demand;
            c.dsync = top.dsync;
            c.direct = top.direct;
            c.is_sub = true;
            c.iteration = extent;
        })?;
        Ok(Self { at, io, env: own, moves: false })
    }

    /// The common part.
    pub(crate) fn common(&mut self) -> &mut IoCommon {
        &mut self.io.common
    }

    /// Runs `f` with the sub-IO's environment.
    pub(crate) fn with<R>(&mut self, top: &Env, f: impl FnOnce(&mut Io, &Env) -> R) -> R {
        f(&mut self.io, self.env.as_ref().unwrap_or(top))
    }

    /// Whether the sub-IO takes part in the current iteration.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.io.common.state(), IoState::Init | IoState::IterEnded | IoState::Fini)
    }

    /// Takes the sub-IO into an iteration, on `extent` of its object.
    ///
    /// # Errors
    /// What a layer says. The sub-IO is active all the same, and must be finished.
    pub(crate) fn begin(&mut self, top: &Env, extent: Extent, moves: bool) -> Result<()> {
        self.moves = moves;
        let common = &mut self.io.common;
        common.pos = extent.start;
        common.count = extent.len();
        common.iteration = extent;
        common.moved = 0;
        common.found = None;
        self.state(IoState::IterStarted)?;
        self.with(top, Io::iter_init)
    }

    /// Locks that a layer below needs beyond those that the IO's own lead to: normally none.
    ///
    /// # Errors
    /// What a layer says, or why a lock can't be had.
    pub(crate) fn lock(&mut self, top: &Env) -> Result<()> {
        self.with(top, |io, env| {
            io.collect_locks(env)?;
            io.common.lockset.acquire(env)
        })
    }

    /// Starts the work of the iteration, unless that was done: all locks are held.
    ///
    /// # Errors
    /// What a layer says.
    pub(crate) fn start(&mut self, top: &Env) -> Result<()> {
        if self.io.common.state() != IoState::IterStarted {
            return Ok(());
        }
        self.state(IoState::Locked)?;
        self.state(IoState::Going)?;
        self.with(top, Io::start)
    }

    /// Waits for the work.
    pub(crate) fn end(&mut self, top: &Env) {
        if self.io.common.state() == IoState::IterStarted {
            // A layer above failed before it came to this one.
            let _ = self.state(IoState::Locked).and_then(|()| self.state(IoState::Going));
        }
        self.with(top, Io::end);
        let _ = self.state(IoState::IoFinished);
    }

    /// The locks go.
    pub(crate) fn unlock(&mut self, top: &Env) {
        self.with(top, |io, env| {
            io.unlock(env);
            io.common.lockset.release(env);
        });
        let _ = self.state(IoState::Unlocked);
    }

    /// `bytes` were moved by the IO.
    pub(crate) fn advance(&mut self, top: &Env, bytes: u64) {
        if self.moves {
            self.with(top, |io, env| io.advance(env, bytes));
        }
    }

    /// Ends the iteration, in whatever state it is.
    pub(crate) fn iter_fini(&mut self, top: &Env) {
        self.with(top, |io, env| {
            io.common.lockset.release(env);
            io.iter_fini(env);
        });
        let _ = self.state(IoState::IterEnded);
    }

    /// Ends the sub-IO.
    pub(crate) fn fini(mut self, top: &Env) {
        self.with(top, Io::fini);
    }

    /// Moves to `to`; an illegal move is a programming error, and kept as the sub-IO's.
    fn state(&mut self, to: IoState) -> Result<()> {
        self.io.set_state(to).map_err(|e| {
            let e = Error::new(Errno::EIO, "io", e.to_string());
            self.io.common.fail(e.clone());
            e
        })
    }
}
