//! The device: where the stack of a file ends, and those of its stripes begin.

use crate::layout::FileLayout;
use crate::object::{LovObject, LovSlice};
use clio_core::env::Env;
use clio_core::object::{Device, ObjectBuilder};
use clio_core::units::{Extent, Fid, TargetIndex};
use clio_core::{Errno, Error, Result};
use std::fmt;
use std::sync::Arc;

/// Where layouts of files are kept, and changed in agreement with other clients. Layouts are encoded as by
/// [`FileLayout::encode`]. Calls may block; none is made while a lock of this layer is held.
pub trait LayoutSource: Send + Sync {
    /// The layout of file `fid` as it is now.
    ///
    /// # Errors
    /// `ENOENT` if there is no such file, what the store says otherwise.
    fn current(&self, fid: Fid) -> Result<Arc<[u8]>>;

    /// Gives targets to the components of file `fid` that bytes `extent` touch and that have none, unless another
    /// client has done so. The layout as it is then.
    ///
    /// # Errors
    /// `ENOSPC` if no target is usable; as [`LayoutSource::current`] otherwise.
    fn instantiate(&self, fid: Fid, extent: Extent) -> Result<Arc<[u8]>>;
}

/// The LOV device of a client.
#[doc(alias = "lov_device")]
pub struct LovDevice {
    subs: Arc<[Arc<dyn Device>]>,
    source: Arc<dyn LayoutSource>,
}

impl LovDevice {
    /// A device that stripes over `subs`, the devices of the targets by [`TargetIndex`], and learns of layouts from
    /// `source`.
    pub fn new(subs: Vec<Arc<dyn Device>>, source: Arc<dyn LayoutSource>) -> Arc<LovDevice> {
        Arc::new(Self { subs: subs.into(), source })
    }

    /// Takes the layout from the object's configuration. Sub-objects are made when they are first used: an object
    /// that loses the race to be the one of its FID must not have made any.
    ///
    /// # Errors
    /// `EINVAL` without a layout, `EBADMSG` for a damaged one, `ENODEV` if it names a target that this client doesn't
    /// have.
    pub(crate) fn make(&self, builder: &ObjectBuilder) -> Result<Arc<LovObject>> {
        let encoded = builder.conf().layout.clone();
        let encoded = encoded.ok_or_else(|| Error::new(Errno::EINVAL, "open", "the file has no layout"))?;
        let layout = decode(&encoded, self.subs.len())?;
        builder.object().set_folio_size(layout.folio_size());
        let top = Arc::downgrade(builder.object());
        let site = Arc::downgrade(builder.site());
        let fid = builder.object().fid();
        let object = LovObject::new(fid, top, site, self.subs.clone(), self.source.clone(), layout);
        Ok(Arc::new(object))
    }
}

impl Device for LovDevice {
    fn layer(&self) -> &'static str {
        "lov"
    }

    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        let object = self.make(builder)?;
        builder.push(Box::new(LovSlice(object)));
        Ok(())
    }
}

/// Decodes a layout, and checks that there is a device for each of its targets.
pub(crate) fn decode(encoded: &[u8], targets: usize) -> Result<FileLayout> {
    let layout = FileLayout::decode(encoded)?;
    let missing = layout.stripes().map(|(_, t)| t).find(|TargetIndex(t)| usize::from(*t) >= targets);
    missing.map_or(Ok(layout), |TargetIndex(t)| {
        let why = format!("the file is on target {t}, which this client doesn't have; check the store's targets");
        Err(Error::new(Errno::ENODEV, "layout", why))
    })
}

impl fmt::Debug for LovDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LovDevice").field("targets", &self.subs.len()).finish_non_exhaustive()
    }
}
