//! The naive model: what the rules say, without regard to speed.

use clio_core::attr::Lvb;
use clio_core::error::Errno;
use clio_core::target::{DlmHandle, LockMode};
use clio_core::units::{BLOCK_SIZE, ClientId, Extent};
use clio_dlm::{Effect, LockInfo};
use std::collections::BTreeSet;

/// Blocks told apart; one more bit stands for all that lies behind them.
pub const BLOCKS: u32 = 12;
pub const TIMEOUT_MS: u64 = 100;

/// The blocks that an extent touches.
pub fn to_mask(e: Extent) -> u32 {
    (0..=BLOCKS)
        .filter(|&b| {
            let start = u64::from(b) * BLOCK_SIZE;
            let end = if b == BLOCKS { Extent::EOF } else { start + BLOCK_SIZE };
            start < e.end && e.start < end
        })
        .map(|b| 1 << b)
        .sum()
}

/// The inverse, for a set without gaps.
fn to_extent(mask: u32) -> Extent {
    let end = u32::BITS - mask.leading_zeros();
    let end = if end > BLOCKS { Extent::EOF } else { u64::from(end) * BLOCK_SIZE };
    Extent { start: u64::from(mask.trailing_zeros()) * BLOCK_SIZE, end }
}

#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// The request that it comes from: the model's name for it.
    pub id: u64,
    pub client: ClientId,
    pub mode: LockMode,
    pub mask: u32,
    pub exact: bool,
    /// Order of grants, and when it must be given back; unused while it waits.
    pub seq: u64,
    pub asked: Option<u64>,
}

impl Lock {
    fn conflicts(&self, o: &Lock) -> bool {
        self.mask & o.mask != 0 && !self.mode.compatible(o.mode)
    }
}

#[derive(Default)]
pub struct Resource {
    pub granted: Vec<Lock>,
    pub waiting: Vec<Lock>,
}

#[derive(Default)]
pub struct Model {
    pub now: u64,
    seq: u64,
    pub clients: BTreeSet<u64>,
    pub resources: [Resource; 2],
    pub out: Vec<Effect>,
}

impl Model {
    pub fn enqueue(&mut self, fid: usize, l: Lock, try_lock: bool) {
        if !self.clients.contains(&l.client.0) {
            return self.refuse(&l, Errno::ESTALE);
        }
        let res = &mut self.resources[fid];
        if !res.granted.iter().chain(&res.waiting).any(|o| o.conflicts(&l)) {
            return self.grant(fid, l);
        }
        if try_lock {
            return self.refuse(&l, Errno::EAGAIN);
        }
        for g in res.granted.iter_mut().filter(|g| g.conflicts(&l) && g.asked.is_none()) {
            g.asked = Some(self.now + TIMEOUT_MS);
            self.out.push(Effect::BlockingAst { client: g.client, handle: DlmHandle(g.id) });
        }
        res.waiting.push(l);
    }

    fn refuse(&mut self, l: &Lock, errno: Errno) {
        self.out.push(Effect::Refused { client: l.client, request: l.id, errno });
    }

    fn grant(&mut self, fid: usize, mut l: Lock) {
        let res = &mut self.resources[fid];
        let wanted = res.waiting.iter().any(|w| w.conflicts(&l));
        if !l.exact && !wanted {
            let free = |mask| {
                let part = Lock { mask, ..l };
                mask != 0 && !res.granted.iter().chain(&res.waiting).any(|o| o.conflicts(&part))
            };
            let mut mask = l.mask;
            while mask & 1 == 0 && free(mask >> 1 & !mask) {
                mask |= mask >> 1;
            }
            while mask >> BLOCKS == 0 && free(mask << 1 & !mask) {
                mask |= mask << 1;
            }
            l.mask = mask;
        }
        l.asked = wanted.then_some(self.now + TIMEOUT_MS);
        l.seq = self.seq;
        self.seq += 1;
        res.granted.push(l);
        self.out.push(Effect::Granted {
            client: l.client,
            request: l.id,
            handle: DlmHandle(l.id),
            mode: l.mode,
            extent: to_extent(l.mask),
            lvb: Lvb::default(),
            blocking: wanted,
        });
    }

    fn pump(&mut self, fid: usize) {
        loop {
            let res = &mut self.resources[fid];
            let fits = |i: &usize| {
                let w = &res.waiting[*i];
                !res.granted.iter().chain(&res.waiting[..*i]).any(|o| o.conflicts(w))
            };
            let Some(i) = (0..res.waiting.len()).find(fits) else { return };
            let l = res.waiting.remove(i);
            self.grant(fid, l);
        }
    }

    pub fn find(&mut self, client: ClientId, id: u64) -> Option<(usize, usize)> {
        let held = |l: &Lock| l.id == id && l.client == client;
        (0..2).find_map(|f| Some((f, self.resources[f].granted.iter().position(held)?)))
    }

    pub fn cancel(&mut self, client: ClientId, id: u64) {
        if let Some((fid, i)) = self.find(client, id) {
            self.resources[fid].granted.remove(i);
            self.pump(fid);
        }
    }

    pub fn convert(&mut self, client: ClientId, id: u64, mode: LockMode) {
        let Some((fid, i)) = self.find(client, id) else { return };
        let res = &mut self.resources[fid];
        let new = Lock { mode, ..res.granted[i] };
        let clash = res.granted.iter().chain(&res.waiting).any(|o| o.id != id && o.conflicts(&new));
        if res.granted[i].mode.serves(mode) || !clash {
            res.granted[i].mode = mode;
        }
        self.out.push(Effect::Converted { client, handle: DlmHandle(id), mode: res.granted[i].mode });
        self.pump(fid);
        let res = &mut self.resources[fid];
        let l = res.granted[i];
        if !res.waiting.iter().any(|w| w.conflicts(&l)) {
            res.granted[i].asked = None;
        }
    }

    pub fn lose(&mut self, client: ClientId, evicted: bool) {
        let mut gone: Vec<Lock> = Vec::new();
        let mut refused: Vec<Lock> = Vec::new();
        for res in &mut self.resources {
            gone.extend(res.granted.extract_if(.., |g| g.client == client));
            refused.extend(res.waiting.extract_if(.., |w| w.client == client));
        }
        gone.sort_by_key(|l| l.seq);
        if evicted {
            let handles = gone.iter().map(|l| DlmHandle(l.id)).collect();
            self.out.push(Effect::Evicted { client, handles });
        }
        for l in refused {
            self.refuse(&l, if evicted { Errno::ESTALE } else { Errno::ESHUTDOWN });
        }
        self.pump(0);
        self.pump(1);
    }

    pub fn asked(&self) -> impl Iterator<Item = (u64, Lock)> + '_ {
        self.resources.iter().flat_map(|r| &r.granted).filter_map(|g| Some((g.asked?, *g)))
    }

    pub fn tick(&mut self) {
        loop {
            let due = self.asked().filter(|(at, _)| *at <= self.now).min_by_key(|(at, g)| (*at, g.seq));
            let Some((_, lock)) = due else { return };
            self.lose(lock.client, true);
        }
    }

    pub fn infos(&self, fid: usize) -> Vec<LockInfo> {
        let info = |l: &Lock, held: bool| LockInfo {
            handle: held.then_some(DlmHandle(l.id)),
            client: l.client,
            mode: l.mode,
            extent: to_extent(l.mask),
            blocking: l.asked.is_some(),
        };
        let res = &self.resources[fid];
        res.granted.iter().map(|l| info(l, true)).chain(res.waiting.iter().map(|l| info(l, false))).collect()
    }
}
