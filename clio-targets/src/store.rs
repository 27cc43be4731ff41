//! What a store of objects must be able to do; everything else a target does is in [`Service`](crate::Service).

use crate::sums::BulkSums;
use clio_core::Result;
use clio_core::attr::{Attr, AttrMask};
use clio_core::target::BulkSegment;
use clio_core::units::{Extent, Fid};
use std::fmt::Debug;

/// Space of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes free.
    pub free: u64,
}

/// What a read found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled {
    /// The object's size in bytes, 0 if there is no such object.
    pub size: u64,
    /// crc32c of all that was filled in, if the store has come to know it.
    pub sum: Option<u32>,
}

/// Keeps sparse, byte-addressed objects named by FID. All calls may block on the store's medium.
///
/// Bulk handed in is checked: ascending, without overlap, no segment beyond `MAX_FILE_SIZE`. Calls on one object may
/// come from several threads at once; each is atomic against the others.
pub trait ObjectStore: Send + Sync + Debug + 'static {
    /// Makes an empty object; `EEXIST` if there is one.
    fn create(&self, fid: Fid) -> Result<()>;

    /// Removes an object; `ENOENT` if there is none.
    fn destroy(&self, fid: Fid) -> Result<()>;

    /// Fills all of `bulk`, with zeros where nothing is stored. What the store knows to be damaged is `EBADMSG`, never
    /// served.
    fn read(&self, fid: Fid, bulk: &[BulkSegment]) -> Result<Filled>;

    /// As [`ObjectStore::read`] if that needs no wait for a medium or another call; `None` if it might.
    fn try_read(&self, fid: Fid, bulk: &[BulkSegment]) -> Option<Result<Filled>> {
        let _ = (fid, bulk);
        None
    }

    /// Writes `bulk`, making the object if need be, and raises its mtime to `mtime`. Durable at return if `sync`.
    /// Returns the attributes afterwards. On error, any part of `bulk` may have been written. `sums` are those of
    /// `bulk`, where the caller has them already.
    fn write(&self, fid: Fid, bulk: &[BulkSegment], sums: Option<&BulkSums>, mtime: u64, sync: bool) -> Result<Attr>;

    /// Deallocates `extent`; if it ends at [`Extent::EOF`], sets the size to its start, making the object if need
    /// be. Raises mtime. Returns the attributes afterwards.
    fn punch(&self, fid: Fid, extent: Extent, mtime: u64) -> Result<Attr>;

    /// Attributes; all zero if there is no object.
    fn getattr(&self, fid: Fid) -> Result<Attr>;

    /// As [`ObjectStore::getattr`] if that needs no wait for a medium or another call; `None` if it might.
    fn try_getattr(&self, fid: Fid) -> Option<Result<Attr>> {
        let _ = fid;
        None
    }

    /// Sets times and owner as `mask` says, making the object if need be. Returns the attributes afterwards.
    fn setattr(&self, fid: Fid, attr: &Attr, mask: AttrMask) -> Result<Attr>;

    /// Makes the object durable; nothing to do if there is none.
    fn sync(&self, fid: Fid) -> Result<()>;

    /// The next data or hole at or after `offset`; the end counts as a hole. `ENXIO` from the end on.
    fn seek(&self, fid: Fid, offset: u64, hole: bool) -> Result<u64>;

    /// Space there is. Called with every write, so it has to be cheap.
    fn space(&self) -> Result<Space>;

    /// How many objects are stored.
    fn count(&self) -> Result<u64>;
}
