//! The LOV slice of a file: owns its sub-objects, and answers for them.

use crate::attr::Merge;
use crate::change::Change;
use crate::device::{LayoutSource, decode};
use crate::io::LovIo;
use crate::layout::{FileLayout, StripeRef};
use crate::lock::LovLock;
use crate::lovsub::LovSubDevice;
use crate::striped::Striped;
use clio_core::attr::Attr;
use clio_core::env::{Env, EnvTags};
use clio_core::io::{Io, IoSlice};
use clio_core::lock::{LockDescr, LockSlice};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::object::{Device, Glimpse, Object, ObjectConf, ObjectRef, ObjectSlice, Site, SubObjectConf};
use clio_core::page::{PageBuilder, PageSlice};
use clio_core::sync::RwLock;
use clio_core::units::{Fid, PageIndex};
use clio_core::{Errno, Error, Result};
use std::sync::{Arc, Weak};

/// How often a sub-object of an earlier life of the file is pushed aside before giving up.
const MAX_ATTEMPTS: usize = 16;

/// What the LOV slices of a file, its locks and its IOs share.
#[doc(alias = "lov_object")]
pub(crate) struct LovObject {
    fid: Fid,
    top: Weak<Object>,
    site: Weak<Site>,
    devices: Arc<[Arc<dyn Device>]>,
    source: Arc<dyn LayoutSource>,
    current: RwLock<Arc<Striped>>,
    change: Change,
    merge: Merge,
    owned: RankedMutex<Owned>,
}

/// The references that keep sub-objects alive: as long as the file.
struct Owned {
    subs: Vec<ObjectRef>,
    /// The file is gone, and takes no more.
    closed: bool,
}

impl LovObject {
    pub(crate) fn new(
        fid: Fid,
        top: Weak<Object>,
        site: Weak<Site>,
        devices: Arc<[Arc<dyn Device>]>,
        source: Arc<dyn LayoutSource>,
        layout: FileLayout,
    ) -> Self {
        Self {
            fid,
            top,
            site,
            devices,
            source,
            change: Change::new(layout.generation()),
            current: RwLock::new(Arc::new(Striped::new(layout))),
            merge: Merge::new(),
            owned: RankedMutex::new(LockRank::Leaf, Owned { subs: Vec::new(), closed: false }),
        }
    }

    pub(crate) fn fid(&self) -> Fid {
        self.fid
    }

    pub(crate) fn top(&self) -> Option<Arc<Object>> {
        self.top.upgrade()
    }

    pub(crate) fn source(&self) -> &dyn LayoutSource {
        self.source.as_ref()
    }

    pub(crate) fn change(&self) -> &Change {
        &self.change
    }

    /// How the file is striped now.
    pub(crate) fn snapshot(&self) -> Arc<Striped> {
        self.current.read().clone()
    }

    /// Makes `striped` current.
    pub(crate) fn publish(&self, striped: Striped) {
        *self.current.write() = Arc::new(striped);
    }

    /// Decodes a layout of this file.
    ///
    /// # Errors
    /// `EBADMSG`, `ENODEV`.
    pub(crate) fn decode(&self, encoded: &[u8]) -> Result<FileLayout> {
        decode(encoded, self.devices.len()).map_err(|e| e.on(self.fid))
    }

    /// The sub-object of a stripe: made at its first use.
    ///
    /// # Errors
    /// `ESTALE` if there is no such stripe, or the file is gone; what a lower layer says.
    pub(crate) fn sub(&self, env: &Env, striped: &Striped, at: StripeRef) -> Result<Arc<Object>> {
        match striped.sub(at) {
            Some(sub) => Ok(sub.clone()),
            None => self.make_sub(env, striped, at),
        }
    }

    #[cold]
    fn make_sub(&self, env: &Env, striped: &Striped, at: StripeRef) -> Result<Arc<Object>> {
        let gone = || Error::new(Errno::ESTALE, "stripe", "the file changed or is gone; open it again").on(self.fid);
        let layout = striped.layout();
        let slot = striped.slot(at).ok_or_else(gone)?;
        let target = layout.target(at).ok_or_else(gone)?;
        let below = self.devices.get(usize::from(target.0)).ok_or_else(gone)?.clone();
        let parent = SubObjectConf { top: self.top.clone(), component: at.component.0, stripe: at.stripe };
        let conf = ObjectConf { parent: Some(parent), folio_size: Some(layout.folio_size()), ..ObjectConf::default() };
        let found = self.find_own(env, at.fid(self.fid), &LovSubDevice { below }, &conf)?;
        let mut owned = self.owned.lock();
        if owned.closed {
            drop(owned);
            found.kill();
            return Err(gone());
        }
        let sub = slot.get_or_init(|| found.object().clone()).clone();
        owned.subs.push(found);
        Ok(sub)
    }

    /// The sub-object `fid` of this very top-object. One that belongs to an earlier life of the file, whose
    /// top-object is on its way out, is pushed aside.
    fn find_own(&self, env: &Env, fid: Fid, device: &LovSubDevice, conf: &ObjectConf) -> Result<ObjectRef> {
        let site = self.site.upgrade();
        let site = site.ok_or_else(|| Error::new(Errno::ESHUTDOWN, "stripe", "the client is closed").on(fid))?;
        for _ in 0..MAX_ATTEMPTS {
            let found = site.find(env, fid, device, conf)?;
            if found.parent().is_some_and(|p| p.top.ptr_eq(&self.top)) {
                return Ok(found);
            }
            found.kill();
        }
        Err(Error::new(Errno::ESTALE, "stripe", "the file is opened and evicted over and over; try again").on(fid))
    }

    /// Destroys the sub-objects. The caller has brought their data to safety, or means to lose it.
    pub(crate) fn drop_subs(&self, closed: bool) {
        let subs = {
            let mut owned = self.owned.lock();
            owned.closed |= closed;
            std::mem::take(&mut owned.subs)
        };
        for sub in subs {
            sub.kill();
        }
    }
}

/// LOV's slice of a file.
pub(crate) struct LovSlice(pub(crate) Arc<LovObject>);

impl ObjectSlice for LovSlice {
    fn layer(&self) -> &'static str {
        "lov"
    }

    fn page_init(&self, _: &Env, _: &mut PageBuilder<'_>) -> Result<Option<Box<dyn PageSlice>>> {
        Ok(None)
    }

    fn lock_init(&self, env: &Env, object: &Arc<Object>, descr: &LockDescr) -> Result<Option<Box<dyn LockSlice>>> {
        LovLock::drop_idle(env, object);
        Ok(Some(Box::new(LovLock::new(&self.0, descr))))
    }

    fn io_init(&self, env: &Env, _: &Arc<Object>, _: &mut Io) -> Result<Option<Box<dyn IoSlice>>> {
        Ok(Some(LovIo::take(env, &self.0)))
    }

    fn attr_get(&self, _: &Env, version: u64, attr: &mut Attr) -> Result<()> {
        if let Some(top) = self.0.top() {
            self.0.merge.get(&self.0.snapshot(), top.attrs(), version, attr);
        }
        Ok(())
    }

    fn glimpse(&self, env: &Env, _: &Arc<Object>) -> Result<Option<Box<dyn Glimpse>>> {
        // Another client may have written to a component that has no targets as far as is known here.
        if self.0.snapshot().has_missing() {
            self.0.refresh(env)?;
        }
        let answers = self.0.glimpse_stripes(env)?;
        Ok(Some(Box::new(answers)))
    }

    fn conf_set(&self, env: &Env, object: &Arc<Object>, conf: &ObjectConf) -> Result<()> {
        let Some(encoded) = &conf.layout else { return Ok(()) };
        let layout = self.0.decode(encoded)?;
        if self.0.snapshot().is_kept_by(&layout) {
            return self.0.adopt(env, layout);
        }
        // Other stripes under the same names: nothing of the old ones may stay.
        self.prune(env, object, false)?;
        self.0.drop_subs(false);
        object.set_folio_size(layout.folio_size());
        self.0.replace(layout);
        Ok(())
    }

    fn prune(&self, env: &Env, object: &Arc<Object>, discard: bool) -> Result<()> {
        let mut first = Ok(());
        for (_, sub) in self.0.snapshot().subs() {
            first = first.and(sub.prune(env, discard));
        }
        // Top-locks protect nothing of their own: those in use go at their last release.
        object.locks().cancel_all(env);
        first
    }

    fn delete(&self, env: &Env, object: &Arc<Object>) {
        object.locks().discard_all(env);
        self.0.drop_subs(true);
    }

    fn child_of(&self, index: PageIndex) -> Option<(Arc<Object>, PageIndex)> {
        let striped = self.0.snapshot();
        let place = striped.layout().sub_folio(index)?;
        let sub = match striped.sub(place.at) {
            Some(sub) => Ok(sub.clone()),
            None => self.0.sub(&Env::get(EnvTags::ANY), &striped, place.at),
        };
        // Whoever asks has a lock, and so the sub-object. If not: a page without a child is refused at its transfer.
        sub.inspect_err(|e| tracing::error!(target: "clio::page", fid = %self.0.fid, error = %e, "no sub-object"))
            .ok()
            .map(|sub| (sub, place.index))
    }
}
