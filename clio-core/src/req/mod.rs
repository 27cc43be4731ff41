//! Transfer requests: one RPC's worth of pages, with a slice for each layer that wants one.

mod state;

pub use state::{IllegalReqTransition, ReqState};

use crate::attr::Attr;
use crate::env::Env;
use crate::error::Result;
use crate::object::Object;
use crate::page::{PageList, Rw};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A layer's part of a transfer.
#[doc(alias = "cl_req_operations")]
pub trait ReqSlice: Send + Sync {
    /// Name of the layer.
    fn layer(&self) -> &'static str;

    /// Fill in attributes that the target wants with the transfer (top to bottom, before flight).
    fn attr_set(&self, attr: &mut Attr) {
        let _ = attr;
    }

    /// The transfer is about to enter flight (top to bottom).
    ///
    /// # Errors
    /// The transfer is completed with this error.
    fn prep(&self) -> Result<()> {
        Ok(())
    }

    /// The transfer has completed (bottom to top), before its pages' completion methods are called.
    fn completion(&self, result: &Result<()>) {
        let _ = result;
    }
}

/// A transfer request. Owned by the transfer engine alone: neither counted nor locked.
#[doc(alias = "cl_req")]
pub struct TransferReq {
    rw: Rw,
    object: Arc<Object>,
    pages: PageList,
    state: ReqState,
    slices: SmallVec<[Box<dyn ReqSlice>; 1]>,
}

impl TransferReq {
    /// A request for `pages` of the sub-object `object`, with slices of the object's layers and of the layers of
    /// its top-object.
    ///
    /// # Errors
    /// What a layer says.
    pub fn new(env: &Env, rw: Rw, object: &Arc<Object>, pages: PageList) -> Result<Self> {
        let mut req = Self { rw, object: object.clone(), pages, state: ReqState::Created, slices: SmallVec::new() };
        let top = object.parent().and_then(|p| p.top.upgrade());
        let all = top.iter().flat_map(|t| t.slices()).chain(object.slices());
        let mut slices = SmallVec::new();
        for slice in all {
            slices.extend(slice.req_init(env, &req)?);
        }
        req.slices = slices;
        Ok(req)
    }

    /// Direction.
    pub fn rw(&self) -> Rw {
        self.rw
    }

    /// The sub-object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The pages and which of their blocks.
    pub fn pages(&self) -> &PageList {
        &self.pages
    }

    /// Current state.
    pub fn state(&self) -> ReqState {
        self.state
    }

    /// Has the layers fill in attributes and prepare: Created → Prepared.
    ///
    /// # Errors
    /// What a layer says; the request is to be completed with it.
    pub fn prepare(&mut self) -> Result<Attr> {
        let mut attr = self.object.attrs().load();
        self.slices.iter().for_each(|s| s.attr_set(&mut attr));
        self.step(ReqState::Prepared)?;
        self.slices.iter().try_for_each(|s| s.prep())?;
        Ok(attr)
    }

    /// Prepared → InFlight.
    pub fn launch(&mut self) {
        // Out of order it is logged; the transfer itself doesn't depend on it.
        let _ = self.step(ReqState::InFlight);
    }

    /// Completes: calls the request slices bottom to top, then every page's completion (which goes bottom to top
    /// too, and on to the parents).
    pub fn complete(mut self, env: &Env, result: &Result<()>) {
        // From every state but Completed, and a completed one is gone.
        let _ = self.step(ReqState::Completed);
        self.slices.iter().rev().for_each(|s| s.completion(result));
        for span in self.pages.drain() {
            span.page.completion(env, self.rw, span.blocks, result);
        }
    }

    fn step(&mut self, to: ReqState) -> Result<(), IllegalReqTransition> {
        if let Err(e) = self.state.transition(to) {
            tracing::error!(target: "clio::req", error = %e, fid = %self.object.fid(), "refused");
            debug_assert!(false, "{e}");
            return Err(e);
        }
        tracing::trace!(target: "clio::req", prev = ?self.state, next = ?to, fid = %self.object.fid());
        self.state = to;
        Ok(())
    }
}

impl fmt::Debug for TransferReq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferReq")
            .field("rw", &self.rw)
            .field("fid", &self.object.fid())
            .field("state", &self.state)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}
