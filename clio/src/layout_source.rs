//! Where the striping layer learns of, and asks for, changes of a file's layout.

use crate::store::Store;
use clio_core::units::{Extent, Fid};
use clio_core::{Errno, Error, Result};
use clio_lov::LayoutSource;
use clio_lov::layout::FileLayout;
use std::sync::{Arc, Weak};

/// Layouts are kept in the namespace, where a change takes place only if no other came first.
pub(crate) struct StoreLayouts(pub(crate) Weak<Store>);

impl StoreLayouts {
    fn store(&self) -> Result<Arc<Store>> {
        self.0.upgrade().ok_or_else(|| Error::new(Errno::ESHUTDOWN, "layout", "the store is closed"))
    }
}

impl LayoutSource for StoreLayouts {
    fn current(&self, fid: Fid) -> Result<Arc<[u8]>> {
        let store = self.store()?;
        let layout = store.names().get_layout(fid)?;
        store.layout_changed();
        Ok(layout.into())
    }

    fn instantiate(&self, fid: Fid, extent: Extent) -> Result<Arc<[u8]>> {
        let store = self.store()?;
        let targets = store.target_space();
        let mut encoded = store.names().get_layout(fid)?;
        loop {
            let mut layout = FileLayout::decode(&encoded).map_err(|e| e.on(fid))?;
            store.layout_changed();
            if !layout.instantiate(extent, &targets, &mut *store.allocator().lock())? {
                return Ok(encoded.into());
            }
            let wanted = layout.encode();
            let ctx = crate::store::now();
            let now = store.names().replace_layout(&ctx, fid, &encoded, &wanted)?;
            store.layout_changed();
            if now == wanted {
                return Ok(wanted.into());
            }
            // Another client was faster. It may have made what is wanted here, or another part.
            encoded = now;
        }
    }
}
