//! How clients lose what they have: disconnect and eviction.

use crate::registry::Slot;
use crate::{Dlm, Effect};
use clio_core::error::Errno;
use clio_core::target::DlmHandle;
use clio_core::units::{ClientId, Fid};

/// What a client had. Resources are gone through by FID: their slots depend on what was freed before.
#[derive(Default)]
struct Estate {
    /// Its locks with their resources, ascending by handle.
    locks: Vec<(DlmHandle, Slot)>,
    /// Its requests that weren't answered: by FID, then those that waited in their order, then glimpses.
    requests: Vec<(Fid, u64)>,
    /// Resources on which it had something, by FID.
    touched: Vec<(Fid, Slot)>,
}

impl Dlm {
    /// The client goes for good.
    pub(crate) fn disconnect(&mut self, client: ClientId, out: &mut Vec<Effect>) {
        if !self.clients.remove(&client) {
            return;
        }
        let estate = self.seize(client);
        self.settle_estate(client, &estate, Errno::ESHUTDOWN, out);
    }

    /// The client didn't cancel in time. It stays connected.
    pub(crate) fn evict(&mut self, client: ClientId, out: &mut Vec<Effect>) {
        let estate = self.seize(client);
        let handles: Vec<_> = estate.locks.iter().map(|l| l.0).collect();
        tracing::warn!(target: "clio::dlm", client = client.0, locks = handles.len(), "evicted");
        out.push(Effect::Evicted { client, handles });
        self.settle_estate(client, &estate, Errno::ESTALE, out);
    }

    /// Takes away all that `client` has, before anything is given to others: nobody may be granted a lock by the
    /// loss of one of its locks and wait for another.
    fn seize(&mut self, client: ClientId) -> Estate {
        let mut estate = Estate::default();
        for (slot, res) in &mut self.resources {
            let before = (estate.locks.len(), estate.requests.len());
            for i in (0..res.granted.len()).rev() {
                if res.granted[i].client == client {
                    estate.locks.push((res.remove(i, &mut self.registry).handle, slot));
                }
            }
            for w in res.waiting.extract_if(.., |w| w.client == client) {
                self.registry.counts.waiting -= 1;
                estate.requests.push((res.fid, w.request));
            }
            for g in res.glimpses.extract_if(.., |g| g.client == client) {
                g.retire(slot, &mut self.registry);
                estate.requests.push((res.fid, g.request));
            }
            if before != (estate.locks.len(), estate.requests.len()) {
                estate.touched.push((res.fid, slot));
            }
        }
        estate.locks.sort_unstable();
        estate.touched.sort_unstable();
        estate.requests.sort_by_key(|r| r.0);
        estate
    }

    /// Refuses its requests, then lets others have what became free.
    fn settle_estate(&mut self, client: ClientId, estate: &Estate, errno: Errno, out: &mut Vec<Effect>) {
        out.extend(estate.requests.iter().map(|&(_, request)| Effect::Refused { client, request, errno }));
        for &(handle, slot) in &estate.locks {
            self.resources[slot].glimpse_without(handle, &mut self.registry, out);
        }
        for &(_, slot) in &estate.touched {
            self.resources[slot].regrant(&mut self.registry, out);
            self.free_if_unused(slot);
        }
    }
}
