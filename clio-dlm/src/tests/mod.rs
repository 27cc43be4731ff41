//! Tests of each rule, by hand-made sequences of events.

mod contention;
mod convert;
mod glimpse;
mod grant;
mod growth;
mod leave;

use crate::{Counts, Dlm, DlmConfig, Effect, Event};
use clio_core::attr::Lvb;
use clio_core::error::Errno;
use clio_core::target::{DlmHandle, EnqueueFlags, LockMode};
use clio_core::units::{BLOCK_SIZE, ClientId, Extent, Fid};

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);
const C: ClientId = ClientId(3);
const FID: Fid = Fid::new(7, 1);

const PLAIN: EnqueueFlags = EnqueueFlags { try_lock: false, glimpse: false, mandatory: false, exact: false };
const EXACT: EnqueueFlags = EnqueueFlags { exact: true, ..PLAIN };
const TRY: EnqueueFlags = EnqueueFlags { try_lock: true, ..PLAIN };
const GLIMPSE: EnqueueFlags = EnqueueFlags { glimpse: true, ..PLAIN };
const MANDATORY: EnqueueFlags = EnqueueFlags { mandatory: true, ..PLAIN };

/// Blocks `a` to `b`, exclusively.
fn blocks(a: u64, b: u64) -> Extent {
    Extent::new(a * BLOCK_SIZE, b * BLOCK_SIZE)
}

/// Block `a` and all after it.
fn blocks_from(a: u64) -> Extent {
    Extent::new(a * BLOCK_SIZE, Extent::EOF)
}

fn sized(size: u64) -> Lvb {
    Lvb { size, ..Lvb::default() }
}

/// A lock manager with clients A, B and C, and its clock.
struct World {
    dlm: Dlm,
    now_ms: u64,
    requests: u64,
}

impl World {
    fn new() -> Self {
        Self::with(DlmConfig::default())
    }

    fn with(config: DlmConfig) -> Self {
        let mut w = World { dlm: Dlm::new(config), now_ms: 0, requests: 0 };
        for client in [A, B, C] {
            assert_eq!(w.step(Event::Connect { client }), []);
        }
        w
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut out = Vec::new();
        self.dlm.step(self.now_ms, event, &mut out);
        out
    }

    /// Enqueues; the request's number is that of the call, from 1.
    fn ask(&mut self, client: ClientId, mode: LockMode, extent: Extent, flags: EnqueueFlags) -> Vec<Effect> {
        self.requests += 1;
        let request = self.requests;
        self.step(Event::Enqueue { client, request, fid: FID, extent, mode, flags, initial_lvb: Some(sized(100)) })
    }

    /// Enqueues what must be granted at once.
    fn lock(&mut self, client: ClientId, mode: LockMode, extent: Extent, flags: EnqueueFlags) -> (DlmHandle, Extent) {
        match self.ask(client, mode, extent, flags)[..] {
            [Effect::Granted { client: c, handle, mode: m, extent: e, blocking: false, .. }] => {
                assert!(c == client && m == mode && e.covers(extent));
                (handle, e)
            }
            ref other => panic!("not granted: {other:?}"),
        }
    }

    fn cancel(&mut self, client: ClientId, handle: DlmHandle) -> Vec<Effect> {
        self.step(Event::Cancel { client, handle })
    }

    fn tick_at(&mut self, now_ms: u64) -> Vec<Effect> {
        self.now_ms = now_ms;
        self.step(Event::Tick)
    }
}

/// Who was granted what, in order.
fn grants(effects: &[Effect]) -> Vec<(ClientId, u64, DlmHandle, bool)> {
    effects
        .iter()
        .filter_map(|e| match *e {
            Effect::Granted { client, request, handle, blocking, .. } => Some((client, request, handle, blocking)),
            _ => None,
        })
        .collect()
}

fn refused(client: ClientId, request: u64, errno: Errno) -> Vec<Effect> {
    vec![Effect::Refused { client, request, errno }]
}

fn asked_back(client: ClientId, handle: DlmHandle) -> Effect {
    Effect::BlockingAst { client, handle }
}
