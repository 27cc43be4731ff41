//! Where the striping layer learns of, and asks for, changes of a file's layout.

use crate::store::Store;
use clio_core::units::{Extent, Fid};
use clio_core::{Errno, Error, Result};
use clio_lov::LayoutSource;
use clio_lov::layout::FileLayout;
use clio_namespace::OpCtx;
use std::sync::{Arc, Weak};

/// Layouts are kept in the namespace; changes of one file are serialised by the store.
pub(crate) struct StoreLayouts(pub(crate) Weak<Store>);

impl StoreLayouts {
    fn store(&self) -> Result<Arc<Store>> {
        self.0.upgrade().ok_or_else(|| Error::new(Errno::ESHUTDOWN, "layout", "the store is closed"))
    }
}

impl LayoutSource for StoreLayouts {
    fn current(&self, fid: Fid) -> Result<Arc<[u8]>> {
        Ok(self.store()?.namespace().get_layout(fid)?.into())
    }

    fn instantiate(&self, fid: Fid, extent: Extent) -> Result<Arc<[u8]>> {
        let store = self.store()?;
        // Asked for before the lock is taken: nothing waits for a target under it.
        let targets = store.target_space();
        let _change = store.change_layout(fid);
        let encoded = store.namespace().get_layout(fid)?;
        let mut layout = FileLayout::decode(&encoded).map_err(|e| e.on(fid))?;
        if !layout.instantiate(extent, &targets, &mut *store.allocator().lock())? {
            return Ok(encoded.into());
        }
        let encoded = layout.encode();
        store.namespace().set_layout(&OpCtx::at(clio_core::clock::now_ns()), fid, &encoded)?;
        Ok(encoded.into())
    }
}
