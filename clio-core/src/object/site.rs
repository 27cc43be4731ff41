//! The site: all objects of a client, by FID, with an LRU of those that nobody uses.

use super::table::Table;
use super::{Device, Object, ObjectBuilder, ObjectConf};
use crate::env::Env;
use crate::error::Result;
use crate::lockrank::{LockRank, RankedMutex};
use crate::page::FolioSlab;
use crate::sync::atomic::Ordering;
use crate::units::Fid;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// How much a site keeps.
#[derive(Clone, Copy, Debug)]
pub struct SiteLimits {
    /// Most top-objects kept in the cache while nobody uses them.
    pub idle_objects: usize,
}

impl Default for SiteLimits {
    fn default() -> Self {
        Self { idle_objects: 200_000 }
    }
}

/// All objects of a client.
///
/// Only top-objects are cached on their own: a sub-object lives as long as its top-object, which owns it.
#[derive(Debug)]
#[doc(alias = "lu_site")]
pub struct Site {
    objects: Table,
    /// Idle top-objects, least recently used first. An entry may be stale: the object was found again meanwhile.
    lru: RankedMutex<VecDeque<Weak<Object>>>,
    limits: SiteLimits,
    slab: Arc<FolioSlab>,
}

impl Site {
    /// An empty site whose folios live in `slab`.
    pub fn new(limits: SiteLimits, slab: Arc<FolioSlab>) -> Arc<Self> {
        Arc::new(Self {
            objects: Table::default(),
            lru: RankedMutex::new(LockRank::SiteLru, VecDeque::new()),
            limits,
            slab,
        })
    }

    /// Where the folios of this site's objects live.
    pub fn slab(&self) -> &Arc<FolioSlab> {
        &self.slab
    }

    /// Objects in the table, in use or idle.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.len() == 0
    }

    /// The object `fid` if it is cached and not dying.
    pub fn lookup(self: &Arc<Self>, fid: Fid) -> Option<ObjectRef> {
        let object = self.objects.get(fid)?;
        // Counted first, then looked at: whoever kills the object looks at the count afterwards.
        let found = ObjectRef::new(self, object);
        (!found.is_dying()).then_some(found)
    }

    /// The object `fid`: from the cache, or made from `conf` by the stack that starts at `device`.
    /// Never returns a dying object.
    ///
    /// # Errors
    /// What a layer's [`Device::object_init`] says.
    #[doc(alias = "cl_object_find")]
    pub fn find(self: &Arc<Self>, env: &Env, fid: Fid, device: &dyn Device, conf: &ObjectConf) -> Result<ObjectRef> {
        if let Some(found) = self.lookup(fid) {
            return Ok(found);
        }
        // Made outside the table: initialisation finds sub-objects in the same table. Of two makers one loses.
        let mut builder = ObjectBuilder::new(self, fid, conf.clone())?;
        if let Err(e) = device.object_init(env, &mut builder) {
            self.destroy_quietly(env, &builder.finish());
            return Err(e.on(fid));
        }
        let made = builder.finish();
        let found = match self.objects.enter(&made) {
            None => ObjectRef::new(self, made),
            Some(winner) => {
                let found = ObjectRef::new(self, winner);
                self.destroy_quietly(env, &made);
                found
            }
        };
        // Others saw it in the table, idle, before it was counted here: one may have evicted it.
        if found.is_dying() {
            drop(found);
            return self.find(env, fid, device, conf);
        }
        Ok(found)
    }

    /// All objects now in the table.
    pub fn objects(&self) -> Vec<Arc<Object>> {
        self.objects.all()
    }

    /// Drops every idle object: for memory pressure and shutdown. Their pages and locks go with them; blocks on
    /// write-out.
    ///
    /// # Errors
    /// The first write error.
    pub fn purge(self: &Arc<Self>, env: &Env) -> Result<()> {
        let mut first = Ok(());
        let idle: Vec<_> = self.lru.lock().drain(..).collect();
        for object in idle.iter().filter_map(Weak::upgrade) {
            if object.leave_lru() {
                first = first.and(self.kill_idle(env, &object));
            }
        }
        first
    }

    fn put(self: &Arc<Self>, object: &Arc<Object>) {
        if object.users.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        if object.is_dying() {
            self.destroy_quietly(&Env::get(crate::env::EnvTags::ANY), object);
            return;
        }
        // A sub-object isn't cached on its own: its top-object, which owns it, kills it in its `delete`.
        if object.is_sub() {
            return;
        }
        object.referenced.store(true, Ordering::Relaxed);
        if object.in_lru.swap(true, Ordering::SeqCst) {
            return;
        }
        self.lru.lock().push_back(Arc::downgrade(object));
        self.shrink();
    }

    /// Evicts idle objects beyond the limit: second chance, so that an object used since it was queued stays.
    fn shrink(self: &Arc<Self>) {
        loop {
            let victim = {
                let mut lru = self.lru.lock();
                if lru.len() <= self.limits.idle_objects {
                    return;
                }
                lru.pop_front()
            };
            let Some(victim) = victim.and_then(|v| v.upgrade()) else { continue };
            if victim.referenced.swap(false, Ordering::Relaxed) {
                self.lru.lock().push_back(Arc::downgrade(&victim));
                continue;
            }
            if victim.leave_lru() && !victim.is_dying() {
                self.evict(&victim);
            }
        }
    }

    /// Destroys an idle object that left the LRU.
    fn evict(&self, object: &Arc<Object>) {
        let env = Env::get(crate::env::EnvTags::ANY);
        if let Err(e) = self.kill_idle(&env, object) {
            tracing::warn!(target: "clio::object", fid = %object.fid(), error = %e, "write-out of an evicted object");
        }
    }

    /// Kills the object; destroys it at once if nobody came to use it meanwhile, else at the last put.
    fn kill_idle(&self, env: &Env, object: &Arc<Object>) -> Result<()> {
        object.kill();
        // Not a load: who counted a reference after this change of the count sees that the object is dying.
        match object.users.fetch_add(0, Ordering::SeqCst) {
            0 => self.destroy(env, object.clone()),
            _ => Ok(()),
        }
    }

    /// No file is open on an object that is destroyed, so that a write error met here has nobody left to be reported to
    /// but the log: earlier ones were latched for, and reported to, those who had it open.
    fn destroy_quietly(&self, env: &Env, object: &Arc<Object>) {
        if let Err(e) = self.destroy(env, object.clone()) {
            tracing::warn!(target: "clio::object", fid = %object.fid(), error = %e, "write-out of a destroyed object");
        }
    }

    /// Last phase of an object's life: what is still dirty is written out, the slices cut their internal pointers, the
    /// table forgets it. Returns the write error, if there was one.
    fn destroy(&self, env: &Env, object: Arc<Object>) -> Result<()> {
        object.kill();
        if object.destroyed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        // Not before it is dying: a user who came in between could have dirtied it again.
        let written = object.prune(env, false);
        self.objects.remove(&object);
        object.locks().discard_all(env);
        for slice in object.slices() {
            slice.delete(env, &object);
        }
        object.pages().clear(env);
        written
    }
}

impl Object {
    /// Notes that the LRU has no entry for it any more; returns whether it is idle. If it isn't, its last put enters it
    /// again.
    fn leave_lru(&self) -> bool {
        // Not a store: a put that found it entered, before this, has gone down in the count that is read next.
        self.in_lru.swap(false, Ordering::SeqCst);
        self.users.load(Ordering::SeqCst) == 0
    }
}

/// A counted reference to an object. Dropping the last one returns the object to the cache, or destroys it if it
/// is dying.
pub struct ObjectRef {
    site: Arc<Site>,
    object: Arc<Object>,
}

impl ObjectRef {
    fn new(site: &Arc<Site>, object: Arc<Object>) -> Self {
        object.users.fetch_add(1, Ordering::SeqCst);
        Self { site: site.clone(), object }
    }

    /// The object, by a plain pointer that does not keep it from being destroyed.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl Clone for ObjectRef {
    fn clone(&self) -> Self {
        Self::new(&self.site, self.object.clone())
    }
}

impl Drop for ObjectRef {
    fn drop(&mut self) {
        self.site.clone().put(&self.object);
    }
}

impl Deref for ObjectRef {
    type Target = Arc<Object>;
    fn deref(&self) -> &Arc<Object> {
        &self.object
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}
