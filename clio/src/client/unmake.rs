//! Files that were made and could not be opened.

use super::Client;
use clio_lov::layout::FileLayout;
use clio_namespace::Inode;
use std::path::Path;

impl Client {
    /// Takes the name of `made`, a file that this client made at `path` and could not open, away again. If somebody else has
    /// it open, or has changed it or written to it, it is theirs, and stays.
    pub(super) fn unmake(&self, path: &Path, made: Inode) {
        let fid = made.fid;
        let Ok(names) = self.names() else { return };
        let Ok(known) = names.getattr(fid) else { return };
        if !is_unused(&known, made) {
            return;
        }
        match names.unmake(&crate::store::now(), path.into(), &known) {
            Ok(removed) => self.inner.removed(removed),
            Err(e) => tracing::warn!(target: "clio::object", %fid, error = %e, "an empty file stays"),
        }
    }
}

/// Whether nothing has happened to the file but that it was given a layout, of which no byte was written: a file has objects
/// only then.
fn is_unused(known: &Inode, made: Inode) -> bool {
    let is_unwritten = || FileLayout::decode(&known.layout).is_ok_and(|l| l.stripes().next().is_none());
    let is_same = known.layout == made.layout || is_unwritten();
    is_same && *known == Inode { layout: known.layout.clone(), ctime: known.ctime, ..made }
}
