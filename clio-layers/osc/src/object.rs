//! The object slice.

use crate::call::Call;
use crate::cancel::learn;
use crate::device::OscDevice;
use crate::io::OscIo;
use crate::lock::OscLock;
use crate::state::ObjectKey;
use crate::stats::bump;
use clio_core::env::Env;
use clio_core::error::{Errno, Error, Result};
use clio_core::io::{Io, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::object::{Glimpse, Object, ObjectSlice};
use clio_core::page::{PageBuilder, PageSlice};
use clio_core::target::{EnqueueFlags, LockMode, Op, Reply};
use clio_core::units::Extent;
use std::sync::Arc;

/// The OSC's part of an object.
pub(crate) struct OscObject {
    device: Arc<OscDevice>,
    key: ObjectKey,
}

impl OscObject {
    pub(crate) fn new(device: Arc<OscDevice>, key: ObjectKey) -> Self {
        Self { device, key }
    }
}

impl ObjectSlice for OscObject {
    fn layer(&self) -> &'static str {
        "osc"
    }

    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }

    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(Some(Box::new(OscLock::new(&self.device, self.key))))
    }

    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(Some(Box::new(OscIo::new(&self.device, self.key))))
    }

    fn glimpse(&self, _: &Env, object: &Arc<Object>) -> Result<Option<Box<dyn Glimpse>>> {
        // A granted lock that reaches from the size to the end says that the size is right.
        let beyond = Extent::new(object.attrs().size(), Extent::EOF);
        if object.locks().is_covered(beyond, LockMode::Pr) {
            return Ok(None);
        }
        bump(&self.device.counters.glimpses);
        let flags = EnqueueFlags { try_lock: true, glimpse: true, ..EnqueueFlags::default() };
        let op = Op::Enqueue { fid: object.fid(), extent: Extent::WHOLE, mode: LockMode::Pr, flags };
        let call = self.device.begin_call(op);
        Ok(Some(Box::new(OscGlimpse { device: self.device.clone(), object: object.clone(), call: Some(call) })))
    }

    fn prune(&self, env: &Env, object: &Arc<Object>, discard: bool) -> Result<()> {
        let cursor = object.errors().cursor();
        if discard {
            self.device.drop_dirty(env, self.key, Extent::WHOLE);
        } else {
            self.device.flush(env, self.key, Extent::WHOLE, false);
        }
        object.locks().cancel_all(env);
        object.errors().report(&cursor).map_or(Ok(()), Err)
    }

    fn delete(&self, env: &Env, object: &Arc<Object>) {
        self.device.drop_dirty(env, self.key, Extent::WHOLE);
        object.locks().cancel_all(env);
        self.device.wait_moving(self.key, Extent::WHOLE);
        self.device.books.remove_object(self.key);
    }
}

/// A glimpse that the target was asked for.
struct OscGlimpse {
    device: Arc<OscDevice>,
    object: Arc<Object>,
    call: Option<Call>,
}

impl OscGlimpse {
    fn settle(&mut self) -> Result<()> {
        let Some(call) = self.call.take() else { return Ok(()) };
        match self.device.wait_call(&call)? {
            Reply::Granted { handle, lvb, grant, .. } => {
                self.device.receive_grant(grant);
                if let Some(handle) = handle {
                    // Nobody was in the way. The lock was only asked for to find out.
                    self.device.send_cancel(handle, 1);
                }
                learn(&self.object, &lvb, 0);
                Ok(())
            }
            reply => {
                let text = format!("the target answers a glimpse with {reply:?}");
                Err(Error::new(Errno::EPROTO, "glimpse", text).on(self.object.fid()))
            }
        }
    }
}

impl Glimpse for OscGlimpse {
    fn finish(mut self: Box<Self>) -> Result<()> {
        self.settle()
    }
}

impl Drop for OscGlimpse {
    /// Whoever asked gave up, but the answer may name a lock, which has to be given back.
    fn drop(&mut self) {
        let _ = self.settle();
    }
}
