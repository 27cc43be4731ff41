//! A registration with a target: the daemons that it is with come and go.
//!
//! It keeps the books that the next daemon needs: the locks that are held, and the grant. The layers above know a lock by
//! the number that the daemon gave it which granted it; a later daemon has another number for the same lock.

use crate::wire::{Answer, WireFlags, WireMode, WireOp, WireReply};
use clio_core::Result;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{DlmHandle, GlimpseReply, TargetClient};
use clio_core::units::TargetIndex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Asks for a lock that was held: as it was, and at once, since nobody else can hold what conflicts.
const AS_IT_WAS: WireFlags = WireFlags { try_lock: true, glimpse: false, mandatory: true, exact: true };

/// A registration.
pub(crate) struct Link {
    pub(super) target: TargetIndex,
    callbacks: Arc<dyn TargetClient>,
    book: RankedMutex<Book>,
}

#[derive(Default)]
struct Book {
    /// The present daemon's number for the registration.
    remote: u64,
    /// Bytes of grant held, those of writes without an answer among them.
    grant: u64,
    /// Locks held, by the numbers that the layers above know.
    locks: BTreeMap<u64, Held>,
    /// What those call a lock that a later daemon has given a number of its own.
    renamed: HashMap<u64, u64>,
    /// How often everything was lost.
    losses: u64,
}

struct Held {
    fid: [u8; 16],
    range: (u64, u64),
    mode: WireMode,
    /// The present daemon's number.
    remote: u64,
    /// It is being given back.
    is_ending: bool,
}

/// What of a request the books need, once it is answered.
pub(super) enum Entry {
    Lock([u8; 16]),
    Cancel(u64),
    Write(u64),
    ReturnGrant(u64),
    None,
}

impl Entry {
    pub(super) fn of(op: &WireOp) -> Entry {
        match op {
            WireOp::Enqueue { fid, .. } => Entry::Lock(*fid),
            WireOp::Cancel(handle) => Entry::Cancel(*handle),
            WireOp::Write { grant, .. } => Entry::Write(*grant),
            WireOp::ReturnGrant(bytes) => Entry::ReturnGrant(*bytes),
            _ => Entry::None,
        }
    }
}

impl Link {
    pub(super) fn new(target: TargetIndex, callbacks: Arc<dyn TargetClient>) -> Arc<Link> {
        Arc::new(Link { target, callbacks, book: RankedMutex::new(LockRank::Leaf, Book::default()) })
    }

    /// It is with a daemon now that calls it `remote`, and has given it `grant` bytes.
    pub(super) fn is_with(&self, remote: u64, grant: u64) {
        let mut book = self.book.lock();
        (book.remote, book.grant) = (remote, grant);
    }

    /// The present daemon's number for it.
    pub(super) fn remote(&self) -> u64 {
        self.book.lock().remote
    }

    /// Bytes of grant held.
    pub(super) fn grant(&self) -> u64 {
        self.book.lock().grant
    }

    /// How often everything was lost: what was begun before that must not be carried on.
    pub(super) fn losses(&self) -> u64 {
        self.book.lock().losses
    }

    /// Whether any lock is held.
    pub(super) fn has_locks(&self) -> bool {
        !self.book.lock().locks.is_empty()
    }

    /// `op` with the present daemon's numbers, from now on to be sent there. `None`: it is done already, as the lock that
    /// it gives back was not taken along to this daemon.
    pub(super) fn send(&self, mut op: WireOp, is_first: bool) -> Option<(u64, WireOp)> {
        let mut book = self.book.lock();
        match &mut op {
            WireOp::Cancel(handle) => match book.locks.get_mut(handle) {
                Some(held) => {
                    held.is_ending = true;
                    *handle = held.remote;
                }
                None if is_first => {}
                None => return None,
            },
            WireOp::Write { lock: Some(handle), .. } | WireOp::Punch { lock: Some(handle), .. } => {
                *handle = book.locks.get(handle).map_or(*handle, |held| held.remote);
            }
            _ => {}
        }
        Some((book.remote, op))
    }

    /// Enters what a request came to, before anybody hears of it.
    pub(super) fn enter(&self, entry: &Entry, result: &Result<Answer>) {
        let Ok(Answer::Target(reply)) = result else { return };
        let mut book = self.book.lock();
        match (entry, *reply) {
            (Entry::Lock(fid), WireReply::Granted { handle, mode, range, grant, .. }) => {
                book.grant += grant;
                if let Some(handle) = handle {
                    book.locks.insert(handle, Held { fid: *fid, range, mode, remote: handle, is_ending: false });
                }
            }
            (Entry::Cancel(handle), _) => {
                if let Some(held) = book.locks.remove(handle) {
                    book.renamed.remove(&held.remote);
                }
            }
            (Entry::Write(used), WireReply::Written { grant, .. }) => {
                book.grant = book.grant.saturating_sub(*used) + grant;
            }
            (Entry::ReturnGrant(bytes), _) => book.grant = book.grant.saturating_sub(*bytes),
            _ => {}
        }
    }

    /// The requests that ask another daemon for the locks held, each with the number that the layers above know. What was
    /// being given back is over with the daemon that it was given back to.
    pub(super) fn to_replay(&self) -> Vec<(u64, WireOp)> {
        let mut book = self.book.lock();
        book.locks.retain(|_, held| !held.is_ending);
        book.renamed.clear();
        let ask = |h: &Held| WireOp::Enqueue { fid: h.fid, range: h.range, mode: h.mode, flags: AS_IT_WAS };
        book.locks.iter().map(|(known, held)| (*known, ask(held))).collect()
    }

    /// Another daemon has given the lock `known` the number `remote`.
    pub(super) fn replayed(&self, known: u64, remote: u64) {
        let mut book = self.book.lock();
        if let Some(held) = book.locks.get_mut(&known) {
            held.remote = remote;
            book.renamed.insert(remote, known);
        }
    }

    /// Locks and grant are gone, and whoever relied on them is told.
    pub(super) fn lose(&self) {
        {
            let mut book = self.book.lock();
            let losses = book.losses + 1;
            *book = Book { remote: book.remote, losses, ..Book::default() };
        }
        self.callbacks.evicted(self.target);
    }

    /// Has all locks written out and given back.
    pub(super) fn give_all_back(&self) {
        let known: Vec<u64> = self.book.lock().locks.keys().copied().collect();
        known.into_iter().for_each(|handle| self.callbacks.blocking_ast(self.target, DlmHandle(handle)));
    }

    /// Somebody wants what the daemon's lock `remote` covers.
    pub(super) fn blocking(&self, remote: u64) {
        self.callbacks.blocking_ast(self.target, self.known(remote));
    }

    /// Somebody wants to know the size of what the daemon's lock `remote` covers.
    pub(super) fn glimpse(&self, remote: u64, reply: GlimpseReply) {
        self.callbacks.glimpse_ast(self.target, self.known(remote), reply);
    }

    fn known(&self, remote: u64) -> DlmHandle {
        DlmHandle(self.book.lock().renamed.get(&remote).copied().unwrap_or(remote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{WireLvb, WireSegment};
    use clio_core::sync::Mutex;

    const FID: [u8; 16] = [7; 16];

    #[derive(Default)]
    struct Told(Mutex<Vec<(&'static str, u64)>>);

    impl TargetClient for Told {
        fn blocking_ast(&self, _: TargetIndex, handle: DlmHandle) {
            self.0.lock().push(("blocking", handle.0));
        }
        fn glimpse_ast(&self, _: TargetIndex, handle: DlmHandle, _: GlimpseReply) {
            self.0.lock().push(("glimpse", handle.0));
        }
        fn evicted(&self, _: TargetIndex) {
            self.0.lock().push(("evicted", 0));
        }
    }

    fn granted(handle: u64, grant: u64) -> Result<Answer> {
        let (mode, range, lvb) = (WireMode::Pw, (0, 4096), WireLvb([0; 5]));
        Ok(Answer::Target(WireReply::Granted { handle: Some(handle), mode, range, lvb, grant, blocking: false }))
    }

    fn write(lock: u64, grant: u64) -> WireOp {
        let bulk: Vec<WireSegment> = Vec::new();
        WireOp::Write { fid: FID, bulk, checksum: None, lock: Some(lock), grant, mtime: 0, sync: false }
    }

    fn lock_of(sent: Option<(u64, WireOp)>) -> Option<u64> {
        match sent?.1 {
            WireOp::Write { lock, .. } => lock,
            WireOp::Cancel(handle) => Some(handle),
            op => panic!("{op:?}"),
        }
    }

    #[test]
    fn a_lock_keeps_its_number_from_daemon_to_daemon() {
        let told = Arc::new(Told::default());
        let link = Link::new(TargetIndex(0), told.clone());
        link.is_with(1, 100);
        link.enter(&Entry::Lock(FID), &granted(11, 10));
        link.enter(&Entry::Lock(FID), &granted(12, 0));
        for daemon in 1..=3 {
            // 12 is being given back, and the daemon dies.
            if daemon == 1 {
                assert_eq!(lock_of(link.send(WireOp::Cancel(12), true)), Some(12));
            }
            let replays = link.to_replay();
            assert_eq!(
                replays.iter().map(|(known, _)| *known).collect::<Vec<_>>(),
                [11],
                "what is given back isn't taken along"
            );
            let op = WireOp::Enqueue { fid: FID, range: (0, 4096), mode: WireMode::Pw, flags: AS_IT_WAS };
            assert_eq!(replays[0].1, op);
            link.is_with(1 + daemon, link.grant());
            link.replayed(11, 100 * daemon);
            assert_eq!(lock_of(link.send(write(11, 0), true)), Some(100 * daemon));
            assert!(link.send(WireOp::Cancel(12), false).is_none(), "it is given back already");
            link.blocking(100 * daemon);
            link.glimpse(100 * daemon, Box::new(|_| {}));
            link.blocking(100 * daemon - 1);
            assert_eq!(*told.0.lock(), [("blocking", 11), ("glimpse", 11), ("blocking", 100 * daemon - 1)]);
            told.0.lock().clear();
        }
        assert_eq!(lock_of(link.send(WireOp::Cancel(11), true)), Some(300));
        link.enter(&Entry::Cancel(11), &Ok(Answer::Target(WireReply::Done)));
        assert!(!link.has_locks());
    }

    #[test]
    fn grant_is_what_was_given_and_not_used() {
        let link = Link::new(TargetIndex(0), Arc::new(Told::default()));
        link.is_with(1, 100);
        link.enter(&Entry::Lock(FID), &granted(1, 10));
        let used = Entry::of(&write(1, 70));
        link.enter(&used, &Err(clio_core::Error::new(clio_core::Errno::EIO, "write", "no answer")));
        assert_eq!(link.grant(), 110, "a write without an answer holds its grant");
        link.enter(&used, &Ok(Answer::Target(WireReply::Written { grant: 5, lvb: WireLvb([0; 5]) })));
        assert_eq!(link.grant(), 45);
        link.enter(&Entry::ReturnGrant(40), &Ok(Answer::Target(WireReply::Done)));
        assert_eq!((link.grant(), link.losses()), (5, 0));
        link.lose();
        assert_eq!((link.grant(), link.losses(), link.has_locks()), (0, 1, false));
    }
}
