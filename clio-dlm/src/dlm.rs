//! The state machine: events find their resource here.

use crate::contention::Contention;
use crate::hash::{IdSet, KeyedState};
use crate::registry::{Registry, Slot, Timer};
use crate::resource::{Request, Resource};
use crate::{Counts, DlmConfig, Effect, Event, LockInfo};
use clio_core::attr::Lvb;
use clio_core::error::Errno;
use clio_core::target::{DlmHandle, LockMode};
use clio_core::units::{ClientId, Extent, Fid};
use slab::Slab;
use std::collections::HashMap;

/// The lock manager of one storage target. See the crate's documentation for the rules.
#[derive(Debug)]
#[doc(alias = "ldlm_namespace")]
pub struct Dlm {
    pub(crate) clients: IdSet<ClientId>,
    pub(crate) resources: Slab<Resource>,
    by_fid: HashMap<Fid, Slot, KeyedState>,
    /// Conflicts of late on resources that nobody holds a lock on any more: those whose clients do without locks.
    fought_over: HashMap<Fid, Contention, KeyedState>,
    pub(crate) registry: Registry,
}

/// How many resources without locks are remembered as fought over.
const FOUGHT_OVER_MAX: usize = 4096;

impl Dlm {
    /// A lock manager without clients.
    pub fn new(config: DlmConfig) -> Self {
        Self {
            clients: IdSet::default(),
            resources: Slab::new(),
            by_fid: HashMap::default(),
            fought_over: HashMap::default(),
            registry: Registry::new(config),
        }
    }

    /// Takes one event at `now_ms` and appends what follows from it to `effects`, which isn't cleared.
    ///
    /// Timeouts are looked at by [`Event::Tick`] alone. A time before that of an earlier call counts as that one.
    pub fn step(&mut self, now_ms: u64, event: Event, effects: &mut Vec<Effect>) {
        self.registry.now_ms = self.registry.now_ms.max(now_ms);
        match event {
            Event::Connect { client } => {
                self.clients.insert(client);
            }
            Event::Enqueue { client, request, fid, extent, mode, flags, initial_lvb } => {
                let mode = if flags.glimpse { LockMode::Pr } else { mode };
                let request = Request { client, request, mode, extent, flags };
                self.enqueue(fid, request, initial_lvb, effects);
            }
            Event::Cancel { client, handle } => {
                self.on_lock(client, handle, |res, i, reg| res.cancel(i, reg, effects));
            }
            Event::Convert { client, handle, mode } => {
                self.on_lock(client, handle, |res, i, reg| res.convert(i, mode, reg, effects));
            }
            Event::Prolong { client, handle } => {
                self.on_lock(client, handle, |res, i, reg| res.prolong(i, reg));
            }
            Event::GlimpseReply { client, handle, glimpse, lvb } => {
                self.on_lock(client, handle, |res, _, reg| res.glimpse_reply(handle, glimpse, lvb, reg, effects));
            }
            Event::LvbUpdate { fid, lvb, truncate } => {
                if let Some(&slot) = self.by_fid.get(&fid) {
                    let known = &mut self.resources[slot].lvb;
                    *known = if truncate { lvb } else { known.merge(lvb) };
                }
            }
            Event::Disconnect { client } => self.disconnect(client, effects),
            Event::Tick => self.tick(effects),
        }
    }

    fn enqueue(&mut self, fid: Fid, mut r: Request, initial_lvb: Option<Lvb>, out: &mut Vec<Effect>) {
        if !self.clients.contains(&r.client) {
            return out.push(r.refused(Errno::ESTALE));
        }
        if r.extent.is_empty() {
            return out.push(r.refused(Errno::EINVAL));
        }
        r.extent = r.extent.align_to_blocks();
        let (resources, fought_over) = (&mut self.resources, &mut self.fought_over);
        let slot = *self.by_fid.entry(fid).or_insert_with(|| {
            let entry = resources.vacant_entry();
            let slot = entry.key();
            let contention = fought_over.remove(&fid).unwrap_or_default();
            entry.insert(Resource::new(fid, slot, initial_lvb.unwrap_or_default(), contention));
            slot
        });
        // An unknown resource has no conflicts, so the request is granted: no unused resource can be left behind.
        self.resources[slot].enqueue(r, &mut self.registry, out);
    }

    /// Calls `f` with the lock's resource and its place there, if `client` holds `handle`.
    fn on_lock(&mut self, client: ClientId, handle: DlmHandle, f: impl FnOnce(&mut Resource, usize, &mut Registry)) {
        let Some(&slot) = self.registry.locks.get(&handle) else { return };
        let res = &mut self.resources[slot];
        let Some(index) = res.find(handle).filter(|&i| res.granted[i].client == client) else { return };
        f(res, index, &mut self.registry);
        self.free_if_unused(slot);
    }

    /// Frees a resource that nothing keeps.
    pub(crate) fn free_if_unused(&mut self, slot: Slot) {
        if self.resources[slot].is_unused() {
            let mut res = self.resources.remove(slot);
            self.by_fid.remove(&res.fid);
            let Registry { now_ms, config, .. } = &self.registry;
            if res.contention.recent(*now_ms, config) > 0 {
                if self.fought_over.len() >= FOUGHT_OVER_MAX {
                    self.fought_over.retain(|_, c| c.recent(*now_ms, config) > 0);
                }
                if self.fought_over.len() < FOUGHT_OVER_MAX {
                    self.fought_over.insert(res.fid, res.contention);
                }
            }
        }
    }

    fn tick(&mut self, out: &mut Vec<Effect>) {
        while let Some(timer) = self.registry.take_due() {
            match timer {
                Timer::Blocking(handle) => {
                    if let Some(client) = self.holder(handle) {
                        self.evict(client, out);
                    }
                }
                Timer::Glimpse { slot, id } => {
                    self.resources[slot].glimpse_timeout(id, &mut self.registry, out);
                    self.free_if_unused(slot);
                }
            }
        }
    }

    fn holder(&self, handle: DlmHandle) -> Option<ClientId> {
        let res = &self.resources[*self.registry.locks.get(&handle)?];
        res.find(handle).map(|i| res.granted[i].client)
    }

    fn resource(&self, fid: Fid) -> Option<&Resource> {
        self.by_fid.get(&fid).map(|&slot| &self.resources[slot])
    }

    /// Whether the attributes of `fid` are known here. If not, the next enqueue has to bring them
    /// ([`Event::Enqueue::initial_lvb`]), read without a change of the object in between.
    pub fn lvb_known(&self, fid: Fid) -> bool {
        self.by_fid.contains_key(&fid)
    }

    /// The attributes of the stored object, for a resource that has a lock or request.
    pub fn lvb(&self, fid: Fid) -> Option<Lvb> {
        self.resource(fid).map(|r| r.lvb)
    }

    /// Whether `client` holds `handle` on `fid` in a mode that allows writing, and the lock covers all of `extent`
    /// (in bytes, no alignment needed).
    pub fn covers(&self, client: ClientId, handle: DlmHandle, fid: Fid, extent: Extent) -> bool {
        self.resource(fid).is_some_and(|res| {
            res.find(handle)
                .map(|i| &res.granted[i])
                .is_some_and(|g| g.client == client && g.mode.can_write() && g.extent.covers(extent))
        })
    }

    /// Locks of a resource: granted ones by handle, then those that wait, in their order.
    pub fn locks(&self, fid: Fid) -> impl Iterator<Item = LockInfo> + '_ {
        self.resource(fid).into_iter().flat_map(Resource::infos)
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        Counts {
            clients: self.clients.len(),
            resources: self.resources.len(),
            granted: self.registry.locks.len(),
            ..self.registry.counts
        }
    }

    /// When the next [`Event::Tick`] is due, on the clock of `now_ms`; `None` if nothing can time out.
    pub fn next_deadline(&self) -> Option<u64> {
        self.registry.next_deadline()
    }
}
