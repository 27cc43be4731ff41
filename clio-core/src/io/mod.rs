//! IO contexts: the state of an ongoing operation, with one slice for each layer.
//!
//! "IO" is what an application does (read, write, truncate); "transfer" is what goes to a target. `clio-io-loop`
//! drives an IO through its states; this module has the states, the common fields, and the calls that walk the
//! slices.

mod slice;
mod state;

pub use slice::{IoCx, IoSlice};
pub use state::{IllegalIoTransition, IoState};

use crate::env::Env;
use crate::error::{Error, Result};
use crate::lock::LockSet;
use crate::object::Object;
use crate::page::{PageList, PageQueues, Rw, SyncIo};
use crate::target::Bulk;
use crate::units::{Extent, MAX_FILE_SIZE};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names an IO: pages are owned by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IoId(pub u64);

/// What an IO is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "cl_io_type")]
pub enum IoKind {
    /// Read bytes.
    Read,
    /// Write bytes; with `append`, at the end of file.
    Write {
        /// O_APPEND.
        append: bool,
    },
    /// Set the size.
    Truncate {
        /// New size in bytes.
        size: u64,
    },
    /// Deallocate a range.
    Punch,
    /// Make a page of a mapping valid (and writable).
    Fault {
        /// For a write access.
        write: bool,
    },
    /// Write dirty data of the range out and make it durable, with its size and times.
    Fsync,
    /// Find data or a hole at or after the position.
    Seek {
        /// Look for a hole.
        hole: bool,
    },
    /// Advice on a range: read it ahead, or drop it from the cache.
    Advise {
        /// Read ahead (true) or drop (false).
        will_need: bool,
    },
    /// A mere context in which pages are owned and locks are held: cancellation, write-out, glimpse. No states.
    Misc,
}

/// How much distributed coherence an IO asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "cl_io_lock_dmd")]
pub enum LockDemand {
    /// Locks wherever targets give them; contended targets without.
    #[default]
    Maybe,
    /// No locks and no caching.
    Never,
    /// Locks for everything: append, truncate.
    Mandatory,
}

/// The fields of an IO that all layers share.
#[derive(Debug)]
pub struct IoCommon {
    /// Identity.
    pub id: IoId,
    /// What it is for.
    pub kind: IoKind,
    /// Lock demand.
    pub demand: LockDemand,
    /// The object that it is against.
    pub object: Arc<Object>,
    /// Byte offset where what remains starts.
    pub pos: u64,
    /// Bytes that remain.
    pub count: u64,
    /// The part that the current iteration does. Set by the loop to all that remains, shrunk by layers in
    /// [`IoSlice::iter_init`].
    pub iteration: Extent,
    /// Bytes moved by the current iteration, set by the top layer.
    pub moved: u64,
    /// Bytes moved by all iterations.
    pub done: u64,
    /// Set by a layer when nothing is left to do, whatever `count` says: end of file, a single-iteration kind.
    pub finished: bool,
    /// Set by a layer when the layout changed under the IO: it starts anew.
    pub need_restart: bool,
    /// Set by a layer that stripes, for each iteration: no target holds anything of it. It reads as zeros up to the end
    /// of file; there are no pages to find, and nothing to submit. That layer has brought the object's size up to date, and
    /// nobody asks it for it again ([`Object::glimpse`]) in that iteration: it would wait for the iteration's own end.
    pub hole: bool,
    /// The largest size in bytes that the file can have; lowered by layers in [`IoSlice::iter_init`]. An append learns
    /// only under its locks where it starts, so the top layer holds it to this.
    pub max_size: u64,
    /// Locks of the current iteration.
    pub lockset: LockSet,
    /// The offset found, for [`IoKind::Seek`].
    pub found: Option<u64>,
    /// Whether written data must be durable before the IO ends (O_DSYNC).
    pub dsync: bool,
    /// Whether the caches are bypassed (O_DIRECT), or the data goes out at the end of the IO.
    pub direct: bool,
    /// Whether this is a sub-IO.
    pub is_sub: bool,
    /// The first error; later ones don't replace it.
    error: Option<Error>,
    state: IoState,
}

impl IoCommon {
    /// Current state.
    pub fn state(&self) -> IoState {
        self.state
    }

    /// Keeps the first error of the IO.
    pub fn fail(&mut self, e: Error) {
        self.error.get_or_insert(e);
    }

    /// The first error.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Takes the first error out.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Whether the IO changes data.
    pub fn writes(&self) -> bool {
        matches!(
            self.kind,
            IoKind::Write { .. } | IoKind::Truncate { .. } | IoKind::Punch | IoKind::Fault { write: true }
        )
    }
}

/// An IO context.
#[doc(alias = "cl_io")]
pub struct Io {
    /// What all layers share.
    pub common: IoCommon,
    slices: SmallVec<[Box<dyn IoSlice>; 2]>,
}

static NEXT_IO: AtomicU64 = AtomicU64::new(1);

impl Io {
    /// An IO of `kind` against `object` on `count` bytes at `pos`, with a slice of each of its layers.
    ///
    /// # Errors
    /// What a layer's [`crate::object::ObjectSlice::io_init`] says; slices made before it are finished.
    #[doc(alias = "cl_io_init")]
    pub fn new(env: &Env, object: &Arc<Object>, kind: IoKind, pos: u64, count: u64) -> Result<Io> {
        Self::with(env, object, kind, pos, count, |_| {})
    }

    /// As [`Io::new`]; `prime` sets common fields before the layers see the IO.
    ///
    /// # Errors
    /// As [`Io::new`].
    pub fn with(
        env: &Env,
        object: &Arc<Object>,
        kind: IoKind,
        pos: u64,
        count: u64,
        prime: impl FnOnce(&mut IoCommon),
    ) -> Result<Io> {
        let mut io = Io {
            common: IoCommon {
                id: IoId(NEXT_IO.fetch_add(1, Ordering::Relaxed)),
                kind,
                demand: LockDemand::Maybe,
                object: object.clone(),
                pos,
                count,
                iteration: Extent::with_len(pos, count),
                moved: 0,
                done: 0,
                finished: false,
                need_restart: false,
                hole: false,
                max_size: MAX_FILE_SIZE,
                lockset: LockSet::default(),
                found: None,
                dsync: false,
                direct: false,
                is_sub: object.is_sub(),
                error: None,
                state: IoState::Init,
            },
            slices: SmallVec::new(),
        };
        prime(&mut io.common);
        if matches!(kind, IoKind::Truncate { .. } | IoKind::Write { append: true }) {
            io.common.demand = LockDemand::Mandatory;
        }
        for slice in object.slices() {
            match slice.io_init(env, object, &mut io) {
                Ok(Some(s)) => io.slices.push(s),
                Ok(None) => {}
                Err(e) => {
                    io.fini(env);
                    return Err(e.on(object.fid()));
                }
            }
        }
        Ok(io)
    }

    /// Adds a slice on top of those of the object's layers: for a caller that brings its own (buffers).
    pub fn push_top(&mut self, slice: Box<dyn IoSlice>) {
        self.slices.insert(0, slice);
    }

    /// Moves to `state`.
    ///
    /// # Errors
    /// A transition that the table doesn't have, with both states: a programming error, also asserted in debug. The
    /// state is what it was.
    pub fn set_state(&mut self, state: IoState) -> Result<(), IllegalIoTransition> {
        if let Err(e) = self.common.state.transition(state) {
            tracing::error!(target: "clio::io", id = self.common.id.0, error = %e, "refused");
            debug_assert!(false, "{e}");
            return Err(e);
        }
        tracing::trace!(target: "clio::io", prev = ?self.common.state, next = ?state, id = self.common.id.0);
        self.common.state = state;
        Ok(())
    }

    /// Determine what this iteration does (top to bottom). The first failure ends the walk.
    ///
    /// # Errors
    /// What a layer says.
    pub fn iter_init(&mut self, env: &Env) -> Result<()> {
        self.top_down(env, |s, cx| s.iter_init(cx))
    }

    /// Collect the locks that this iteration needs into the lockset (top to bottom).
    ///
    /// # Errors
    /// What a layer says.
    pub fn collect_locks(&mut self, env: &Env) -> Result<()> {
        self.top_down(env, |s, cx| s.lock(cx))
    }

    /// Do the work of this iteration, or start it (top to bottom).
    ///
    /// # Errors
    /// What a layer says.
    pub fn start(&mut self, env: &Env) -> Result<()> {
        self.top_down(env, |s, cx| s.start(cx))
    }

    /// Wait for what was started (bottom to top). Every layer is called, whatever fails.
    pub fn end(&mut self, env: &Env) {
        self.bottom_up(env, |s, cx| s.end(cx));
    }

    /// Tell the layers that the locks of this iteration go (bottom to top).
    pub fn unlock(&mut self, env: &Env) {
        self.bottom_up(env, |s, cx| s.unlock(cx));
    }

    /// Forget the iteration (bottom to top).
    pub fn iter_fini(&mut self, env: &Env) {
        self.bottom_up(env, |s, cx| s.iter_fini(cx));
    }

    /// Move on by `bytes` (bottom to top).
    pub fn advance(&mut self, env: &Env, bytes: u64) {
        self.common.pos += bytes;
        self.common.count -= bytes.min(self.common.count);
        self.bottom_up(env, |s, cx| s.advance(cx, bytes));
    }

    /// Finish the IO (bottom to top): slices go back to where they came from.
    pub fn fini(&mut self, env: &Env) {
        while let Some(slice) = self.slices.pop() {
            slice.fini(env, &mut self.common);
        }
        self.common.state = IoState::Fini;
    }

    /// Submits pages for immediate transfer: qin → qout (see [`IoSlice::submit`]).
    ///
    /// # Errors
    /// What a layer says; pages that were submitted before are on qout.
    #[doc(alias = "cl_io_submit_rw")]
    pub fn submit(&mut self, env: &Env, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        self.whole(env).submit(rw, queues)
    }

    /// Stages dirty pages for opportunistic transfer (see [`IoSlice::commit`]).
    ///
    /// # Errors
    /// What a layer says.
    #[doc(alias = "cl_page_cache_add")]
    pub fn commit(&mut self, env: &Env, pages: &mut PageList) -> Result<()> {
        self.whole(env).commit(pages)
    }

    /// Transfers past the cache (see [`IoSlice::direct`]).
    ///
    /// # Errors
    /// What a layer says.
    pub fn direct(&mut self, env: &Env, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        self.whole(env).direct(rw, bulk, sync)
    }

    /// Asks how far around `offset` locks reach (see [`IoSlice::read_ahead`]).
    ///
    /// # Errors
    /// What a layer says.
    pub fn read_ahead(&mut self, env: &Env, offset: u64) -> Result<Extent> {
        self.whole(env).read_ahead(offset)
    }

    fn whole<'a>(&'a mut self, env: &'a Env) -> IoCx<'a> {
        IoCx { io: &mut self.common, env, below: &mut self.slices }
    }

    fn top_down(&mut self, env: &Env, call: impl Fn(&mut dyn IoSlice, &mut IoCx<'_>) -> Result<()>) -> Result<()> {
        for at in 0..self.slices.len() {
            if let Some((slice, below)) = self.slices[at..].split_first_mut() {
                call(slice.as_mut(), &mut IoCx { io: &mut self.common, env, below })?;
            }
        }
        Ok(())
    }

    fn bottom_up(&mut self, env: &Env, call: impl Fn(&mut dyn IoSlice, &mut IoCx<'_>)) {
        for at in (0..self.slices.len()).rev() {
            if let Some((slice, below)) = self.slices[at..].split_first_mut() {
                call(slice.as_mut(), &mut IoCx { io: &mut self.common, env, below });
            }
        }
    }
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layers: Vec<_> = self.slices.iter().map(|s| s.layer()).collect();
        f.debug_struct("Io").field("common", &self.common).field("layers", &layers).finish()
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        debug_assert!(
            self.slices.is_empty() || std::thread::panicking(),
            "an IO was dropped in state {:?} without fini",
            self.common.state
        );
    }
}
