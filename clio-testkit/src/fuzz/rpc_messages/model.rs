//! What a target should hold and know, kept in the plainest way.

use clio_core::attr::Attr;
use clio_core::target::{DlmHandle, LockMode};
use clio_core::units::{BLOCK_SIZE, ClientId, Extent, Fid};
use clio_targets::GrantStats;
use std::collections::{BTreeMap, BTreeSet};

const BLOCK: usize = BLOCK_SIZE as usize;

/// One object: blocks that aren't all zeros, and a size.
#[derive(Default)]
pub(super) struct Object {
    pub(super) size: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
}

/// The blocks that `[start, end)` touches, and which bytes of them.
fn pieces(start: u64, end: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    (start / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE)).map(move |block| {
        let base = block * BLOCK_SIZE;
        (block, (start.max(base) - base) as usize..(end.min(base + BLOCK_SIZE) - base) as usize)
    })
}

impl Object {
    pub(super) fn write(&mut self, at: u64, data: &[u8]) {
        let mut data = data;
        let end = at + data.len() as u64;
        if !data.is_empty() {
            self.size = self.size.max(end);
        }
        for (block, range) in pieces(at, end) {
            let (now, rest) = data.split_at(range.len());
            self.blocks.entry(block).or_insert_with(|| Box::new([0; BLOCK]))[range].copy_from_slice(now);
            data = rest;
        }
    }

    pub(super) fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let zeros = [0; BLOCK];
        let bytes = |(block, range): (u64, std::ops::Range<usize>)| {
            self.blocks.get(&block).map_or(&zeros, |b| b)[range].to_vec()
        };
        pieces(at, at + len as u64).flat_map(bytes).collect()
    }

    pub(super) fn punch(&mut self, extent: Extent) {
        if extent.end == Extent::EOF {
            self.size = extent.start;
        }
        if extent.is_empty() {
            return;
        }
        let first = extent.start / BLOCK_SIZE;
        for (block, bytes) in self.blocks.range_mut(first..extent.end.div_ceil(BLOCK_SIZE)) {
            let base = block * BLOCK_SIZE;
            bytes[(extent.start.max(base) - base) as usize..(extent.end.min(base + BLOCK_SIZE) - base) as usize]
                .fill(0);
        }
        self.blocks.retain(|_, bytes| bytes.iter().any(|b| *b != 0));
    }

    /// Whether there are only zeros in `[from, to)`.
    pub(super) fn is_zero(&self, from: u64, to: u64) -> bool {
        let touched = self.blocks.range(from / BLOCK_SIZE..to.div_ceil(BLOCK_SIZE));
        touched.filter(|_| from < to).all(|(block, bytes)| {
            let base = block * BLOCK_SIZE;
            let range = (from.max(base) - base) as usize..(to.min(base + BLOCK_SIZE) - base) as usize;
            bytes[range].iter().all(|b| *b == 0)
        })
    }

    /// Parts of the object that hold something, as offset and bytes.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.iter().map(|(block, bytes)| (block * BLOCK_SIZE, &bytes[..]))
    }
}

/// A lock that a client was granted and has not given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) client: ClientId,
    pub(super) handle: DlmHandle,
    pub(super) fid: Fid,
    pub(super) extent: Extent,
    pub(super) mode: LockMode,
}

/// All that is known without asking the target.
#[derive(Default)]
pub(super) struct Model {
    pub(super) objects: BTreeMap<Fid, Object>,
    pub(super) locks: Vec<Held>,
    /// Grant of each client that is connected.
    pub(super) grants: BTreeMap<ClientId, u64>,
    handles: BTreeSet<DlmHandle>,
}

impl Model {
    pub(super) fn is_connected(&self, client: ClientId) -> bool {
        self.grants.contains_key(&client)
    }

    pub(super) fn size(&self, fid: Fid) -> u64 {
        self.objects.get(&fid).map_or(0, |o| o.size)
    }

    /// A client goes, and all that it holds.
    pub(super) fn disconnect(&mut self, client: ClientId) {
        self.grants.remove(&client);
        self.locks.retain(|l| l.client != client);
    }

    /// A lock was granted: it conflicts with none that is held, and its name is new.
    pub(super) fn granted(&mut self, lock: Held) {
        assert!(self.is_connected(lock.client), "{lock:?} was granted to a client that has gone");
        assert!(self.handles.insert(lock.handle), "the name of {lock:?} was used before");
        for other in self.locks.iter().filter(|l| l.fid == lock.fid && l.extent.overlaps(lock.extent)) {
            assert!(other.mode.compatible(lock.mode), "{lock:?} was granted beside {other:?}");
        }
        self.locks.push(lock);
    }

    /// Whether the client may write `extent` under the lock.
    pub(super) fn may_write(&self, client: ClientId, handle: DlmHandle, fid: Fid, extent: Extent) -> bool {
        extent.is_empty()
            || self.locks.iter().any(|l| {
                let same = l.client == client && l.handle == handle && l.fid == fid;
                same && l.mode.can_write() && l.extent.covers(extent)
            })
    }

    /// The target's account of grants is the same as the clients'.
    pub(super) fn check_grants(&self, theirs: &GrantStats) {
        let mine: Vec<_> = self.grants.iter().map(|(client, held)| (*client, *held)).collect();
        assert_eq!(theirs.held, mine, "what each client holds");
        assert_eq!(theirs.given, mine.iter().map(|(_, held)| held).sum::<u64>(), "what all clients hold");
    }

    pub(super) fn check_attr(&self, fid: Fid, attr: &Attr) {
        assert_eq!((attr.size, attr.kms), (self.size(fid), self.size(fid)), "size of {fid}");
    }
}
