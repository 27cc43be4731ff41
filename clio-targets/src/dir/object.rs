//! One open object: its data file, its side file, and what of both is kept in memory.

use super::format::SideHeader;
use super::side::{Entry, SideFile, Sum, read_padded};
use crate::store::Filled;
use crate::sums::{RunningSum, pieces};
use crate::{bulk, sys};
use clio_core::attr::Attr;
use clio_core::memory::MemRef;
use clio_core::target::BulkSegment;
use clio_core::units::{BLOCK_SIZE, Extent, Fid};
use clio_core::{Errno, Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const BLOCK: usize = BLOCK_SIZE as usize;

/// An open object. Guarded by the reader-writer lock of its slot: reads share it, changes have it to themselves.
#[derive(Debug)]
pub(super) struct OpenObject {
    pub(super) fid: Fid,
    pub(super) data: Arc<File>,
    pub(super) side: SideFile,
    /// Exact, other than `blocks`.
    pub(super) attr: Attr,
    /// The header on disk says so.
    pub(super) dirty: bool,
    /// Made since its folder was last made durable.
    pub(super) created: bool,
    /// The store's epoch.
    pub(super) epoch: u64,
    /// Counts changes, from a number that no other opening of an object starts with.
    pub(super) changes: u64,
    /// Blocks whose checksums were computed anew when the object was opened, after a crash.
    pub(super) unjudged: u64,
}

/// What an object that is opened counts its changes from.
pub(super) fn first_change() -> u64 {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    OPENED.fetch_add(1 << 32, Ordering::Relaxed)
}

impl OpenObject {
    /// An error of the operating system on this object.
    pub(super) fn io(&self, op: &'static str) -> impl Fn(io::Error) -> Error + use<> {
        let fid = self.fid;
        move |e| Error::from_io(op, e).on(fid)
    }

    pub(super) fn damaged(&self, op: &'static str, offset: u64, what: &str) -> Error {
        tracing::error!(fid = %self.fid, offset, what, "stored data is damaged");
        let text = format!("stored data is damaged at offset {offset}: {what}; run `clio check`, restore from a copy");
        Error::new(Errno::EBADMSG, op, text).on(self.fid)
    }

    /// How many bytes of `block` are before the object's end.
    pub(super) fn block_len(&self, block: u64) -> usize {
        self.attr.size.saturating_sub(block * BLOCK_SIZE).min(BLOCK_SIZE) as usize
    }

    pub(super) fn header(&self) -> SideHeader {
        SideHeader { fid: self.fid, dirty: self.dirty, cut: None, attr: self.attr, epoch: self.epoch }
    }

    pub(super) fn write_header(&self) -> Result<()> {
        self.side.write_header(&self.header()).map_err(self.io("write"))
    }

    /// Attributes, with the space in use as the file system tells.
    pub(super) fn attr(&self) -> Result<Attr> {
        let blocks = self.data.metadata().map_err(self.io("getattr"))?.blocks();
        Ok(Attr { kms: self.attr.size, blocks, ..self.attr })
    }

    /// Whether [`OpenObject::read`] finds all checksums without waiting for the disk, or without waiting long if not
    /// `nowait`.
    pub(super) fn sums_at_hand(&self, bulk: &[BulkSegment], nowait: bool) -> bool {
        bulk.iter().filter(|s| !s.mem.is_empty()).all(|s| {
            let last = (s.extent().end - 1).min(self.attr.size.saturating_sub(1));
            let blocks = [s.offset / BLOCK_SIZE, last / BLOCK_SIZE];
            blocks.iter().all(|block| self.side.is_at_hand(*block, nowait))
        })
    }

    /// Fills `bulk` and judges every block that a byte is taken from. `nowait`: fails with `EAGAIN` or `EOPNOTSUPP`
    /// where the disk would be waited for.
    pub(super) fn read(&self, bulk: &[BulkSegment], nowait: bool) -> Result<Filled> {
        let mut sum = RunningSum::default();
        for run in bulk::runs(bulk) {
            let mut mem = Vec::with_capacity(run.len());
            for seg in run {
                let stored = self.attr.size.saturating_sub(seg.offset).min(seg.mem.len() as u64) as usize;
                seg.mem.slice(stored..seg.mem.len()).zero();
                if stored > 0 {
                    mem.push(seg.mem.slice(0..stored));
                }
            }
            self.read_run(mem, run[0].offset, nowait)?;
            for seg in run {
                self.judge(seg, nowait, &mut sum)?;
            }
        }
        Ok(Filled { size: self.attr.size, sum: Some(sum.total()) })
    }

    /// Reads what is stored, without judging it.
    fn read_run(&self, mut mem: Vec<MemRef>, mut offset: u64, nowait: bool) -> Result<()> {
        while !mem.is_empty() {
            let batch = mem.len().min(sys::MAX_IOV);
            match sys::read_at(self.data.as_fd(), &mem[..batch], offset, nowait) {
                Ok(0) => return Err(self.damaged("read", offset, "the file has been cut short")),
                Ok(n) => {
                    offset += n as u64;
                    advance(&mut mem, n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io("read")(e)),
            }
        }
        Ok(())
    }

    /// Judges what was read into a segment. A block that it covers up to the object's end is judged by what was
    /// read; of a block that it covers in part, the whole is read once more, and the part is taken from that.
    fn judge(&self, seg: &BulkSegment, nowait: bool, sum: &mut RunningSum) -> Result<()> {
        let mut block_bytes = [0; BLOCK];
        for piece in pieces(seg) {
            let len = self.block_len(piece.block);
            if piece.from == 0 && len > 0 && piece.mem.len() >= len {
                let crc = piece.mem.slice(0..len).crc32c(0);
                self.check(piece.block, Sum::from_crc(crc, len))?;
                sum.push(crc, len);
                sum.push_bytes(&piece.mem.slice(len..piece.mem.len()));
                continue;
            }
            if piece.from < len {
                if nowait {
                    return Err(Error::new(Errno::EAGAIN, "read", "a block has to be read as a whole"));
                }
                self.load_block(piece.block, &mut block_bytes)?;
                piece.mem.write_at(0, &block_bytes[piece.from..piece.from + piece.mem.len()]);
            }
            sum.push_bytes(&piece.mem);
        }
        Ok(())
    }

    pub(super) fn check(&self, block: u64, found: Sum) -> Result<()> {
        let stored = self.side.sum(block).map_err(self.io("read"))?;
        if stored.allows(found) {
            return Ok(());
        }
        Err(self.damaged("read", block * BLOCK_SIZE, "the checksum doesn't match"))
    }

    /// Reads a block and judges it; past the object's end there are zeros.
    pub(super) fn load_block(&self, block: u64, buf: &mut [u8; BLOCK]) -> Result<()> {
        let len = self.block_len(block);
        buf[len..].fill(0);
        if len == 0 {
            return Ok(());
        }
        let got = read_padded(&self.data, &mut buf[..len], block * BLOCK_SIZE).map_err(self.io("read"))?;
        if got < len {
            return Err(self.damaged("read", block * BLOCK_SIZE + got as u64, "the file has been cut short"));
        }
        self.check(block, Sum::of(buf))
    }

    /// Whether the disk has given space for all of `range`.
    pub(super) fn has_space(&self, range: Extent) -> bool {
        range.end <= self.attr.size
            && sys::seek(self.data.as_fd(), range.start, true).is_ok_and(|hole| hole >= range.end)
    }

    /// Judges the blocks of `entries` against the data, and reports those that don't fit: offset and what is wrong.
    pub(super) fn judge_entries(&self, entries: &[Entry], mut report: impl FnMut(u64, bool)) -> Result<()> {
        let mut bytes = [0; BLOCK];
        for entry in entries {
            let len = self.block_len(entry.block);
            let offset = entry.block * BLOCK_SIZE;
            let got = read_padded(&self.data, &mut bytes[..len], offset).map_err(self.io("check"))?;
            bytes[len..].fill(0);
            let short = got < len;
            if short || !entry.sum.allows(Sum::of(&bytes)) {
                report(offset, short);
            }
        }
        Ok(())
    }
}

/// Takes the first `n` bytes off a list of memory.
pub(super) fn advance(mem: &mut Vec<MemRef>, mut n: usize) {
    let whole = mem.iter().take_while(|m| {
        let fits = m.len() <= n;
        if fits {
            n -= m.len();
        }
        fits
    });
    let whole = whole.count();
    mem.drain(..whole);
    if let Some(first) = mem.first_mut().filter(|_| n > 0) {
        *first = first.slice(n..first.len());
    }
}
