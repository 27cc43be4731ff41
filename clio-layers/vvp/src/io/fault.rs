//! Faults: blocks of a mapping are made valid, and dirty before they are written to.

use super::{MAX_ATTEMPTS, VvpIo};
use crate::read_ahead::Ahead;
use crate::transfer::own_page;
use clio_core::clock::now_ns;
use clio_core::io::IoCx;
use clio_core::page::{PageList, WriteRefusal};
use clio_core::units::{BlockSet, Extent};
use clio_core::{Errno, Error, Result};

impl VvpIo {
    /// Makes the blocks of the iteration valid, as far as the file has them; for a write also dirty, so that the layer
    /// below opens their windows.
    pub(super) fn fault(&mut self, cx: &mut IoCx<'_>, write: bool) -> Result<()> {
        let it = cx.io.iteration;
        cx.io.finished = true;
        let size = Self::size_up_to(cx, it.end)?;
        if it.start >= size {
            return Err(Error::new(Errno::EFAULT, "fault", "the page lies beyond the end of the file"));
        }
        let needed = Extent::new(it.start, it.end.min(size));
        if write {
            return self.dirty_in_place(cx, needed);
        }
        if !cx.io.hole {
            self.fetch(cx, needed, &Ahead::new())?;
        }
        cx.io.moved = needed.len();
        Ok(())
    }

    /// Makes `extent`, which lies in one folio, dirty with the bytes that it has.
    fn dirty_in_place(&mut self, cx: &mut IoCx<'_>, extent: Extent) -> Result<()> {
        let object = cx.io.object.clone();
        let mut bytes = vec![0; extent.len() as usize];
        for _ in 0..MAX_ATTEMPTS {
            self.fetch(cx, extent, &Ahead::new())?;
            let owned =
                own_page(cx, &object, object.folio_of(extent.start), blocks_in_folio(extent, object.folio_size()))?;
            let page = owned.page().clone();
            let at = (extent.start - page.offset()) as usize;
            if !page.read(at, &mut bytes) {
                // Evicted in between.
                continue;
            }
            let eof = object.attrs().kms().saturating_sub(page.offset());
            match owned.write(at, &bytes, eof) {
                Ok(blocks) => {
                    owned.raise(&object, (extent.end - page.offset()) as usize, now_ns());
                    drop(owned);
                    let mut dirty = PageList::new();
                    dirty.push(page, blocks);
                    return self.stage(cx, &mut dirty, extent.end);
                }
                Err(WriteRefusal::NoMemory) => {
                    drop(owned);
                    self.make_room(cx, page.blocks_of(extent))?;
                }
                Err(WriteRefusal::NotNow | WriteRefusal::Fragmented(_)) => {}
            }
        }
        Err(Error::new(Errno::EIO, "fault", "a page was taken away faster than it could be mapped"))
    }
}

/// Blocks of its folio that `extent` touches.
fn blocks_in_folio(extent: Extent, folio: u64) -> BlockSet {
    let start = extent.start & (folio - 1);
    BlockSet::touching(start, start + extent.len())
}
