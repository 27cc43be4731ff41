//! Glimpses that met a conflict: the attributes are gathered from the holders of write locks, from the highest down.
//!
//! The highest lock alone isn't enough: its holder may not have written under it yet, while a lower one has.

use crate::Effect;
use crate::registry::{NEVER, Registry, Timer};
use crate::resource::{Request, Resource};
use clio_core::attr::Lvb;
use clio_core::target::DlmHandle;
use clio_core::units::{ClientId, Extent};
use smallvec::SmallVec;

/// A glimpse that waits for replies.
#[derive(Debug)]
pub(crate) struct Glimpse {
    id: u64,
    pub(crate) client: ClientId,
    pub(crate) request: u64,
    extent: Extent,
    /// What the replies so far told.
    best: Lvb,
    /// Locks granted later have this handle or a greater one, and aren't asked: so it ends.
    bound: DlmHandle,
    asked: SmallVec<[DlmHandle; 2]>,
    /// Those asked that haven't replied.
    pending: SmallVec<[DlmHandle; 2]>,
    /// When those asked last should have replied.
    deadline: u64,
    /// Time was up once: a holder that was asked is slow or dead.
    late: bool,
}

impl Glimpse {
    /// Stops its timer. To be called for each glimpse that goes.
    pub(crate) fn retire(&self, slot: usize, reg: &mut Registry) {
        reg.stop(Timer::Glimpse { slot, id: self.id }, self.deadline);
        reg.counts.glimpses -= 1;
    }
}

impl Resource {
    /// A glimpse met a conflict: asks whoever may know more than is stored.
    pub(crate) fn start_glimpse(&mut self, r: Request, reg: &mut Registry, out: &mut Vec<Effect>) {
        let id = reg.new_glimpse();
        reg.counts.glimpses += 1;
        self.glimpses.push(Glimpse {
            id,
            client: r.client,
            request: r.request,
            extent: r.extent,
            best: Lvb::default(),
            bound: reg.next_handle(),
            asked: SmallVec::new(),
            pending: SmallVec::new(),
            deadline: NEVER,
            late: false,
        });
        self.go_on(self.glimpses.len() - 1, reg, out);
    }

    /// A holder replied.
    pub(crate) fn glimpse_reply(
        &mut self,
        handle: DlmHandle,
        id: u64,
        lvb: Option<Lvb>,
        reg: &mut Registry,
        out: &mut Vec<Effect>,
    ) {
        let Some(i) = self.glimpses.iter().position(|g| g.id == id) else { return };
        let g = &mut self.glimpses[i];
        let Some(p) = g.pending.iter().position(|h| *h == handle) else { return };
        g.pending.remove(p);
        g.best = g.best.merge(lvb.unwrap_or_default());
        if g.pending.is_empty() {
            self.go_on(i, reg, out);
        }
    }

    /// The lock `gone` was cancelled or lost: what its holder knew is stored by now, or lost as well.
    pub(crate) fn glimpse_without(&mut self, gone: DlmHandle, reg: &mut Registry, out: &mut Vec<Effect>) {
        let mut i = 0;
        while i < self.glimpses.len() {
            let g = &mut self.glimpses[i];
            let before = (g.id, g.pending.len());
            g.pending.retain(|h| *h != gone);
            if before.1 > 0 && g.pending.is_empty() {
                self.go_on(i, reg, out);
            }
            // Answering takes it out of the list.
            if self.glimpses.get(i).is_some_and(|g| g.id == before.0) {
                i += 1;
            }
        }
    }

    /// Time is up: asks all the others that may know more, at once; the second time, answers with what is known.
    pub(crate) fn glimpse_timeout(&mut self, id: u64, reg: &mut Registry, out: &mut Vec<Effect>) {
        let Some(i) = self.glimpses.iter().position(|g| g.id == id) else { return };
        if self.glimpses[i].late {
            return self.answer(i, reg, out);
        }
        self.glimpses[i].late = true;
        self.go_on(i, reg, out);
    }

    /// All that were asked replied, or were waited for in vain: asks the next, or answers.
    fn go_on(&mut self, i: usize, reg: &mut Registry, out: &mut Vec<Effect>) {
        let g = &mut self.glimpses[i];
        let unasked = |l: &&crate::resource::Granted| {
            l.mode.can_write() && l.extent.overlaps(g.extent) && l.handle < g.bound && !g.asked.contains(&l.handle)
        };
        let highest = self.granted.iter().filter(unasked).map(|l| l.extent).max_by_key(|e| (e.end, e.start));
        // The first is asked in any case, for times and blocks; others only if the size may lie in their extent.
        let size = self.lvb.merge(g.best).size;
        let Some(highest) = highest.filter(|e| g.asked.is_empty() || e.end > size) else {
            return self.answer(i, reg, out);
        };
        // Several write locks overlap only within a group; all its members are asked at once.
        let next: SmallVec<[_; 2]> = self
            .granted
            .iter()
            .filter(unasked)
            .filter(|l| if g.late { l.extent.end > size } else { l.extent.overlaps(highest) })
            .map(|l| (l.client, l.handle))
            .collect();
        // Whoever is asked has the full time, however long others took before.
        let timer = Timer::Glimpse { slot: self.slot, id: g.id };
        reg.stop(timer, g.deadline);
        g.deadline = reg.start(timer, reg.config.glimpse_timeout_ms);
        for (client, handle) in next {
            g.asked.push(handle);
            g.pending.push(handle);
            out.push(Effect::GlimpseAst { client, handle, glimpse: g.id });
        }
    }

    fn answer(&mut self, i: usize, reg: &mut Registry, out: &mut Vec<Effect>) {
        let g = self.glimpses.remove(i);
        g.retire(self.slot, reg);
        let lvb = self.lvb.merge(g.best);
        out.push(Effect::GlimpseAnswer { client: g.client, request: g.request, lvb });
    }
}
