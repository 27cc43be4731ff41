//! How far a read may go beyond what was asked for.

use crate::io::LovIo;
use crate::layout::{FileLayout, Location, Placed};
use crate::parts::in_file;
use clio_core::lock::LockUser;
use clio_core::object::Object;
use clio_core::target::LockMode;
use clio_core::units::Extent;

/// Most rows (stripe units) that one answer covers.
const MAX_ROWS: usize = 128;

impl LovIo {
    /// See [`clio_core::io::IoSlice::read_ahead`]. What is covered goes on over stripe units as long as locks of their
    /// stripes cover them whole. These locks are kept until the iteration ends, so that the pages found on the strength
    /// of the answer are swept by whoever cancels them.
    pub(crate) fn covered(&mut self, offset: u64) -> Extent {
        let mut all = Extent::new(offset, offset);
        let striped = self.striped().clone();
        let layout = striped.layout();
        let Location::Stripe(place) = layout.locate(offset) else { return all };
        let (mut at, mut place) = (offset, place);
        // Rows in succession, whose stripes are locked to the end: as many as there are stripes cover all that follows.
        let mut open_rows = 0;
        for _ in 0..MAX_ROWS {
            let Some(object) = striped.sub(place.at) else { break };
            let (mut covered, is_open) = self.row(layout, object, at, place);
            if !covered.contains(at) {
                break;
            }
            open_rows = if is_open { open_rows + 1 } else { 0 };
            let component = layout.component(place.at.component);
            if let Some(component) = component.filter(|c| c.stripes().is_some_and(|s| s.len() == open_rows)) {
                covered.end = component.extent().end;
                open_rows = 0;
            }
            all = all.hull(covered);
            match layout.locate(covered.end) {
                Location::Stripe(next) if covered.end >= place.run_end => (at, place) = (covered.end, next),
                _ => break,
            }
        }
        all
    }

    /// What one lock covers around file offset `at` of the row there, in bytes of the file; and whether it reaches to the
    /// end of the object.
    fn row(&mut self, layout: &FileLayout, object: &Object, at: u64, place: Placed) -> (Extent, bool) {
        let block = Extent::with_len(place.object_offset, 1).align_to_blocks();
        let fid = object.fid();
        let mine = |u: &&LockUser| u.lock().fid() == fid && u.descr().extent.covers(block);
        let granted = match self.ahead.iter().find(mine) {
            Some(user) => user.descr().extent,
            None => match object.locks().covering(block, LockMode::Pr) {
                Some(user) => {
                    let extent = user.descr().extent;
                    self.ahead.push(user);
                    extent
                }
                None => return (Extent::new(at, at), false),
            },
        };
        (in_file(layout, at, granted), granted.end == Extent::EOF)
    }
}
