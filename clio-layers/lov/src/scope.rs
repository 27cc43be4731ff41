//! What an iteration does: its part of the file, and the stripes that have a part in it.

use crate::layout::{FileLayout, Location, StripeRef};
use crate::object::LovObject;
use clio_core::env::Env;
use clio_core::io::{IoCommon, IoKind};
use clio_core::units::{Extent, MAX_FILE_SIZE};
use clio_core::{Errno, Error, Result};
use smallvec::SmallVec;

/// How often a component may go on changing between a look and the next.
const MAX_ATTEMPTS: usize = 16;

/// A stripe's part in an iteration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Share {
    pub(crate) at: StripeRef,
    pub(crate) kind: IoKind,
    /// In bytes of the stripe's object.
    pub(crate) extent: Extent,
}

/// The stripes that have a part, in order of FIDs.
pub(crate) type Shares = SmallVec<[Share; 1]>;

/// Brings the layout up to what the iteration needs of it, and shrinks the iteration so that it meets one stripe only.
/// Whether it is on a hole, which was entered then ([`LovObject::enter_hole`]).
///
/// Not shrunk: append and truncation, which are atomic over all stripes, and what has no data to hold locks for. Direct IO
/// leaves nothing in the cache that another client could want back, and keeps all targets busy: it goes on to the end of
/// the component.
///
/// # Errors
/// `EFBIG` beyond what the layout can hold; what the source of layouts says.
pub(crate) fn prepare(lov: &LovObject, env: &Env, io: &mut IoCommon) -> Result<bool> {
    match io.kind {
        IoKind::Read | IoKind::Fault { write: false } | IoKind::Advise { will_need: true } => {
            return prepare_read(lov, env, io);
        }
        IoKind::Write { append: false } | IoKind::Fault { write: true } => prepare_write(lov, env, io)?,
        // Where the file ends is known under the lock only, and what lies there must have targets then. Targets make
        // objects at the first write: those that remain unused cost nothing.
        IoKind::Write { append: true } => {
            lov.instantiate(env, Extent::WHOLE)?;
            io.max_size = io.max_size.min(lov.snapshot().layout().max_size());
        }
        IoKind::Truncate { size } => {
            lov.snapshot().layout().check_size(size)?;
            refresh(lov, env)?;
            lov.instantiate(env, FileLayout::last_byte(size))?;
        }
        IoKind::Punch | IoKind::Fsync | IoKind::Seek { .. } => refresh(lov, env)?,
        IoKind::Advise { will_need: false } | IoKind::Misc => {}
    }
    Ok(false)
}

/// Learns of components that another client wrote first.
fn refresh(lov: &LovObject, env: &Env) -> Result<()> {
    if lov.snapshot().has_missing() { lov.refresh(env) } else { Ok(()) }
}

fn prepare_read(lov: &LovObject, env: &Env, io: &mut IoCommon) -> Result<bool> {
    let Extent { start, end } = io.iteration;
    let mut is_fresh = false;
    for _ in 0..MAX_ATTEMPTS {
        match lov.snapshot().layout().locate(start) {
            Location::Stripe(place) => {
                io.iteration.end = end.min(shrunk(lov, io, start, place.run_end));
                return Ok(false);
            }
            Location::Undefined => {
                io.iteration = Extent::new(start, start);
                io.finished = true;
                return Ok(false);
            }
            Location::Missing { .. } if !is_fresh => {
                lov.refresh(env)?;
                is_fresh = true;
            }
            Location::Missing { .. } => {
                if let Some(hole_end) = lov.enter_hole(start) {
                    io.iteration.end = end.min(hole_end);
                    return Ok(true);
                }
            }
        }
    }
    Err(keeps_changing())
}

fn prepare_write(lov: &LovObject, env: &Env, io: &mut IoCommon) -> Result<()> {
    let Extent { start, end } = io.iteration;
    if start >= end {
        return Ok(());
    }
    for _ in 0..MAX_ATTEMPTS {
        match lov.snapshot().layout().locate(start) {
            Location::Stripe(place) => {
                io.iteration.end = end.min(shrunk(lov, io, start, place.run_end));
                return Ok(());
            }
            Location::Undefined => return lov.snapshot().layout().check_size(start.saturating_add(1)),
            Location::Missing { end: component_end, .. } => {
                lov.instantiate(env, Extent::new(start, end.min(component_end)))?;
            }
        }
    }
    Err(keeps_changing())
}

/// Where an iteration from `start` ends at the latest.
fn shrunk(lov: &LovObject, io: &IoCommon, start: u64, run_end: u64) -> u64 {
    if !io.direct {
        return run_end;
    }
    let striped = lov.snapshot();
    let component = striped.layout().component_at(start).and_then(|i| striped.layout().component(i));
    component.map_or(run_end, |c| c.extent().end.min(MAX_FILE_SIZE))
}

fn keeps_changing() -> Error {
    Error::new(Errno::EIO, "io", "the file's layout kept changing; try again")
}

/// The stripes that have a part in the iteration from its start on. Others may come to it later.
///
/// # Errors
/// `EFBIG` for a truncation beyond what the layout can hold.
pub(crate) fn shares(layout: &FileLayout, io: &IoCommon) -> Result<Shares> {
    let of = |extent: Extent| {
        layout.sub_extents(extent).map(|s| Share { at: s.at, kind: io.kind, extent: s.object }).collect()
    };
    Ok(match io.kind {
        IoKind::Read | IoKind::Write { append: false } | IoKind::Fault { .. } | IoKind::Fsync => of(io.iteration),
        // An end of EOF would be a truncation.
        IoKind::Punch => of(io.iteration.intersect(Extent::new(0, MAX_FILE_SIZE))),
        IoKind::Truncate { size } => {
            let truncated = layout.truncate(size)?;
            let share = |s: crate::layout::StripeSize| Share {
                at: s.at,
                kind: IoKind::Truncate { size: s.object_size },
                extent: Extent::new(s.object_size, Extent::EOF),
            };
            truncated.map(share).collect()
        }
        IoKind::Seek { .. } => layout
            .seek_asks(io.pos, MAX_FILE_SIZE)
            .map(|a| Share { at: a.at, kind: io.kind, extent: Extent::new(a.object_offset, Extent::EOF) })
            .collect(),
        IoKind::Write { append: true } | IoKind::Advise { .. } | IoKind::Misc => Shares::new(),
    })
}
