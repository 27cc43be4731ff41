//! Grants: how much each client may have dirty, so that write-behind meets a full target early and not at write-out.
//!
//! What is promised fits into the space that is left. Between the moment when a write's grant is used up and the one when
//! the store has taken the space, the figure for the space left still holds what the write will take: such writes are
//! counted as `coming`, and new promises leave room for them.

use clio_core::units::ClientId;
use clio_core::{Errno, Error, Result};
use std::collections::HashMap;

/// How grants are given, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantConfig {
    /// What all clients together may hold.
    pub total: u64,
    /// What a client gets when it connects, and is brought back up to when it holds less.
    pub initial: u64,
    /// What one client may hold.
    pub per_client: u64,
}

impl Default for GrantConfig {
    fn default() -> Self {
        Self { total: 8 << 30, initial: 64 << 20, per_client: 256 << 20 }
    }
}

/// The grants given and not yet used, for checks of conservation: `given` is the sum of what clients hold, and a
/// client's own count (available, reserved, dirty, in flight and lost) comes to the same once it is idle.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GrantStats {
    /// Bytes that all clients hold.
    pub given: u64,
    /// Bytes that each client holds, by id.
    pub held: Vec<(ClientId, u64)>,
}

/// Who holds how much.
#[derive(Debug)]
pub(super) struct GrantTable {
    config: GrantConfig,
    given: u64,
    held: HashMap<ClientId, u64>,
    /// Bytes of all writes that ever began, and of those that have ended: the difference may still take space.
    begun: u64,
    ended: u64,
}

/// A moment: what had ended by then, a figure for the space left that is asked for later allows for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    ended: u64,
}

/// Space that a store has left, in bytes, by a figure asked for after a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    pub(super) bytes: u64,
    pub(super) since: Moment,
}

impl GrantTable {
    pub(super) fn new(config: GrantConfig) -> Self {
        Self { config, given: 0, held: HashMap::new(), begun: 0, ended: 0 }
    }

    /// Now. To be followed by a look at the space left.
    pub(super) fn moment(&self) -> Moment {
        Moment { ended: self.ended }
    }

    /// A write of up to `bytes` begins: it may take space that nobody sees taken yet. Before its grant is used up.
    pub(super) fn begin_write(&mut self, bytes: u64) {
        self.begun += bytes;
    }

    /// It has taken the space, or never will. After what it didn't use is restored.
    pub(super) fn end_write(&mut self, bytes: u64) {
        self.ended += bytes;
    }

    /// The first grant of a client. `free` is the space that the target has left.
    pub(super) fn connect(&mut self, client: ClientId, free: Free) -> u64 {
        self.held.entry(client).or_insert(0);
        self.give(client, self.config.initial, free)
    }

    /// A client that was there before the target was started anew: what it had been promised it holds still, as far as
    /// one client may hold so much.
    pub(super) fn resume(&mut self, client: ClientId, held: u64) {
        let bytes = held.min(self.config.per_client);
        self.held.insert(client, bytes);
        self.given += bytes;
    }

    /// Takes what a write uses up. A client can't use what it wasn't given.
    pub(super) fn consume(&mut self, client: ClientId, bytes: u64) -> Result<()> {
        let held = self.held.get(&client).copied().unwrap_or(0);
        if bytes > held {
            let text = format!("the write uses {bytes} bytes of grant, but the client holds {held}");
            return Err(Error::new(Errno::EPROTO, "write", text));
        }
        self.take(client, bytes);
        Ok(())
    }

    /// Gives back what a write has used that failed: a failed write uses nothing.
    pub(super) fn restore(&mut self, client: ClientId, bytes: u64) {
        if let Some(held) = self.held.get_mut(&client) {
            *held += bytes;
            self.given += bytes;
        }
    }

    /// New grant for a client that has used up `consumed`: as much again, and what is missing to the initial grant;
    /// less, down to nothing, when space or the limits are short.
    pub(super) fn replenish(&mut self, client: ClientId, consumed: u64, free: Free) -> u64 {
        let Some(&held) = self.held.get(&client) else { return 0 };
        let wanted = consumed.max(self.config.initial.saturating_sub(held));
        self.give(client, wanted, free)
    }

    /// Takes grant back that a client doesn't need.
    pub(super) fn give_back(&mut self, client: ClientId, bytes: u64) {
        let held = self.held.get(&client).copied().unwrap_or(0);
        self.take(client, bytes.min(held));
    }

    /// A client was evicted: it holds nothing, but may write again without grant, and be given some then.
    pub(super) fn reset(&mut self, client: ClientId) {
        let held = self.held.get(&client).copied().unwrap_or(0);
        self.take(client, held);
    }

    /// A client went.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.reset(client);
        self.held.remove(&client);
    }

    pub(super) fn stats(&self) -> GrantStats {
        let mut held: Vec<_> = self.held.iter().map(|(c, h)| (*c, *h)).collect();
        held.sort_unstable();
        GrantStats { given: self.given, held }
    }

    fn give(&mut self, client: ClientId, wanted: u64, free: Free) -> u64 {
        let Some(held) = self.held.get_mut(&client) else { return 0 };
        // Writes that the figure may not show: those that hadn't ended before it, and those that began since.
        let coming = self.begun - free.since.ended;
        let room = free.bytes.saturating_sub(coming).min(self.config.total).saturating_sub(self.given);
        let bytes = wanted.min(room).min(self.config.per_client.saturating_sub(*held));
        *held += bytes;
        self.given += bytes;
        bytes
    }

    fn take(&mut self, client: ClientId, bytes: u64) {
        if let Some(held) = self.held.get_mut(&client) {
            *held -= bytes;
            self.given -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONFIG: GrantConfig = GrantConfig { total: 1000, initial: 100, per_client: 300 };

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Connect,
        Write { bytes: u64, fails: bool },
        GiveBack(u64),
        Evict,
        Leave,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Connect),
            (0u64..400, any::<bool>()).prop_map(|(bytes, fails)| Step::Write { bytes, fails }),
            (0u64..400).prop_map(Step::GiveBack),
            Just(Step::Evict),
            Just(Step::Leave),
        ]
    }

    proptest! {
        /// Each client keeps its own account of what it was given; target and clients always agree.
        #[test]
        fn given_is_what_clients_hold(steps in prop::collection::vec((0u64..4, step(), 0u64..1500), 1..200)) {
            let mut table = GrantTable::new(CONFIG);
            let mut mine: HashMap<ClientId, u64> = HashMap::new();
            for (client, step, free) in steps {
                let client = ClientId(client);
                let before = table.stats().given;
                let bytes_free = free;
                let free = Free { bytes: free, since: table.moment() };
                match step {
                    Step::Connect => {
                        let got = table.connect(client, free);
                        *mine.entry(client).or_insert(0) += got;
                    }
                    Step::Write { bytes, fails } => match (table.consume(client, bytes), mine.get_mut(&client)) {
                        (Err(_), held) => prop_assert!(bytes > held.map_or(0, |h| *h)),
                        (Ok(()), None) => prop_assert_eq!(bytes, 0),
                        (Ok(()), Some(_)) if fails => table.restore(client, bytes),
                        (Ok(()), Some(held)) => *held = *held - bytes + table.replenish(client, bytes, free),
                    },
                    Step::GiveBack(bytes) => {
                        table.give_back(client, bytes);
                        if let Some(held) = mine.get_mut(&client) {
                            *held -= bytes.min(*held);
                        }
                    }
                    Step::Evict => {
                        table.reset(client);
                        mine.entry(client).and_modify(|h| *h = 0);
                    }
                    Step::Leave => {
                        table.forget(client);
                        mine.remove(&client);
                    }
                }
                let stats = table.stats();
                let mut expected: Vec<_> = mine.iter().map(|(c, h)| (*c, *h)).collect();
                expected.sort_unstable();
                prop_assert_eq!(&stats.held, &expected);
                prop_assert_eq!(stats.given, expected.iter().map(|(_, h)| h).sum::<u64>());
                prop_assert!(stats.given <= CONFIG.total);
                prop_assert!(stats.given <= before.max(bytes_free), "more given than there is space");
            }
        }
    }

    #[test]
    fn short_space_shrinks_grants() {
        let mut t = GrantTable::new(CONFIG);
        let c = ClientId(1);
        let free = |bytes| Free { bytes, since: Moment { ended: 0 } };
        assert_eq!(t.connect(c, free(10_000)), 100);
        t.consume(c, 60).unwrap();
        assert_eq!(t.replenish(c, 60, free(50)), 10, "50 bytes free, 40 promised already");
        t.consume(c, 50).unwrap();
        assert_eq!(t.replenish(c, 50, free(0)), 0);
        assert_eq!(t.replenish(c, 0, free(10_000)), 100, "brought back to the initial grant once there is space");
    }

    /// How far a write has come.
    #[derive(Clone, Copy, Debug)]
    enum Stage {
        Begun,
        Stored,
        Looked(Free),
    }

    proptest! {
        /// Writes of several clients, each going on at any time: what is promised, and what is on its way into the store,
        /// always fits into the space left.
        #[test]
        fn promises_fit_into_the_space(
            space in 0u64..1500,
            steps in prop::collection::vec((0u64..3, 0usize..8, 1u64..200, any::<bool>()), 1..200),
        ) {
            let mut table = GrantTable::new(CONFIG);
            let mut free = space;
            for c in 0..3 {
                let left = Free { bytes: free, since: table.moment() };
                table.connect(ClientId(c), left);
            }
            let mut writes: Vec<(ClientId, u64, Stage)> = Vec::new();
            for (client, which, bytes, fails) in steps {
                if which >= writes.len() {
                    let client = ClientId(client);
                    let bytes = bytes.min(table.held[&client]);
                    table.begin_write(bytes);
                    table.consume(client, bytes).unwrap();
                    writes.push((client, bytes, Stage::Begun));
                } else {
                    let (client, bytes, stage) = writes[which];
                    match stage {
                        Stage::Begun if fails => {
                            table.restore(client, bytes);
                            table.end_write(bytes);
                            writes.swap_remove(which);
                        }
                        Stage::Begun => {
                            prop_assert!(free >= bytes, "promised space isn't there");
                            free -= bytes;
                            writes[which].2 = Stage::Stored;
                        }
                        Stage::Stored => {
                            table.end_write(bytes);
                            writes[which].2 = Stage::Looked(Free { bytes: free, since: table.moment() });
                        }
                        Stage::Looked(left) => {
                            table.replenish(client, bytes, left);
                            writes.swap_remove(which);
                        }
                    }
                }
                let coming = writes.iter().filter(|w| matches!(w.2, Stage::Begun)).map(|w| w.1).sum::<u64>();
                prop_assert!(table.stats().given + coming <= free, "{} and {coming} of {free}", table.stats().given);
            }
        }
    }
}
