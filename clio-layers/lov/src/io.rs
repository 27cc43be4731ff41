//! The LOV slice of an IO: drives the sub-IOs through the steps that it is driven through.

use crate::layout::{SeekAsk, SeekTarget, StripeRef};
use crate::object::LovObject;
use crate::scope::{self, Share};
use crate::striped::Striped;
use crate::sub_io::SubIo;
use clio_core::env::{ContextKey, Env, EnvTags};
use clio_core::io::{IoCommon, IoCx, IoKind, IoSlice};
use clio_core::lock::LockUser;
use clio_core::object::Glimpse;
use clio_core::page::{PageList, PageQueues, Rw, SyncIo};
use clio_core::target::Bulk;
use clio_core::units::Extent;
use clio_core::{Errno, Error, Result};
use std::sync::Arc;

/// LOV's slice of an IO.
///
/// Sub-IOs are made when their stripe is first met: at the start of an iteration, or by pages of read-ahead. They stay
/// until the IO ends, and take part in the iterations that meet their stripe.
#[doc(alias = "lov_io")]
#[derive(Default)]
pub(crate) struct LovIo {
    file: Option<File>,
    /// In order of their stripes.
    subs: Vec<SubIo>,
    /// Sub-locks that read-ahead relies on, beyond those of the IO.
    pub(crate) ahead: Vec<LockUser>,
    /// This iteration takes its component for a hole.
    in_hole: bool,
}

struct File {
    lov: Arc<LovObject>,
    /// As it was when the iteration began.
    striped: Arc<Striped>,
}

/// Slices at rest, with room for their sub-IOs.
static KEY: ContextKey<LovIo> = ContextKey::new(EnvTags::ANY, LovIo::default);

impl LovIo {
    /// A slice for an IO on the file of `lov`.
    pub(crate) fn take(env: &Env, lov: &Arc<LovObject>) -> Box<Self> {
        let mut slice = env.take(&KEY);
        slice.file = Some(File { lov: lov.clone(), striped: lov.snapshot() });
        slice
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("set from init to fini")
    }

    pub(crate) fn lov(&self) -> &Arc<LovObject> {
        &self.file().lov
    }

    /// The file's layout and stripes, as they were when the iteration began.
    pub(crate) fn striped(&self) -> &Arc<Striped> {
        &self.file().striped
    }

    /// Whether the iteration takes its component for a hole.
    pub(crate) fn is_in_hole(&self) -> bool {
        self.in_hole
    }

    /// Makes the current snapshot that of the iteration.
    ///
    /// # Errors
    /// `ESTALE`, and the IO starts anew, if a sub-IO is on a stripe that the file doesn't have any more.
    fn renew(&mut self, io: &mut IoCommon) -> Result<()> {
        let striped = self.lov().snapshot();
        let is_kept = |s: &mut SubIo| striped.sub(s.at).is_some_and(|object| Arc::ptr_eq(object, &s.common().object));
        if !self.subs.iter_mut().all(is_kept) {
            io.need_restart = true;
            return Err(Error::new(Errno::ESTALE, "io", "the file was striped anew; start again"));
        }
        if let Some(file) = &mut self.file {
            file.striped = striped;
        }
        Ok(())
    }

    /// The sub-IO for a share of `io`, which takes part in the iteration from now on.
    ///
    /// # Errors
    /// What a lower layer says about a new sub-IO, or the iteration.
    pub(crate) fn sub_io(&mut self, env: &Env, io: &IoCommon, share: Share, moves: bool) -> Result<&mut SubIo> {
        let found = self.subs.binary_search_by_key(&share.at, |s| s.at);
        let place = match found {
            Ok(place) => place,
            Err(place) => {
                let striped = self.striped().clone();
                let object = self.lov().sub(env, &striped, share.at)?;
                let shares_env = striped.has_one_stripe();
                let sub = SubIo::new(env, io, share.at, &object, share.kind, share.extent, shares_env)?;
                self.subs.insert(place, sub);
                place
            }
        };
        let sub = &mut self.subs[place];
        // A mere context has no states.
        if io.kind != IoKind::Misc && !sub.is_active() {
            sub.begin(env, share.extent, moves)?;
        }
        Ok(sub)
    }

    /// Sub-IOs of the current iteration.
    fn active(&mut self) -> impl DoubleEndedIterator<Item = &mut SubIo> {
        self.subs.iter_mut().filter(|s| s.is_active())
    }

    /// What the stripes found together.
    fn merge_seek(&mut self, env: &Env, io: &mut IoCommon, hole: bool) -> Result<()> {
        let size = io.object.attr_get(env)?.size;
        let striped = self.striped().clone();
        let ask = |at: StripeRef, object_offset| {
            striped.layout().target(at).map(|target| SeekAsk { at, target, object_offset })
        };
        let answers: Vec<_> = self
            .active()
            .filter_map(|s| {
                let at = s.at;
                let common = s.common();
                Some((ask(at, common.iteration.start)?, common.found))
            })
            .collect();
        let what = if hole { SeekTarget::Hole } else { SeekTarget::Data };
        io.found = striped.layout().seek_merge(what, io.pos, size, answers);
        Ok(())
    }
}

/// Whether an error of a stripe means that it has nothing to tell: `ENXIO` beyond its object's end.
fn is_no_answer(io: &IoCommon, e: &Error) -> bool {
    matches!(io.kind, IoKind::Seek { .. }) && e.errno() == Errno::ENXIO
}

impl IoSlice for LovIo {
    fn layer(&self) -> &'static str {
        "lov"
    }

    fn iter_init(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        cx.io.hole = false;
        let lov = self.lov().clone();
        self.in_hole = scope::prepare(&lov, cx.env, cx.io)?;
        cx.io.hole = self.in_hole;
        if self.in_hole && cx.io.iteration.end > cx.io.object.attrs().kms() {
            Box::new(lov.glimpse_stripes(cx.env)?).finish()?;
        }
        self.renew(cx.io)?;
        let shares = scope::shares(self.striped().layout(), cx.io)?;
        let moves = shares.len() == 1;
        for share in shares {
            self.sub_io(cx.env, cx.io, share, moves)?;
        }
        Ok(())
    }

    fn lock(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        for sub in self.active() {
            sub.lock(cx.env)?;
        }
        Ok(())
    }

    fn start(&mut self, cx: &mut IoCx<'_>) -> Result<()> {
        for sub in self.active() {
            match sub.start(cx.env) {
                Err(e) if is_no_answer(cx.io, &e) => {}
                started => started?,
            }
        }
        Ok(())
    }

    fn end(&mut self, cx: &mut IoCx<'_>) {
        for sub in self.active().rev() {
            sub.end(cx.env);
            let common = sub.common();
            cx.io.need_restart |= common.need_restart;
            if let Some(e) = common.take_error().filter(|e| !is_no_answer(cx.io, e)) {
                cx.io.fail(e);
            }
        }
        if let IoKind::Seek { hole } = cx.io.kind
            && let Err(e) = self.merge_seek(cx.env, cx.io, hole)
        {
            cx.io.fail(e);
        }
    }

    fn unlock(&mut self, cx: &mut IoCx<'_>) {
        for user in self.ahead.drain(..).rev() {
            user.release(cx.env);
        }
        self.active().rev().for_each(|sub| sub.unlock(cx.env));
    }

    fn iter_fini(&mut self, cx: &mut IoCx<'_>) {
        self.active().rev().for_each(|sub| sub.iter_fini(cx.env));
        if std::mem::take(&mut self.in_hole) {
            let (lov, layout) = (self.lov(), self.striped().layout());
            let component = layout.component_at(cx.io.iteration.start).and_then(|i| layout.component(i));
            component.into_iter().for_each(|c| lov.drop_childless(cx.env, c.extent()));
            lov.change().leave_hole();
        }
    }

    fn advance(&mut self, cx: &mut IoCx<'_>, bytes: u64) {
        self.active().rev().for_each(|sub| sub.advance(cx.env, bytes));
    }

    fn fini(mut self: Box<Self>, env: &Env, _: &mut IoCommon) {
        // A mere context may have used read-ahead.
        self.ahead.drain(..).for_each(|user| user.release(env));
        for sub in self.subs.drain(..).rev() {
            sub.fini(env);
        }
        self.file = None;
        env.give(&KEY, self);
    }

    fn submit(&mut self, cx: &mut IoCx<'_>, rw: Rw, queues: &mut PageQueues) -> Result<()> {
        self.submit_pages(cx, rw, queues)
    }

    fn commit(&mut self, cx: &mut IoCx<'_>, pages: &mut PageList) -> Result<()> {
        self.commit_pages(cx, pages)
    }

    fn direct(&mut self, cx: &mut IoCx<'_>, rw: Rw, bulk: &Bulk, sync: &Arc<SyncIo>) -> Result<()> {
        self.direct_bulk(cx, rw, bulk, sync)
    }

    fn read_ahead(&mut self, _: &mut IoCx<'_>, offset: u64) -> Result<Extent> {
        Ok(self.covered(offset))
    }
}
