//! Requests to a target, of several clients, in any order and with any arguments.
//!
//! A client may send what it likes: the target answers each request once, with an errno that the request can be the
//! reason of, changes nothing that it refused, grants no two locks that conflict, keeps account of what it gave, and is
//! rid of a client once that has gone. What it stores is held against a model.

mod data;
mod model;
mod requests;

use super::Verdict;
use super::script::Script;
use clio_core::attr::Lvb;
use clio_core::sync::Mutex;
use clio_core::target::{Bulk, DlmHandle, GlimpseReply, Reply, Target, TargetClient};
use clio_core::units::{ClientId, Extent, Fid, MAX_FILE_SIZE, TargetIndex};
use clio_core::{Errno, Result, target};
use clio_dlm::DlmConfig;
use clio_targets::conformance::Buffer;
use clio_targets::{GrantConfig, MemOptions, MemTarget, ServiceConfig};
use model::Model;
use std::sync::Arc;

/// Longest script, in requests.
const MAX_REQUESTS: usize = 200;
const MAX_CLIENTS: usize = 4;
const OBJECTS: u32 = 3;
/// Data that a target holds if the script is to meet its end, in bytes.
const SMALL_CAPACITY: u64 = 10 * 4096;
const GRANT: GrantConfig = GrantConfig { total: 20_000, initial: 6_000, per_client: 9_000 };

/// First byte of a request. Then come the client and the object, a byte each, and what the request needs.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub(super) enum Op {
    Write,
    Read,
    Enqueue,
    Cancel,
    Punch,
    Truncate,
    Create,
    Destroy,
    GetAttr,
    SetAttr,
    Sync,
    Seek,
    StatFs,
    ReturnGrant,
    AnswerGlimpse,
    Connect,
    Disconnect,
}

const OPS: [Op; 17] = {
    use Op::*;
    [
        Write,
        Read,
        Enqueue,
        Cancel,
        Punch,
        Truncate,
        Create,
        Destroy,
        GetAttr,
        SetAttr,
        Sync,
        Seek,
        StatFs,
        ReturnGrant,
        AnswerGlimpse,
        Connect,
        Disconnect,
    ]
};

/// What an answer must be; called when it comes.
type Check = Box<dyn FnOnce(&mut World, Result<Reply>) + Send>;

/// What is shared with completions and callbacks.
#[derive(Default)]
struct World {
    model: Model,
    /// Requests without an answer.
    pending: usize,
    glimpses: Vec<GlimpseReply>,
    /// Objects about whose attributes a client has told something, true or not.
    told: Vec<Fid>,
    accepted: bool,
}

struct Callbacks(Arc<Mutex<World>>);

impl TargetClient for Callbacks {
    fn blocking_ast(&self, _: TargetIndex, handle: DlmHandle) {
        let known = self.0.lock().model.locks.iter().any(|l| l.handle == handle);
        assert!(known, "{handle:?} is asked back, which nobody holds");
    }

    fn glimpse_ast(&self, _: TargetIndex, handle: DlmHandle, reply: GlimpseReply) {
        let mut world = self.0.lock();
        assert!(world.model.locks.iter().any(|l| l.handle == handle), "a glimpse of {handle:?}, which nobody holds");
        world.glimpses.push(reply);
    }

    fn evicted(&self, _: TargetIndex) {
        panic!("nothing times out here");
    }
}

/// The first byte chooses how much the target holds; then come requests.
pub fn rpc_messages(input: &[u8]) -> Verdict {
    let mut script = Script::new(input);
    let small = script.byte().is_some_and(|b| b % 2 == 1);
    let mut session = Session::new(if small { SMALL_CAPACITY } else { 1 << 40 });
    session.connect();
    session.connect();
    for _ in 0..MAX_REQUESTS {
        if session.request(&mut script).is_none() {
            break;
        }
        session.check();
    }
    session.end()
}

struct Session {
    target: Arc<MemTarget>,
    world: Arc<Mutex<World>>,
    /// All that ever were.
    clients: Vec<ClientId>,
}

impl Session {
    fn new(capacity: u64) -> Self {
        let dlm = DlmConfig {
            // Without timeouts, nothing depends on the time that a run takes.
            blocking_timeout_ms: 0,
            glimpse_timeout_ms: 0,
            contended_locks: 3,
            ..DlmConfig::default()
        };
        let service = ServiceConfig { dlm, grant: GRANT };
        let target = Arc::new(MemTarget::in_memory(MemOptions { capacity, service, ..MemOptions::default() }));
        Self { target, world: Arc::default(), clients: Vec::new() }
    }

    fn connect(&mut self) -> ClientId {
        let (client, grant) = self.target.connect(Arc::new(Callbacks(self.world.clone()))).expect("it is open");
        assert!(!self.clients.contains(&client), "{client:?} was there before");
        self.clients.push(client);
        self.world.lock().model.grants.insert(client, grant);
        client
    }

    /// Sends a request, with what its answer must be.
    fn send(&self, client: ClientId, op: target::Op, check: impl FnOnce(&mut World, Result<Reply>) + Send + 'static) {
        let (world, check): (_, Check) = (self.world.clone(), Box::new(check));
        world.lock().pending += 1;
        let done = move |answer: Result<Reply>| {
            let world = &mut *world.lock();
            world.pending -= 1;
            world.accepted |= answer.is_ok();
            if let Err(e) = &answer {
                assert!(!e.detail().is_empty(), "no reason is given: {e}");
            }
            check(world, answer);
        };
        self.target.submit(client, op, Box::new(done));
    }

    /// Reads a request and sends it. `None` at the end of the script.
    fn request(&mut self, s: &mut Script<'_>) -> Option<()> {
        let (op, client, object) = (OPS[usize::from(s.byte()?) % OPS.len()], s.byte()?, s.byte()?);
        let fid = Fid::new(0x400, u32::from(object) % OBJECTS);
        let client = self.client(client);
        let connected = self.world.lock().model.is_connected(client);
        match op {
            Op::Write => self.write(client, fid, s)?,
            Op::Read => self.read(client, fid, s)?,
            Op::Enqueue => self.enqueue(client, fid, s)?,
            Op::Cancel => {
                let handle = self.handle(s.byte()?);
                self.world.lock().model.locks.retain(|l| l.client != client || l.handle != handle);
                self.send(client, target::Op::Cancel(handle), move |_, answer| done(connected, answer));
            }
            Op::Punch => self.punch(client, fid, Extent::new(s.number()?, s.number()?)),
            Op::Truncate => self.punch(client, fid, Extent::new(s.number()?, Extent::EOF)),
            Op::Create => self.send(client, target::Op::Create(fid), move |w, answer| {
                let new = !w.model.objects.contains_key(&fid);
                match answer {
                    Ok(reply) => assert!(connected && new && reply == Reply::Done),
                    Err(e) if connected => assert!(e.errno() == Errno::EEXIST && !new, "{e}"),
                    Err(e) => stale(&e),
                }
                if connected {
                    w.model.objects.entry(fid).or_default();
                }
            }),
            Op::Destroy => self.send(client, target::Op::Destroy(fid), move |w, answer| {
                let there = w.model.objects.contains_key(&fid);
                match answer {
                    Ok(reply) => assert!(connected && there && reply == Reply::Done),
                    Err(e) if connected => assert!(e.errno() == Errno::ENOENT && !there, "{e}"),
                    Err(e) => stale(&e),
                }
                if connected {
                    w.model.objects.remove(&fid);
                }
            }),
            Op::GetAttr => self.send(client, target::Op::GetAttr(fid), move |w, answer| match answer {
                Ok(Reply::Attr(attr)) if connected => w.model.check_attr(fid, &attr),
                other => gone(connected, other),
            }),
            Op::SetAttr => self.set_attr(client, fid, s)?,
            Op::Sync => self.send(client, target::Op::Sync(fid), move |_, answer| done(connected, answer)),
            Op::Seek => self.seek(client, fid, s)?,
            Op::StatFs => self.send(client, target::Op::StatFs, move |w, answer| match answer {
                Ok(Reply::StatFs { total, free, objects }) if connected => {
                    assert!(free <= total);
                    assert_eq!(objects, w.model.objects.len() as u64);
                }
                other => gone(connected, other),
            }),
            Op::ReturnGrant => {
                let bytes = s.number()?;
                if let Some(held) = self.world.lock().model.grants.get_mut(&client) {
                    *held = held.saturating_sub(bytes);
                }
                self.send(client, target::Op::ReturnGrant { bytes }, move |_, answer| done(connected, answer));
            }
            Op::AnswerGlimpse => {
                let lvb = Lvb { size: s.number()?, blocks: s.number()?, ..Lvb::default() };
                let reply = self.world.lock().glimpses.pop();
                if let Some(reply) = reply {
                    self.world.lock().told.extend((0..OBJECTS).map(|n| Fid::new(0x400, n)));
                    reply(lvb);
                }
            }
            Op::Connect if self.clients.len() < MAX_CLIENTS => drop(self.connect()),
            Op::Connect => {}
            Op::Disconnect => self.disconnect(client),
        }
        Some(())
    }

    /// A client, also one that has gone, the target itself, or one that never was.
    fn client(&self, n: u8) -> ClientId {
        let n = usize::from(n) % (MAX_CLIENTS + 2);
        self.clients.get(n).copied().unwrap_or(ClientId(if n > MAX_CLIENTS { u64::MAX } else { 0 }))
    }

    /// A lock, most often one that somebody holds.
    fn handle(&self, n: u8) -> DlmHandle {
        let locks = &self.world.lock().model.locks;
        locks.get(usize::from(n) % (locks.len() + 2)).map_or(DlmHandle(n.into()), |l| l.handle)
    }

    fn disconnect(&self, client: ClientId) {
        let connected = {
            let model = &mut self.world.lock().model;
            let connected = model.is_connected(client);
            model.disconnect(client);
            connected
        };
        self.send(client, target::Op::Disconnect, move |_, answer| done(connected, answer));
    }

    /// What holds between requests.
    fn check(&self) {
        let world = self.world.lock();
        world.model.check_grants(&self.target.grants());
        assert!(world.model.grants.values().sum::<u64>() <= GRANT.total);
        assert_eq!(self.target.lock_counts().granted, world.model.locks.len(), "locks that are held");
    }

    /// All clients go; then nothing is left of them but what they wrote.
    fn end(mut self) -> Verdict {
        let verdict = if self.world.lock().accepted { Verdict::Accepted } else { Verdict::Refused };
        for client in self.clients.clone() {
            if self.world.lock().model.is_connected(client) {
                self.disconnect(client);
            }
            self.check();
        }
        let glimpses = std::mem::take(&mut self.world.lock().glimpses);
        drop(glimpses);
        let left = self.target.lock_counts();
        assert_eq!((left.resources, left.granted, left.waiting, left.glimpses), (0, 0, 0, 0), "{left:?}");
        assert_eq!(self.world.lock().pending, 0, "requests that nobody answered");
        self.compare();
        verdict
    }

    /// A new client reads all there is.
    fn compare(&mut self) {
        let client = self.connect();
        let objects = std::mem::take(&mut self.world.lock().model.objects);
        for (fid, object) in objects {
            for (at, bytes) in object.parts() {
                // The last block may reach beyond the largest offset.
                let bytes = &bytes[..bytes.len().min((MAX_FILE_SIZE - at) as usize)];
                let (expected, buffer) = (bytes.to_vec(), Arc::new(Buffer::new(&vec![0x11; bytes.len()])));
                let bulk = Bulk::from_elem(buffer.segment(0, bytes.len(), at), 1);
                self.send(client, target::Op::Read { fid, bulk, checksum: false }, move |_, answer| {
                    assert!(answer.is_ok() && buffer.content() == expected, "what is at {at} of {fid}");
                });
            }
            self.send(client, target::Op::GetAttr(fid), move |_, answer| {
                assert!(matches!(answer, Ok(Reply::Attr(attr)) if attr.size == object.size));
            });
        }
        self.disconnect(client);
        assert_eq!(self.world.lock().pending, 0);
        assert_eq!(self.target.grants().given, 0);
    }
}

#[track_caller]
fn stale(e: &clio_core::Error) {
    assert_eq!(e.errno(), Errno::ESTALE, "{e}");
}

/// The answer to what always succeeds for a client that is there.
#[track_caller]
fn done(connected: bool, answer: Result<Reply>) {
    match answer {
        Ok(reply) => assert!(connected && reply == Reply::Done, "{reply:?}"),
        other => gone(connected, other),
    }
}

/// Only a client that isn't there gets this answer, and it is `ESTALE`.
#[track_caller]
fn gone(connected: bool, answer: Result<Reply>) {
    match answer {
        Err(e) if !connected => stale(&e),
        other => panic!("unexpected: {other:?}"),
    }
}
