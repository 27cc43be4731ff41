//! A client of a target that waits for its answers.

use super::Buffer;
use clio_core::attr::Lvb;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::target::{Bulk, DlmHandle, EnqueueFlags, GlimpseReply, LockMode, Op, Reply, Target, TargetClient};
use clio_core::units::{ClientId, Extent, Fid, TargetIndex};
use clio_core::{Errno, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

/// Long enough to be a hang on any machine.
const HANG: Duration = Duration::from_secs(60);

/// What a target told a client.
pub enum Ast {
    /// A blocking AST.
    Blocking(DlmHandle),
    /// A glimpse AST, with the right to answer it.
    Glimpse(DlmHandle, GlimpseReply),
    /// The client was evicted.
    Evicted,
}

impl std::fmt::Debug for Ast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ast::Blocking(h) => write!(f, "Blocking({h:?})"),
            Ast::Glimpse(h, _) => write!(f, "Glimpse({h:?})"),
            Ast::Evicted => write!(f, "Evicted"),
        }
    }
}

/// Passes on what the target tells.
struct Callbacks(RankedMutex<Sender<Ast>>);

impl Callbacks {
    fn tell(&self, ast: Ast) {
        // Nobody listens any more: dropping a glimpse answers it.
        let _ = self.0.lock().send(ast);
    }
}

impl TargetClient for Callbacks {
    fn blocking_ast(&self, _: TargetIndex, handle: DlmHandle) {
        self.tell(Ast::Blocking(handle));
    }

    fn glimpse_ast(&self, _: TargetIndex, handle: DlmHandle, reply: GlimpseReply) {
        self.tell(Ast::Glimpse(handle, reply));
    }

    fn evicted(&self, _: TargetIndex) {
        self.tell(Ast::Evicted);
    }
}

/// A request under way.
pub struct Pending {
    answer: Receiver<Result<Reply>>,
    /// Memory of the request.
    _keep: Vec<Arc<Buffer>>,
}

impl Pending {
    /// The answer.
    ///
    /// # Panics
    /// If it never comes.
    #[track_caller]
    pub fn wait(self) -> Result<Reply> {
        match self.answer.recv_timeout(HANG) {
            Ok(result) => result,
            Err(RecvTimeoutError::Disconnected) => panic!("the completion was dropped without being called"),
            Err(RecvTimeoutError::Timeout) => panic!("the request was never answered"),
        }
    }

    /// Whether the answer has not come yet.
    ///
    /// # Panics
    /// If it has come already, to say what it is.
    #[track_caller]
    pub fn assert_waiting(&self) {
        match self.answer.try_recv() {
            Err(TryRecvError::Empty) => {}
            other => panic!("the request should wait, but was answered: {other:?}"),
        }
    }
}

/// A connected client.
pub struct Client {
    target: Arc<dyn Target>,
    id: ClientId,
    asts: Receiver<Ast>,
    grant: std::cell::Cell<u64>,
}

/// Bytes that differ at every offset nearby, by `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[expect(missing_docs, reason = "each is the operation of that name")]
impl Client {
    /// Connects to a target.
    ///
    /// # Panics
    /// If that fails.
    #[track_caller]
    pub fn connect(target: Arc<dyn Target>) -> Self {
        let (tx, asts) = channel();
        let (id, grant) = target.connect(Arc::new(Callbacks(RankedMutex::new(LockRank::Leaf, tx)))).expect("connect");
        Self { target, id, asts, grant: grant.into() }
    }

    /// The id that the target gave.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// Grant that this client was given and hasn't used.
    pub fn grant(&self) -> u64 {
        self.grant.get()
    }

    /// Sends a request.
    pub fn start(&self, op: Op, keep: Vec<Arc<Buffer>>) -> Pending {
        let (tx, answer) = channel();
        let mut held = keep.clone();
        let done = move |result| {
            held.clear();
            let _ = tx.send(result);
        };
        self.target.submit(self.id, op, Box::new(done));
        Pending { answer, _keep: keep }
    }

    /// Sends a request and waits for the answer.
    #[track_caller]
    pub fn call(&self, op: Op) -> Result<Reply> {
        self.start(op, Vec::new()).wait()
    }

    #[track_caller]
    pub fn create(&self, fid: Fid) -> Result<()> {
        self.call(Op::Create(fid)).map(|_| ())
    }

    /// A write of `data` at `offset` under `lock`.
    pub fn start_write(&self, fid: Fid, offset: u64, data: &[u8], lock: Option<DlmHandle>, grant: u64) -> Pending {
        let buffer = Arc::new(Buffer::new(data));
        let bulk = Bulk::from_elem(buffer.segment(0, data.len(), offset), 1);
        let op = Op::Write { fid, bulk, checksum: None, lock, grant, mtime: 1, sync: false };
        self.start(op, vec![buffer])
    }

    /// A lockless write.
    #[track_caller]
    pub fn write(&self, fid: Fid, offset: u64, data: &[u8]) -> Result<Lvb> {
        self.write_under(fid, offset, data, None, 0)
    }

    /// A write under `lock` that uses up `grant`.
    #[track_caller]
    pub fn write_under(&self, fid: Fid, offset: u64, data: &[u8], lock: Option<DlmHandle>, grant: u64) -> Result<Lvb> {
        match self.start_write(fid, offset, data, lock, grant).wait()? {
            Reply::Written { grant: new, lvb } => {
                self.grant.set(self.grant.get() - grant + new);
                Ok(lvb)
            }
            other => panic!("a write was answered with {other:?}"),
        }
    }

    /// A read of `len` bytes into memory that isn't zero before; with it the size that came with the reply. The checksum
    /// must be that of what was read.
    #[track_caller]
    pub fn read(&self, fid: Fid, offset: u64, len: usize) -> Result<(Vec<u8>, u64)> {
        let (pending, buffer) = self.start_read(fid, offset, len);
        match pending.wait()? {
            Reply::Read { size, checksum } => {
                let content = buffer.content();
                assert_eq!(checksum, Some(crc32c::crc32c(&content)), "checksum of {len} bytes at {offset}");
                Ok((content, size))
            }
            other => panic!("a read was answered with {other:?}"),
        }
    }

    pub fn start_read(&self, fid: Fid, offset: u64, len: usize) -> (Pending, Arc<Buffer>) {
        let buffer = Arc::new(Buffer::new(&vec![0xee; len]));
        let bulk = Bulk::from_elem(buffer.segment(0, len, offset), 1);
        (self.start(Op::Read { fid, bulk, checksum: true }, vec![buffer.clone()]), buffer)
    }

    #[track_caller]
    pub fn punch(&self, fid: Fid, extent: Extent, mtime: u64) -> Result<()> {
        self.call(Op::Punch { fid, extent, lock: None, mtime }).map(|_| ())
    }

    #[track_caller]
    pub fn punch_under(&self, fid: Fid, extent: Extent, lock: DlmHandle) -> Result<()> {
        self.call(Op::Punch { fid, extent, lock: Some(lock), mtime: 1 }).map(|_| ())
    }

    #[track_caller]
    pub fn truncate(&self, fid: Fid, size: u64) -> Result<()> {
        self.punch(fid, Extent::new(size, Extent::EOF), 1)
    }

    #[track_caller]
    pub fn getattr(&self, fid: Fid) -> Result<clio_core::attr::Attr> {
        match self.call(Op::GetAttr(fid))? {
            Reply::Attr(attr) => Ok(attr),
            other => panic!("getattr was answered with {other:?}"),
        }
    }

    #[track_caller]
    pub fn seek(&self, fid: Fid, offset: u64, hole: bool) -> Result<u64> {
        match self.call(Op::Seek { fid, offset, hole })? {
            Reply::Offset(at) => Ok(at),
            other => panic!("seek was answered with {other:?}"),
        }
    }

    pub fn start_lock(&self, fid: Fid, extent: Extent, mode: LockMode, flags: EnqueueFlags) -> Pending {
        self.start(Op::Enqueue { fid, extent, mode, flags }, Vec::new())
    }

    /// Locks exactly `extent`.
    #[track_caller]
    pub fn lock(&self, fid: Fid, extent: Extent, mode: LockMode) -> DlmHandle {
        let flags = EnqueueFlags { exact: true, ..EnqueueFlags::default() };
        granted(self.start_lock(fid, extent, mode, flags).wait())
    }

    #[track_caller]
    pub fn glimpse(&self, fid: Fid) -> Lvb {
        let flags = EnqueueFlags { glimpse: true, ..EnqueueFlags::default() };
        match self.start_lock(fid, Extent::WHOLE, LockMode::Pr, flags).wait() {
            Ok(Reply::Granted { handle, lvb, .. }) => {
                handle.into_iter().for_each(|h| self.cancel(h));
                lvb
            }
            other => panic!("a glimpse was answered with {other:?}"),
        }
    }

    #[track_caller]
    pub fn cancel(&self, handle: DlmHandle) {
        assert_eq!(self.call(Op::Cancel(handle)).expect("cancel"), Reply::Done);
    }

    #[track_caller]
    pub fn return_grant(&self, bytes: u64) {
        assert_eq!(self.call(Op::ReturnGrant { bytes }).expect("return of grant"), Reply::Done);
        self.grant.set(self.grant.get() - bytes);
    }

    #[track_caller]
    pub fn disconnect(&self) {
        assert_eq!(self.call(Op::Disconnect).expect("disconnect"), Reply::Done);
    }

    /// The next thing the target tells.
    #[track_caller]
    pub fn next_ast(&self) -> Ast {
        self.asts.recv_timeout(HANG).expect("an AST")
    }

    /// Waits for a blocking AST for `handle`.
    #[track_caller]
    pub fn expect_blocking(&self, handle: DlmHandle) {
        match self.next_ast() {
            Ast::Blocking(h) => assert_eq!(h, handle),
            other => panic!("expected a blocking AST for {handle:?}, got {other:?}"),
        }
    }

    /// Makes sure that the target has told nothing.
    #[track_caller]
    pub fn assert_no_ast(&self) {
        if let Ok(ast) = self.asts.try_recv() {
            panic!("unexpected {ast:?}");
        }
    }
}

/// The handle of a lock that must have been granted.
#[track_caller]
pub(super) fn granted(result: Result<Reply>) -> DlmHandle {
    match result {
        Ok(Reply::Granted { handle: Some(handle), .. }) => handle,
        other => panic!("expected a lock, got {other:?}"),
    }
}

/// Makes sure of an error.
#[track_caller]
pub(super) fn fails<T: std::fmt::Debug>(result: Result<T>, errno: Errno) {
    match result {
        Err(e) => assert_eq!(e.errno(), errno, "{e}"),
        Ok(v) => panic!("expected {errno:?}, got {v:?}"),
    }
}
