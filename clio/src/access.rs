//! The time of the last read, kept with a file's name.

use crate::store::Store;
use clio_core::units::Fid;

/// A file was read whose data was last changed at `changed`, nanoseconds since 1970: dates that, if it is worth it.
pub(crate) fn note(store: &Store, fid: Fid, changed: u64) {
    let ctx = crate::store::now();
    if let Err(e) = store.names().note_read(&ctx, fid, changed) {
        // The read itself went well.
        tracing::debug!(target: "clio::names", %fid, error = %e, "a read could not be dated");
    }
}
