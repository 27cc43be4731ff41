//! Who the clients are, beyond the connections that they have now.

use super::Shared;
use super::recovery::Recovery;
use super::registry::{Known, Registry, Standing};
use clio_core::Result;
use clio_core::units::ClientId;
use clio_namespace::Namespace;
use std::collections::HashSet;
use std::path::Path;

/// Clients of this daemon, and of the one before it.
pub(super) struct Clients {
    pub(super) registry: Registry,
    pub(super) recovery: Recovery,
}

/// How a session ends for its client.
#[derive(Clone, Copy)]
pub(super) enum Leaving {
    /// It has said so.
    ForGood,
    /// It is gone, or cut off: if it lives, it may come back, and has lost its locks.
    Cut,
    /// The daemon ends, and the client holds no locks.
    Idle,
    /// The daemon ends, and the client has locks yet, which it takes along to the next one.
    WithLocks,
}

impl Clients {
    /// Those that an earlier daemon at the socket `path` had. What `names` keeps for others is dropped.
    ///
    /// # Errors
    /// What the system says of the registry's folder, and the namespace.
    pub(super) fn open(path: &Path, names: &Namespace) -> Result<Clients> {
        let (registry, left) = Registry::open(path)?;
        let mut known: HashSet<ClientId> = left.iter().map(|k| ClientId(k.token)).collect();
        let (recovery, gone) = Recovery::new(left);
        for token in gone {
            known.remove(&ClientId(token));
            registry.forget(token);
        }
        // What the last operations of a client left after it had gone, too.
        names.forget_clients_but(&known)?;
        Ok(Clients { registry, recovery })
    }

    /// Whether the token of `who` is known as that of another process, which is connected or may come back.
    pub(super) fn is_anothers(&self, who: &Known) -> bool {
        let known = self.registry.get(who.token).or_else(|| self.recovery.get(who.token));
        known.is_some_and(|known| !known.is_of_process_of(who))
    }
}

impl Shared {
    /// A session of client `token` has ended.
    pub(super) fn gone(&self, token: u64, how: Leaving) {
        let mut clients = self.clients_known.lock();
        clients.recovery.left(token);
        let Some(known) = clients.registry.remove(token) else { return };
        match how {
            Leaving::WithLocks => {}
            Leaving::Idle => clients.registry.note(&known.standing(Standing::Idle)),
            Leaving::Cut if known.is_alive() => {
                let known = known.standing(Standing::Lost);
                clients.registry.note(&known);
                clients.recovery.lost(known);
            }
            Leaving::Cut | Leaving::ForGood => {
                drop(clients);
                self.forget(token);
            }
        }
    }

    /// Whether clients of an earlier daemon are waited for.
    pub(super) fn is_recovering(&self) -> bool {
        self.clients_known.lock().recovery.is_on()
    }

    /// Client `token` has gone for good.
    pub(super) fn forget(&self, token: u64) {
        self.clients_known.lock().registry.forget(token);
        let served = self.served.clone();
        self.work(move || {
            if let Err(e) = served.namespace().forget_client(ClientId(token)) {
                tracing::warn!(target: "clio::node", error = %e, "answers to a client that is gone stay");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_processs_while_that_is_connected_or_may_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let [theirs, ours] = [child.id(), std::process::id()].map(|pid| Known::of(1, pid));
        let (mut registry, _) = Registry::open(&socket).unwrap();
        registry.add(theirs);
        let mut clients = Clients { registry, recovery: Recovery::default() };
        assert!(clients.is_anothers(&ours) && !clients.is_anothers(&theirs), "connected");
        let gone = clients.registry.remove(1).unwrap();
        assert!(!clients.is_anothers(&ours), "gone for good");
        for standing in [Standing::Holder, Standing::Idle, Standing::Lost] {
            let (recovery, _) = Recovery::new(vec![gone.standing(standing)]);
            let (registry, _) = Registry::open(&socket).unwrap();
            let clients = Clients { registry, recovery };
            assert!(clients.is_anothers(&ours) && !clients.is_anothers(&theirs), "{standing:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
