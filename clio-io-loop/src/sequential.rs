//! Iterations one after another.

use crate::steps::{Begun, unless_unwinding};
use clio_core::env::Env;
use clio_core::io::Io;
use clio_core::{Errno, Error, Result};

/// How often an IO that keeps meeting changed layouts is started anew.
pub const MAX_RESTARTS: usize = 16;

/// Drives `io` until nothing remains, a short iteration, or an error; then finishes it. Blocks.
///
/// Returns the bytes moved. An error after some bytes were moved is not returned, as POSIX wants it: it stays in
/// [`clio_core::io::IoCommon::error`] for a caller that wants to know. If the IO met a changed layout,
/// `common.need_restart` is set, and the bytes returned are those moved before.
///
/// # Errors
/// The first error, if no byte was moved.
#[doc(alias = "cl_io_loop")]
pub fn run(env: &Env, io: &mut Io) -> Result<u64> {
    let _span = tracing::debug_span!(
        target: "clio::io", "io", kind = ?io.common.kind, fid = %io.common.object.fid(),
        pos = io.common.pos, count = io.common.count
    )
    .entered();
    let finished = Finished { io, env };
    while iterate(env, finished.io) {}
    drop(finished);
    match io.common.error() {
        Some(e) if io.common.done == 0 => Err(e.clone().on(io.common.object.fid())),
        _ => Ok(io.common.done),
    }
}

/// Finishes the IO when dropped: on unwinding too.
struct Finished<'a> {
    io: &'a mut Io,
    env: &'a Env,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        unless_unwinding(|| self.io.fini(self.env));
    }
}

/// One iteration; whether another one is due.
fn iterate(env: &Env, io: &mut Io) -> bool {
    let begun = Begun::begin(io, env).and_then(Begun::lock).map(|locked| locked.start().finish());
    let moved = begun.unwrap_or_else(|e| {
        io.common.fail(e);
        0
    });
    let common = &io.common;
    common.error().is_none()
        && !common.finished
        && !common.need_restart
        && common.count > 0
        && moved == common.iteration.len()
        && moved > 0
}

/// Runs the IO that `make` builds, and builds and runs another for the rest whenever the layout changed under it, up
/// to [`MAX_RESTARTS`] times. `make` is told how many bytes are already done. Returns how many were moved, and the last IO.
///
/// # Errors
/// As [`run`], and `make`'s; `EIO` if the layout keeps changing. None of them once bytes were moved.
pub fn run_restarting(env: &Env, mut make: impl FnMut(u64) -> Result<Io>) -> Result<(u64, Io)> {
    let mut done = 0;
    let mut last = None;
    for _ in 0..MAX_RESTARTS {
        let mut io = match (make(done), last.take()) {
            (Ok(io), _) => io,
            (Err(_), Some(last)) if done > 0 => return Ok((done, last)),
            (Err(e), _) => return Err(e),
        };
        match run(env, &mut io) {
            Ok(n) => done += n,
            Err(_) if io.common.need_restart || done > 0 => {}
            Err(e) => return Err(e),
        }
        if !io.common.need_restart {
            return Ok((done, io));
        }
        last = Some(io);
    }
    match last {
        Some(io) if done > 0 => Ok((done, io)),
        _ => Err(Error::new(Errno::EIO, "io", "the file's layout kept changing; try again")),
    }
}
