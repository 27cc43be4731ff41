//! Checks and sums over vectored bulk data.

use clio_core::attr::{Attr, AttrMask, Lvb};
use clio_core::target::BulkSegment;
use clio_core::units::{Extent, MAX_FILE_SIZE};
use clio_core::{Errno, Error, Result};

/// Refuses bulk that is not ascending, overlaps, or reaches beyond the largest offset.
pub(crate) fn check(op: &'static str, bulk: &[BulkSegment]) -> Result<()> {
    let mut at = 0;
    for seg in bulk {
        if seg.offset < at {
            return Err(Error::new(Errno::EINVAL, op, "segments must be in ascending order and must not overlap"));
        }
        at = match seg.offset.checked_add(seg.mem.len() as u64) {
            Some(end) if end <= MAX_FILE_SIZE => end,
            _ => return Err(Error::new(Errno::EFBIG, op, "offset beyond 2^63 - 1, the largest there is")),
        };
    }
    Ok(())
}

/// Refuses attributes that setattr cannot set.
pub(crate) fn check_mask(mask: AttrMask) -> Result<()> {
    let settable = AttrMask::TIMES | AttrMask::UID | AttrMask::GID;
    if settable.contains(mask) {
        return Ok(());
    }
    Err(Error::new(Errno::EINVAL, "setattr", "only times and owner can be set; punch changes the size"))
}

/// crc32c over all segments in order.
pub(crate) fn crc32c(bulk: &[BulkSegment]) -> u32 {
    bulk.iter().fold(0, |crc, seg| seg.mem.crc32c(crc))
}

/// The smallest extent that covers all of `bulk`.
pub(crate) fn hull(bulk: &[BulkSegment]) -> Extent {
    bulk.iter().fold(Extent::new(0, 0), |e, seg| e.hull(seg.extent()))
}

/// Groups segments that continue each other in the object, so that each group is one system call.
pub(crate) fn runs(bulk: &[BulkSegment]) -> impl Iterator<Item = &[BulkSegment]> {
    bulk.chunk_by(|a, b| a.extent().end == b.offset)
}

/// What an object's attributes say in a lock value block.
pub(crate) fn lvb_of(attr: &Attr) -> Lvb {
    Lvb { size: attr.size, blocks: attr.blocks, mtime: attr.mtime, atime: attr.atime, ctime: attr.ctime }
}

/// `attr` with the fields of `mask` taken from `new`.
pub(crate) fn merge(attr: &mut Attr, new: &Attr, mask: AttrMask) {
    let set = |bit, to: &mut u64, from| {
        if mask.contains(bit) {
            *to = from;
        }
    };
    set(AttrMask::ATIME, &mut attr.atime, new.atime);
    set(AttrMask::MTIME, &mut attr.mtime, new.mtime);
    set(AttrMask::CTIME, &mut attr.ctime, new.ctime);
    if mask.contains(AttrMask::UID) {
        attr.uid = new.uid;
    }
    if mask.contains(AttrMask::GID) {
        attr.gid = new.gid;
    }
}
