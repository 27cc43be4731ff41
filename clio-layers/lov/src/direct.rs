//! Transfers past the cache: segments are cut at the bounds of stripe units, and each stripe gets its own.

use crate::io::LovIo;
use crate::layout::{Location, StripeRef};
use crate::scope::Share;
use clio_core::io::IoCx;
use clio_core::page::{Rw, SyncIo};
use clio_core::target::{Bulk, BulkSegment};
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

impl LovIo {
    /// See [`clio_core::io::IoSlice::direct`]. All stripes are asked before anybody waits for one.
    pub(crate) fn direct_bulk(&mut self, cx: &mut IoCx<'_>, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        for (at, bulk) in self.split(rw, bulk)? {
            let extent = bulk.iter().map(BulkSegment::extent).fold(Extent::new(0, 0), Extent::hull);
            let sub = self.sub_io(cx.env, cx.io, Share { at, kind: cx.io.kind, extent }, false)?;
            sub.start(cx.env)?;
            sub.with(cx.env, |io, env| io.direct(env, rw, &bulk, sync))?;
        }
        Ok(())
    }

    /// The pieces for each stripe, in bytes of its object. What is read of a hole becomes zeros here.
    ///
    /// # Errors
    /// `ESTALE` for a write where no target is, `EFBIG` beyond the layout.
    fn split(&self, rw: Rw, bulk: &Bulk) -> Result<SmallVec<[(StripeRef, Bulk); 4]>> {
        let layout = self.striped().layout();
        let mut split = SmallVec::<[(StripeRef, Bulk); 4]>::new();
        for segment in bulk {
            let Extent { start, end } = segment.extent();
            let mut at = start;
            while at < end {
                let piece = |to: u64| segment.mem.slice((at - start) as usize..(to - start) as usize);
                let to = match layout.locate(at) {
                    Location::Stripe(place) => {
                        let to = place.run_end.min(end);
                        let piece = BulkSegment { offset: place.object_offset, mem: piece(to) };
                        match split.iter_mut().find(|(stripe, _)| *stripe == place.at) {
                            Some((_, bulk)) => bulk.push(piece),
                            None => split.push((place.at, Bulk::from_iter([piece]))),
                        }
                        to
                    }
                    Location::Missing { end: hole_end, .. } if rw == Rw::Read => {
                        let to = hole_end.min(end);
                        piece(to).zero();
                        to
                    }
                    Location::Missing { .. } => {
                        return Err(Error::new(Errno::ESTALE, "write", "no target was chosen here yet; start again"));
                    }
                    Location::Undefined => {
                        layout.check_size(at.saturating_add(1))?;
                        return Err(Error::new(Errno::EFBIG, "io", format!("nothing can be at offset {at}")));
                    }
                };
                at = to;
            }
        }
        Ok(split)
    }
}
