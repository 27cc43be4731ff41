//! Layers for the tests of locks: one that stands for a target, and one that stripes.

use super::*;
use crate::env::{Env, EnvTags};
use crate::error::{Errno, Error, Result};
use crate::io::{Io, IoSlice};
use crate::memory::{MemRef, PageMemory};
use crate::object::{Device, Object, ObjectBuilder, ObjectConf, ObjectRef, ObjectSlice, Site, SubObjectConf};
use crate::page::{FolioSlab, PageBuilder, PageSlice};
use crate::sync::{Condvar, Mutex, OnceLock};
use crate::target::LockMode;
use crate::units::{Extent, Fid, StripeIndex};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

pub(super) fn env() -> Env {
    Env::get(EnvTags::ANY)
}

pub(super) fn need(start: u64, end: u64, mode: LockMode) -> LockDescr {
    LockDescr { extent: Extent::new(start, end), mode, flags: Default::default(), demand: Default::default() }
}

#[derive(Debug)]
struct NoMemory;

impl PageMemory for NoMemory {
    fn alloc(&self, _: usize) -> Option<MemRef> {
        None
    }
    fn free(&self, _: MemRef) {}
    fn used(&self) -> usize {
        0
    }
}

pub(super) fn site() -> Arc<Site> {
    Site::new(Default::default(), FolioSlab::new(Arc::new(NoMemory)))
}

/// A request that the bottom layer has sent.
pub(super) struct Sent {
    lock: Weak<ExtentLock>,
    answer: Answer,
}

type Answer = Arc<Mutex<Option<Result<Option<Extent>>>>>;

impl Sent {
    /// As a completion does: stores the answer, then signals.
    pub(super) fn answer(self, answer: Result<Option<Extent>>) {
        *self.answer.lock() = Some(answer);
        if let Some(lock) = self.lock.upgrade() {
            lock.signal();
        }
    }
}

#[derive(Default)]
struct Wire {
    sent: Vec<Sent>,
    closed: bool,
}

/// How the bottom layer behaves, and what it was called for.
#[derive(Default)]
pub(super) struct Script {
    /// Answers don't come by themselves.
    pub(super) manual: AtomicBool,
    /// Locks need no call for use and unuse.
    pub(super) passive: AtomicBool,
    /// `use_cached` fails once.
    pub(super) fail_use: AtomicBool,
    /// Unused locks are to be cancelled.
    pub(super) self_cancel: AtomicBool,
    pub(super) enqueued: AtomicUsize,
    pub(super) cancelled: AtomicUsize,
    pub(super) deleted: AtomicUsize,
    pub(super) used: AtomicUsize,
    wire: Mutex<Wire>,
    more: Condvar,
}

impl Script {
    pub(super) fn passive() -> Arc<Self> {
        Arc::new(Self { passive: AtomicBool::new(true), ..Self::default() })
    }

    pub(super) fn manual() -> Arc<Self> {
        Arc::new(Self { manual: AtomicBool::new(true), ..Self::default() })
    }

    /// The next request sent; waits for one. `None` once closed.
    pub(super) fn next(&self) -> Option<Sent> {
        let mut wire = self.wire.lock();
        loop {
            match wire.sent.pop() {
                Some(sent) => return Some(sent),
                None if wire.closed => return None,
                None => wire = self.more.wait(wire),
            }
        }
    }

    pub(super) fn close(&self) {
        self.wire.lock().closed = true;
        self.more.notify_all();
    }

    fn count(&self, counter: impl Fn(&Self) -> &AtomicUsize) {
        counter(self).fetch_add(1, Ordering::SeqCst);
    }
}

/// A device with one target.
pub(super) struct Bottom(pub(super) Arc<Script>);

struct BottomObject(Arc<Script>);

struct BottomLock {
    script: Arc<Script>,
    answer: Answer,
    sent: AtomicBool,
    cancels: AtomicUsize,
}

impl Device for Bottom {
    fn layer(&self) -> &'static str {
        "bottom"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(BottomObject(self.0.clone())));
        Ok(())
    }
}

impl ObjectSlice for BottomObject {
    fn layer(&self) -> &'static str {
        "bottom"
    }
    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }
    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        Ok(Some(Box::new(BottomLock {
            script: self.0.clone(),
            answer: Arc::default(),
            sent: AtomicBool::new(false),
            cancels: AtomicUsize::new(0),
        })))
    }
    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(None)
    }
}

impl LockSlice for BottomLock {
    fn layer(&self) -> &'static str {
        "bottom"
    }

    fn enqueue(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        assert_eq!(self.cancels.load(Ordering::SeqCst), 0, "enqueued after its cancellation");
        if !self.sent.swap(true, Ordering::SeqCst) {
            self.script.count(|s| &s.enqueued);
            let sent = Sent { lock: Arc::downgrade(cx.lock), answer: self.answer.clone() };
            if self.script.manual.load(Ordering::SeqCst) {
                self.script.wire.lock().sent.push(sent);
                self.script.more.notify_all();
            } else {
                sent.answer(Ok(None));
            }
        }
        Ok(Step::Done)
    }

    fn wait(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        match &*self.answer.lock() {
            None => Ok(Step::Wait),
            Some(Err(e)) => Err(e.clone()),
            Some(Ok(granted)) => {
                cx.descr.extent = granted.unwrap_or(cx.descr.extent);
                Ok(Step::Done)
            }
        }
    }

    fn use_cached(&self, _: &mut LockCx<'_>) -> Result<Step> {
        self.script.count(|s| &s.used);
        match self.script.fail_use.swap(false, Ordering::SeqCst) {
            true => Err(Error::new(Errno::ESTALE, "use", "told to fail")),
            false => Ok(Step::Done),
        }
    }

    fn unuse(&self, _: &mut LockCx<'_>) -> Unused {
        let granted = matches!(*self.answer.lock(), Some(Ok(_)));
        if granted && !self.script.self_cancel.load(Ordering::SeqCst) { Unused::Keep } else { Unused::Cancel }
    }

    fn is_passive(&self) -> bool {
        self.script.passive.load(Ordering::SeqCst)
    }

    fn cancel(&self, _: &Env, object: &Arc<Object>, lock: &Arc<ExtentLock>, _: &LockDescr) {
        assert_eq!(lock.state(), LockState::Freeing);
        assert_eq!(lock.counts(), (0, 0), "cancelled while held");
        assert!(object.locks().all().iter().all(|l| l.id() != lock.id()), "cancelled while it can be found");
        assert_eq!(self.cancels.fetch_add(1, Ordering::SeqCst), 0, "cancelled twice");
        self.script.count(|s| &s.cancelled);
    }

    fn delete(&self, _: &Env, _: &Arc<ExtentLock>) {
        self.script.count(|s| &s.deleted);
    }
}

/// A device that stripes over sub-objects.
pub(super) struct Striped {
    subs: Arc<OnceLock<Vec<Arc<Object>>>>,
    passive: bool,
    parallel: bool,
}

struct StripedLock {
    subs: Arc<OnceLock<Vec<Arc<Object>>>>,
    passive: bool,
    parallel: bool,
    /// One for each sub-object.
    parts: Mutex<Vec<Part>>,
}

/// A sub-lock, and the use of it.
type Part = (Option<Arc<ExtentLock>>, Option<LockUser>);

impl Device for Striped {
    fn layer(&self) -> &'static str {
        "striped"
    }
    fn object_init(&self, _: &Env, builder: &mut ObjectBuilder) -> Result<()> {
        builder.push(Box::new(Striped { subs: self.subs.clone(), ..*self }));
        Ok(())
    }
}

impl ObjectSlice for Striped {
    fn layer(&self) -> &'static str {
        "striped"
    }
    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }
    fn lock_init(&self, _: &Env, _: &Arc<Object>, _: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        let parts = self.subs.get().map_or(0, Vec::len);
        Ok(Some(Box::new(StripedLock {
            subs: self.subs.clone(),
            passive: self.passive,
            parallel: self.parallel,
            parts: Mutex::new((0..parts).map(|_| (None, None)).collect()),
        })))
    }
    fn io_init(&self, _: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(None)
    }
}

impl StripedLock {
    /// Calls `step` for the user of each sub-lock, made if there is none.
    fn each(
        &self,
        cx: &mut LockCx<'_>,
        at_once: bool,
        step: impl Fn(&mut LockUser, &mut LockCx<'_>) -> Result<Step>,
    ) -> Result<Step> {
        let mut sum = Step::Done;
        for (object, (sub, user)) in self.subs.get().into_iter().flatten().zip(self.parts.lock().iter_mut()) {
            if user.as_ref().is_some_and(|u| u.lock().is_gone()) {
                *user = None;
            }
            let user = match user {
                Some(user) => user,
                None => {
                    let Some(found) = find_user_try(cx, object, &cx.descr.clone())? else { return Ok(Step::Repeat) };
                    found.lock().add_parent(cx.lock);
                    let old = sub.replace(found.lock().clone());
                    if let Some(old) = old.filter(|old| !Arc::ptr_eq(old, found.lock())) {
                        old.remove_parent(cx.lock);
                    }
                    user.insert(found)
                }
            };
            match step(user, cx)? {
                Step::Done => {}
                Step::Wait if at_once => sum = Step::Wait,
                step => return Ok(step),
            }
        }
        Ok(sum)
    }
}

impl LockSlice for StripedLock {
    fn layer(&self) -> &'static str {
        "striped"
    }

    fn enqueue(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        match self.parallel {
            true => self.each(cx, true, |user, cx| user.enqueue_try(cx)),
            false => self.each(cx, false, |user, cx| user.hold_try(cx)),
        }
    }

    fn wait(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        self.each(cx, true, |user, cx| user.hold_try(cx))
    }

    fn use_cached(&self, cx: &mut LockCx<'_>) -> Result<Step> {
        for (sub, user) in self.parts.lock().iter_mut() {
            if let (Some(sub), None) = (&sub, &user) {
                match sub.user_try(cx)? {
                    Some(found) => *user = Some(found),
                    None => return Ok(Step::Repeat),
                }
            }
            if let Some(user) = user {
                match user.hold_try(cx)? {
                    Step::Done => {}
                    step => return Ok(step),
                }
            }
        }
        Ok(Step::Done)
    }

    fn unuse(&self, cx: &mut LockCx<'_>) -> Unused {
        for (_, user) in self.parts.lock().iter_mut() {
            if let Some(user) = user.take() {
                cx.release_later(user);
            }
        }
        Unused::Keep
    }

    fn is_passive(&self) -> bool {
        self.passive && self.parts.lock().iter().all(|(_, user)| user.is_none())
    }

    fn delete(&self, _: &Env, lock: &Arc<ExtentLock>) {
        let parts = std::mem::take(&mut *self.parts.lock());
        for sub in parts.iter().filter_map(|(sub, _)| sub.as_ref()) {
            sub.remove_parent(lock);
        }
    }
}

/// An object on one target.
pub(super) fn bottom_object(site: &Arc<Site>, oid: u32, script: &Arc<Script>) -> ObjectRef {
    site.find(&env(), Fid::new(1, oid), &Bottom(script.clone()), &ObjectConf::default()).expect("find")
}

/// A file over the targets of `scripts`, and its stripes.
pub(super) fn striped_object(
    site: &Arc<Site>,
    scripts: &[Arc<Script>],
    passive: bool,
    parallel: bool,
) -> (ObjectRef, Vec<ObjectRef>) {
    let device = Striped { subs: Arc::default(), passive, parallel };
    let fid = Fid::new(2, 1);
    let top = site.find(&env(), fid, &device, &ObjectConf::default()).expect("find");
    let sub = |(n, script): (usize, &Arc<Script>)| {
        let stripe = StripeIndex(n as u16);
        let parent = Some(SubObjectConf { top: Arc::downgrade(&top), component: 0, stripe });
        let conf = ObjectConf { parent, ..Default::default() };
        site.find(&env(), fid.sub_object(0, n as u16), &Bottom(script.clone()), &conf).expect("find")
    };
    let subs: Vec<_> = scripts.iter().enumerate().map(sub).collect();
    let _ = device.subs.set(subs.iter().map(|s| s.object().clone()).collect());
    (top, subs)
}
