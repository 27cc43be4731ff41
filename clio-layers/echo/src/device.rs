//! The device and the object slice.

use clio_core::Result;
use clio_core::env::Env;
use clio_core::io::{Io, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::object::{Device, Object, ObjectBuilder, ObjectSlice};
use clio_core::page::{PageBuilder, PageSlice};
use std::fmt;
use std::sync::Arc;

/// The top device.
#[doc(alias = "echo_device")]
pub struct EchoDevice {
    below: Arc<dyn Device>,
}

impl EchoDevice {
    /// Echo on top of `below`.
    pub fn new(below: Arc<dyn Device>) -> Self {
        Self { below }
    }
}

impl Device for EchoDevice {
    fn layer(&self) -> &'static str {
        "echo"
    }

    fn object_init(&self, env: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(EchoObject));
        self.below.object_init(env, builder)
    }
}

impl fmt::Debug for EchoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EchoDevice").field("below", &self.below.layer()).finish()
    }
}

/// Has nothing of its own: buffers come with each IO.
struct EchoObject;

impl ObjectSlice for EchoObject {
    fn layer(&self) -> &'static str {
        "echo"
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
