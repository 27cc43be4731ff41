//! Changes of an open object: writes, holes, size. In all, the marks and new checksums go to the side file before the
//! data changes, so that a kill in between leaves nothing that looks damaged.

use super::format::SideHeader;
use super::object::{BLOCK, OpenObject, advance};
use super::side::{Sum, read_padded};
use crate::sums::{BulkSums, pieces};
use crate::{bulk, sys};
use clio_core::attr::{Attr, AttrMask};
use clio_core::memory::MemRef;
use clio_core::target::BulkSegment;
use clio_core::units::{BLOCK_SIZE, Extent};
use clio_core::{Errno, Error, Result};
use std::io;
use std::os::fd::AsFd;

impl OpenObject {
    /// To be called before any change of data.
    fn before_change(&mut self) -> Result<()> {
        self.changes += 1;
        self.set_dirty()
    }

    /// Says that the object is being changed: what a kill leaves of it is nobody's damage.
    pub(super) fn set_dirty(&mut self) -> Result<()> {
        if !self.dirty {
            self.dirty = true;
            let written = self.write_header();
            self.dirty = written.is_ok();
            written?;
        }
        Ok(())
    }

    fn touch(&mut self, mtime: u64) {
        self.attr.mtime = self.attr.mtime.max(mtime);
        self.attr.ctime = self.attr.ctime.max(mtime);
    }

    /// Writes `bulk`. On error, any part of it may have been written; the checksums fit what there is.
    pub(super) fn write(&mut self, bulk: &[BulkSegment], sums: Option<&BulkSums>, mtime: u64) -> Result<()> {
        let sums = self.sums_of(bulk, sums.map_or(&[], BulkSums::pieces))?;
        if !sums.is_empty() {
            self.before_change()?;
            let written = self.side.update(&sums).map_err(self.io("write")).and_then(|()| self.write_runs(bulk));
            if let Err(e) = written {
                self.after_failure(sums.iter().map(|(block, _)| *block).collect());
                return Err(e);
            }
            self.attr.size = self.attr.size.max(bulk::hull(bulk).end);
        }
        self.touch(mtime);
        Ok(())
    }

    /// The checksums that the blocks will have once `bulk` is written, ascending. `known` are those of its pieces, or
    /// nothing.
    fn sums_of(&self, bulk: &[BulkSegment], known: &[u32]) -> Result<Vec<(u64, Sum)>> {
        let mut sums = Vec::with_capacity(bulk.iter().map(|s| s.mem.len() / BLOCK + 2).sum());
        // A block of which only parts are written, as it will be.
        let mut part: Option<(u64, [u8; BLOCK])> = None;
        for (n, piece) in bulk.iter().flat_map(pieces).enumerate() {
            if let Some((block, bytes)) = part.take_if(|(block, _)| *block != piece.block) {
                sums.push((block, Sum::of(&bytes)));
            }
            if piece.mem.len() == BLOCK {
                let crc = known.get(n).copied().unwrap_or_else(|| piece.mem.crc32c(0));
                sums.push((piece.block, Sum::from_crc(crc, BLOCK)));
                continue;
            }
            if part.is_none() {
                let mut bytes = [0; BLOCK];
                self.load_block(piece.block, &mut bytes)?;
                part = Some((piece.block, bytes));
            }
            if let Some((_, bytes)) = &mut part {
                piece.mem.read_at(0, &mut bytes[piece.from..piece.from + piece.mem.len()]);
            }
        }
        sums.extend(part.map(|(block, bytes)| (block, Sum::of(&bytes))));
        Ok(sums)
    }

    fn write_runs(&self, bulk: &[BulkSegment]) -> Result<()> {
        for run in bulk::runs(bulk) {
            let mut mem: Vec<MemRef> = run.iter().map(|s| s.mem).filter(|m| !m.is_empty()).collect();
            let mut offset = run[0].offset;
            while !mem.is_empty() {
                let batch = mem.len().min(sys::MAX_IOV);
                match sys::write_at(self.data.as_fd(), &mem[..batch], offset) {
                    Ok(0) => return Err(Error::new(Errno::EIO, "write", "the file takes no more data").on(self.fid)),
                    Ok(n) => {
                        offset += n as u64;
                        advance(&mut mem, n);
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(self.io("write")(e)),
                }
            }
        }
        Ok(())
    }

    /// After a change of `blocks` (ascending) that failed half-way: makes size and checksums fit what is there. If even
    /// that fails, the blocks are found damaged when read in this session, and taken as they are after it, since they
    /// are marked.
    fn after_failure(&mut self, blocks: Vec<u64>) {
        if let Ok(meta) = self.data.metadata() {
            self.attr.size = self.attr.size.max(meta.len());
        }
        if let Err(e) = self.take_as_is(&blocks) {
            tracing::error!(fid = %self.fid, error = %e, "checksums could not be corrected after a failed change");
        }
    }

    /// Computes the checksums of `blocks` (ascending) from the data, whatever it is.
    pub(super) fn take_as_is(&mut self, blocks: &[u64]) -> io::Result<()> {
        let mut bytes = [0; BLOCK];
        let mut sums = Vec::with_capacity(blocks.len());
        for &block in blocks {
            let len = self.block_len(block);
            read_padded(&self.data, &mut bytes[..len], block * BLOCK_SIZE)?;
            bytes[len..].fill(0);
            let hole = len == 0 || (self.side.sum(block)? == Sum::HOLE && bytes.iter().all(|b| *b == 0));
            sums.push((block, if hole { Sum::HOLE } else { Sum::of(&bytes) }));
        }
        self.side.update(&sums)
    }

    /// Deallocates `extent`, or sets the size if it ends at [`Extent::EOF`].
    pub(super) fn punch(&mut self, extent: Extent, mtime: u64) -> Result<()> {
        if extent.end == Extent::EOF {
            self.set_size(extent.start)?;
        } else {
            let extent = extent.intersect(Extent::new(0, self.attr.size));
            if !extent.is_empty() {
                self.punch_hole(extent)?;
            }
        }
        self.touch(mtime);
        Ok(())
    }

    fn punch_hole(&mut self, extent: Extent) -> Result<()> {
        let mut sums = Vec::new();
        let (first, last) = (extent.start / BLOCK_SIZE, (extent.end - 1) / BLOCK_SIZE);
        for block in [first, last] {
            let all = Extent::with_len(block * BLOCK_SIZE, BLOCK_SIZE);
            if !extent.covers(all) && sums.last().is_none_or(|(b, _)| *b != block) {
                sums.extend(self.sum_without(block, extent)?.map(|sum| (block, sum)));
            }
        }
        self.before_change()?;
        let whole = extent.start.div_ceil(BLOCK_SIZE)..extent.end / BLOCK_SIZE;
        let done = self
            .side
            .update(&sums)
            .and_then(|()| if whole.is_empty() { Ok(()) } else { self.side.clear(whole.start, whole.end) })
            .and_then(|()| sys::punch_hole(self.data.as_fd(), extent.start, extent.len()));
        if let Err(e) = done {
            let mut blocks = self.side.marked_blocks(first, last + 1).unwrap_or_default();
            blocks.extend(sums.iter().map(|(block, _)| *block));
            blocks.sort_unstable();
            blocks.dedup();
            self.after_failure(blocks);
            return Err(self.io("punch")(e));
        }
        Ok(())
    }

    /// The checksum of `block` with the bytes of `extent` zeroed. `None` for a hole, which stays one.
    fn sum_without(&self, block: u64, extent: Extent) -> Result<Option<Sum>> {
        if self.side.sum(block).map_err(self.io("punch"))? == Sum::HOLE {
            return Ok(None);
        }
        let mut bytes = [0; BLOCK];
        self.load_block(block, &mut bytes)?;
        let part = extent.intersect(Extent::with_len(block * BLOCK_SIZE, BLOCK_SIZE));
        let base = block * BLOCK_SIZE;
        bytes[(part.start - base) as usize..(part.end - base) as usize].fill(0);
        Ok(Some(Sum::of(&bytes)))
    }

    fn set_size(&mut self, size: u64) -> Result<()> {
        if size >= self.attr.size {
            self.before_change()?;
            self.data.set_len(size).map_err(self.io("truncate"))?;
            self.attr.size = size;
            return Ok(());
        }
        let mut sums = Vec::new();
        let block = size / BLOCK_SIZE;
        if !size.is_multiple_of(BLOCK_SIZE) {
            sums.extend(self.sum_without(block, Extent::new(size, Extent::EOF))?.map(|sum| (block, sum)));
        }
        self.before_change()?;
        if let Err(e) = self.cut(size, &sums) {
            self.after_failure(vec![block]);
            self.write_header()?;
            return Err(self.io("truncate")(e));
        }
        Ok(())
    }

    /// Cuts the data, then the checksums. The header says so meanwhile: without that, what a kill between the two
    /// leaves would look like a file cut by somebody else.
    fn cut(&mut self, size: u64, sums: &[(u64, Sum)]) -> io::Result<()> {
        self.side.write_header(&SideHeader { cut: Some(size), ..self.header() })?;
        self.side.update(sums)?;
        self.data.set_len(size)?;
        self.attr.size = size;
        self.side.cut(size.div_ceil(BLOCK_SIZE))?;
        self.side.write_header(&self.header())
    }

    pub(super) fn setattr(&mut self, attr: &Attr, mask: AttrMask) -> Result<()> {
        bulk::merge(&mut self.attr, attr, mask);
        self.changes += 1;
        self.write_header()
    }

    /// Says that everything is in order: for an object that was made durable, or is being closed. The data written
    /// before is in the file, or at least in the page cache, which outlives this process.
    pub(super) fn set_clean(&mut self) -> Result<()> {
        self.side.clear_marks().map_err(self.io("sync"))?;
        self.dirty = false;
        let written = self.write_header();
        self.dirty = written.is_err();
        written
    }
}
