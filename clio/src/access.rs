//! The time of the last read, kept with a file's name.

use crate::store::Store;
use clio_core::Result;
use clio_core::units::Fid;
use clio_namespace::{OpCtx, SetAttr};

/// A file was read whose data was last changed at `changed`, nanoseconds since 1970: dates that, if it is worth it.
pub(crate) fn note(store: &Store, fid: Fid, changed: u64) {
    if let Err(e) = try_note(store, fid, changed) {
        // The read itself went well.
        tracing::debug!(target: "clio::names", %fid, error = %e, "a read could not be dated");
    }
}

fn try_note(store: &Store, fid: Fid, changed: u64) -> Result<()> {
    let now = clio_core::clock::now_ns();
    let inode = store.namespace().getattr(fid)?;
    if !clio_vvp::is_worth_noting(inode.atime, changed.max(inode.mtime).max(inode.ctime), now) {
        return Ok(());
    }
    let set = SetAttr { atime: Some(now), only_raise_times: true, ..SetAttr::default() };
    // A read is no change: at time 0, the operation raises no change time.
    store.namespace().setattr(&OpCtx::at(0), fid, &set).map(drop)
}
