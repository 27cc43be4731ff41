//! Bulk data in a client's arena: its places come from the client, and are checked here.

use crate::wire::{MAX_SEGMENTS, WireSegment};
use clio_arena::Mapping;
use clio_core::target::{Bulk, BulkSegment};
use clio_core::{Errno, Error, Result};

/// Most bytes of one transfer.
const MAX_BULK_BYTES: u64 = 64 << 20;

/// The memory that `segments` name, in the client's own arena.
///
/// # Errors
/// `EINVAL` for places outside of it, segments that are empty, out of order, too many or too long; `EFBIG` beyond 2^64.
pub(crate) fn find(arena: &Mapping, segments: &[WireSegment]) -> Result<Bulk> {
    let refused = |why| Error::new(Errno::EINVAL, "bulk", why);
    if segments.len() > MAX_SEGMENTS {
        return Err(refused("too many segments"));
    }
    let (mut bulk, mut bytes, mut end) = (Bulk::new(), 0, 0);
    for segment in segments {
        let len = u64::from(segment.len);
        bytes += len;
        if len == 0 || segment.offset < end || bytes > MAX_BULK_BYTES {
            return Err(refused("segments must have bytes, not too many, and ascend"));
        }
        let beyond = || Error::new(Errno::EFBIG, "bulk", "a segment ends beyond the largest offset");
        end = segment.offset.checked_add(len).ok_or_else(beyond)?;
        let mem = arena.at(segment.at, segment.len as usize).ok_or_else(|| refused("a place outside the arena"))?;
        bulk.push(BulkSegment { offset: segment.offset, mem });
    }
    Ok(bulk)
}
