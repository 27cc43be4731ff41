//! LOVSUB: the topmost layer of a sub-object, which knows the file that it is a stripe of.
//!
//! It has no slice of pages, locks and IOs: the way from a sub-page to its top-page, and from a sub-lock to its
//! top-locks (signals, and CACHED → NEW at its cancellation), is part of their headers, and an idle slice would cost
//! every lock its fast path's walk.

use clio_core::env::Env;
use clio_core::io::{Io, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::object::{Device, Object, ObjectBuilder, ObjectSlice};
use clio_core::page::{PageBuilder, PageSlice};
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// The LOVSUB device on top of one target's device.
#[doc(alias = "lovsub_device")]
pub(crate) struct LovSubDevice {
    /// The device of the target.
    pub(crate) below: Arc<dyn Device>,
}

/// LOVSUB's slice of a stripe.
#[doc(alias = "lovsub_object")]
struct LovSubObject;

impl Device for LovSubDevice {
    fn layer(&self) -> &'static str {
        "lovsub"
    }

    fn object_init(&self, env: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        if builder.conf().parent.is_none() {
            return Err(Error::new(Errno::EINVAL, "open", "a stripe has no file that it belongs to"));
        }
        builder.push(Box::new(LovSubObject));
        self.below.object_init(env, builder)
    }
}

impl ObjectSlice for LovSubObject {
    fn layer(&self) -> &'static str {
        "lovsub"
    }

    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }

    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(None)
    }

    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(None)
    }
}
