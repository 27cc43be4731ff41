//! What goes wrong in a run, and what comes of it.

use super::{CLIENTS, FID, Held, MORTAL, Message, Sim};
use clio_core::attr::Lvb;
use clio_core::target::{DlmHandle, EnqueueFlags};
use clio_core::units::ClientId;
use clio_dlm::{Dlm, Effect, Event};

/// What goes wrong, besides delays and the client that dies.
#[derive(Clone, Copy, Default)]
pub struct Troubles {
    /// Of a hundred callbacks so many are lost. Answers aren't: a connection that loses those has ended.
    pub lost_callbacks: u64,
    /// The lock manager is started anew each time that so many messages have been delivered, and knows nothing.
    pub restart_after: Option<u64>,
}

/// What a run has shown.
#[derive(Default)]
pub struct Shown {
    pub trace: Vec<String>,
    /// Clients evicted because a callback was lost.
    pub evicted_by_loss: usize,
    /// Locks asked for anew after a restart, and restarts with at least two that were held together.
    pub asked_anew: usize,
    pub restarts: usize,
}

impl Sim {
    /// All that the client had, wrote, or was about to hear of under these locks is void.
    pub(super) fn evicted(&mut self, client: ClientId, handles: &[DlmHandle]) {
        let is_dead = self.dead && client == MORTAL;
        assert!(is_dead || handles.iter().any(|h| self.unheard.contains(h)), "an honest client was evicted");
        self.shown.evicted_by_loss += usize::from(!is_dead);
        self.held.retain(|h, _| !handles.contains(h));
        self.leaving.retain(|h, _| !handles.contains(h));
        let asked = &mut self.asked;
        self.network.retain(|_, m| match m {
            Message::Down(Effect::Granted { request, handle, .. }) if handles.contains(handle) => {
                asked.remove(request);
                false
            }
            // The target refuses what comes under a lock that isn't there.
            Message::Up(events) => {
                !events.iter().any(|e| matches!(e, Event::Cancel { handle, .. } if handles.contains(handle)))
            }
            _ => true,
        });
        let unwritten = self.held.values().map(|h| h.dirty_size).chain(self.leaving.values().copied());
        self.acknowledged_size = unwritten.fold(self.stored_size, u64::max);
        asked.values_mut().for_each(|a| a.at_least = a.at_least.min(self.acknowledged_size));
    }

    /// The lock manager is started anew. Connections have ended, and what was on its way in them is lost; clients ask for
    /// what they hold, each in its own time, before anybody asks for more.
    pub(super) fn restart(&mut self) {
        self.dlm = Dlm::new(self.config);
        self.network.retain(|_, m| matches!(m, Message::Act(_)));
        // A client that has not heard that its data is stored sends it again.
        self.stored_size = self.leaving.values().copied().fold(self.stored_size, u64::max);
        self.leaving.clear();
        self.early.clear();
        self.unheard.clear();
        for client in (0..CLIENTS).map(ClientId) {
            self.serve(Event::Connect { client });
        }
        let (dead, is_gone) = (self.dead, |client| client == MORTAL);
        let mut held: Vec<_> = std::mem::take(&mut self.held).into_values().collect();
        held.retain(|h| !(dead && is_gone(h.client)));
        self.shown.restarts += usize::from(held.len() > 1);
        while !held.is_empty() {
            let next = self.rng.below(held.len() as u64) as usize;
            let lock = held.swap_remove(next);
            let handle = self.ask_anew(&lock);
            self.held.insert(handle, lock);
            self.shown.asked_anew += 1;
            if self.rng.below(6) == 0 {
                let client = self.held[&handle].client;
                self.send(Message::Release(client, handle));
            }
        }
        self.asked.retain(|_, a| !(dead && matches!(a.event, Event::Enqueue { client: MORTAL, .. })));
        let again: Vec<_> = self.asked.values().map(|a| a.event).collect();
        again.into_iter().for_each(|event| self.send(Message::Up(vec![event])));
    }

    /// A lock that was held is had again at once, as it was, whoever else has asked before.
    fn ask_anew(&mut self, lock: &Held) -> DlmHandle {
        let flags = EnqueueFlags { try_lock: true, exact: true, ..EnqueueFlags::default() };
        let lvb = Lvb { size: self.stored_size, ..Lvb::default() };
        let Held { client, mode, extent, .. } = *lock;
        let request = u64::MAX;
        let mut effects = Vec::new();
        let ask = Event::Enqueue { client, request, fid: FID, extent, mode, flags, initial_lvb: Some(lvb) };
        self.dlm.step(self.now, ask, &mut effects);
        match effects[..] {
            [Effect::Granted { handle, mode: has_mode, extent: has, blocking: false, .. }] => {
                assert_eq!((has_mode, has), (mode, extent));
                handle
            }
            _ => panic!("{lock:?} is not had again: {effects:?}; held: {:?}", self.held),
        }
    }

    /// Whether a callback gets lost.
    pub(super) fn loses(&mut self, effect: &Effect) -> bool {
        let lost = self.troubles.lost_callbacks;
        match effect {
            Effect::BlockingAst { handle, .. } if lost > 0 && self.rng.below(100) < lost => {
                self.unheard.insert(*handle)
            }
            Effect::GlimpseAst { .. } if lost > 0 && self.rng.below(100) < lost => {
                // Who asks now is answered, but may not hear of the latest.
                self.asked.values_mut().for_each(|a| a.at_least = 0);
                true
            }
            _ => false,
        }
    }
}
