//! What a layer implements for objects.

use super::{Object, ObjectBuilder};
use crate::attr::{Attr, AttrMask};
use crate::env::Env;
use crate::error::Result;
use crate::io::{Io, IoSlice};
use crate::lock::{LockDescr, LockSlice};
use crate::page::{PageBuilder, PageSlice};
use crate::req::{ReqSlice, TransferReq};
use crate::units::{PageIndex, StripeIndex};
use std::any::Any;
use std::sync::{Arc, Weak};

/// A device of the stack: makes its slice of an object, then passes on to the device below.
#[doc(alias = "cl_device")]
pub trait Device: Send + Sync {
    /// Name of the layer, for messages and traces.
    fn layer(&self) -> &'static str;

    /// Adds this layer's slice to `builder`, then lets the device below do the same.
    ///
    /// # Errors
    /// Whatever keeps the object from being used: a layout that can't be understood, a missing target.
    fn object_init(&self, env: &Env, builder: &mut ObjectBuilder) -> Result<()>;
}

/// An answer about an object's size and times that is to come.
pub trait Glimpse {
    /// Waits for the answer and updates the object's attributes. Blocks.
    ///
    /// # Errors
    /// What the target says.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// What an object is made from. Layers take what is meant for them and ignore the rest.
#[derive(Clone, Debug, Default)]
#[doc(alias = "cl_object_conf")]
pub struct ObjectConf {
    /// Encoded layout of a file, for the layer that stripes.
    pub layout: Option<Arc<[u8]>>,
    /// Attributes known at the start (from the namespace).
    pub attr: Attr,
    /// For a sub-object: its top-object and its place in it.
    pub parent: Option<SubObjectConf>,
    /// Folio size in bytes, where the maker already knows it; else [`crate::units::MAX_FOLIO_SIZE`] or what a
    /// layer sets.
    pub folio_size: Option<u64>,
}

/// Place of a sub-object in its file.
#[derive(Clone, Debug)]
pub struct SubObjectConf {
    /// The top-object. Weak, since the top-object owns its sub-objects.
    pub top: Weak<Object>,
    /// Layout component.
    pub component: u16,
    /// Stripe in the component.
    pub stripe: StripeIndex,
}

/// A layer's part of an object.
///
/// Generic code calls each slice in the stated order; a slice never calls the slice below it.
#[doc(alias = "cl_object_operations")]
pub trait ObjectSlice: Send + Sync {
    /// Name of the layer.
    fn layer(&self) -> &'static str;

    /// The slice itself, for the code of its own layer to find again: see [`Object::slice_of`].
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Makes this layer's slice of a new page (top to bottom).
    ///
    /// # Errors
    /// `ENOMEM`, or what a lower object says.
    fn page_init(&self, env: &Env, page: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>>;

    /// Makes this layer's slice of a new lock (top to bottom).
    ///
    /// # Errors
    /// What a lower object says.
    fn lock_init(&self, env: &Env, object: &Arc<Object>, descr: &LockDescr) -> Result<Option<Box<dyn LockSlice>>>;

    /// Makes this layer's slice of an IO on the object (top to bottom).
    ///
    /// # Errors
    /// `EINVAL` and the like for parameters that this layer can't serve.
    fn io_init(&self, env: &Env, object: &Arc<Object>, io: &mut Io) -> Result<Option<Box<dyn IoSlice>>>;

    /// Makes this layer's slice of a transfer that contains pages of this object.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn req_init(&self, env: &Env, req: &TransferReq) -> Result<Option<Box<dyn ReqSlice>>> {
        let _ = (env, req);
        Ok(None)
    }

    /// Brings `attr` up to date with what this layer knows (top to bottom, attribute lock held; `version` is that
    /// of the [`AttrGroup`](super::AttrGroup)).
    ///
    /// # Errors
    /// What a lower object says.
    fn attr_get(&self, env: &Env, version: u64, attr: &mut Attr) -> Result<()> {
        let _ = (env, version, attr);
        Ok(())
    }

    /// Told that the attributes of `mask` were set (bottom to top, attribute lock held).
    ///
    /// # Errors
    /// What a lower object says.
    fn attr_update(&self, env: &Env, attr: &Attr, mask: AttrMask) -> Result<()> {
        let _ = (env, attr, mask);
        Ok(())
    }

    /// Starts to ask a target for size and times, without waiting for its answer, or has the objects below do so (top
    /// to bottom). Returns the answer to come; `None` if there is nothing to wait for.
    ///
    /// # Errors
    /// What keeps it from being asked.
    fn glimpse(&self, env: &Env, object: &Arc<Object>) -> Result<Option<Box<dyn Glimpse>>> {
        let _ = (env, object);
        Ok(None)
    }

    /// A new configuration (layout) for the object (top to bottom). Called with no IO on the object.
    ///
    /// # Errors
    /// A layout that can't be understood.
    fn conf_set(&self, env: &Env, object: &Arc<Object>, conf: &ObjectConf) -> Result<()> {
        let _ = (env, object, conf);
        Ok(())
    }

    /// Drops all cached pages and locks below (bottom to top), writing dirty data out first unless `discard`.
    /// Blocks.
    ///
    /// # Errors
    /// The first write error.
    fn prune(&self, env: &Env, object: &Arc<Object>, discard: bool) -> Result<()> {
        let _ = (env, object, discard);
        Ok(())
    }

    /// The object is dying: cut internal pointers (top to bottom). No reference is left but the caller's.
    fn delete(&self, env: &Env, object: &Arc<Object>) {
        let _ = (env, object);
    }

    /// For a layer that splits: the sub-object, and the index in it, of the folio `index`; `None` in other layers.
    fn child_of(&self, index: PageIndex) -> Option<(Arc<Object>, PageIndex)> {
        let _ = index;
        None
    }
}
