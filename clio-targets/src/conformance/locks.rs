//! Locks between clients.

use super::client::{Ast, fails, granted};
use super::{Fixture, pattern};
use clio_core::Errno;
use clio_core::attr::Lvb;
use clio_core::target::DlmHandle;
use clio_core::target::{EnqueueFlags, GlimpseReply, LockMode, Op, Reply, Target, TargetClient};
use clio_core::units::{Extent, Fid, TargetIndex};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

const FID: Fid = Fid { seq: 0x200, oid: 9, ver: 0 };
const FIRST: Extent = Extent { start: 0, end: 4096 };
const SECOND: Extent = Extent { start: 4096, end: 8192 };
const PLAIN: EnqueueFlags = EnqueueFlags { try_lock: false, glimpse: false, mandatory: false, exact: false };

/// The holder is asked once; when it cancels, who waited gets the lock.
pub fn a_conflict_is_called_back_and_granted_after(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, FIRST, LockMode::Pw);
    let waits = b.start_lock(FID, FIRST, LockMode::Pw, PLAIN);
    a.expect_blocking(held);
    waits.assert_waiting();
    a.write_under(FID, 0, &pattern(1, 4096), Some(held), 0).unwrap();
    a.cancel(held);
    match waits.wait().unwrap() {
        Reply::Granted { handle: Some(h), mode, extent, lvb, blocking, .. } => {
            assert_ne!(h, held, "handles are never used again");
            assert_eq!(mode, LockMode::Pw);
            assert!(extent.covers(FIRST));
            assert_eq!(lvb.size, 4096, "what was written before is known with the grant");
            assert!(!blocking);
        }
        other => panic!("{other:?}"),
    }
    a.assert_no_ast();
    let other = a.start_lock(Fid::new(1, 1), FIRST, LockMode::Pw, PLAIN).wait();
    granted(other);
    b.assert_no_ast();
}

/// A try-lock is granted or refused at once.
pub fn try_locks_dont_wait(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let flags = EnqueueFlags { try_lock: true, exact: true, ..PLAIN };
    let held = a.lock(FID, FIRST, LockMode::Pr);
    fails(b.start_lock(FID, FIRST, LockMode::Pw, flags).wait(), Errno::EAGAIN);
    granted(b.start_lock(FID, FIRST, LockMode::Pr, flags).wait());
    granted(b.start_lock(FID, SECOND, LockMode::Pw, flags).wait());
    a.cancel(held);
}

/// A glimpse learns the size from the writer's cache, and takes nothing from it.
pub fn glimpses_ask_the_writer(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    a.write(FID, 0, b"stored").unwrap();
    let held = granted(a.start_lock(FID, Extent::WHOLE, LockMode::Pw, PLAIN).wait());
    let flags = EnqueueFlags { glimpse: true, ..PLAIN };
    let glimpse = b.start_lock(FID, Extent::WHOLE, LockMode::Pr, flags);
    match a.next_ast() {
        Ast::Glimpse(h, reply) => {
            assert_eq!(h, held);
            glimpse.assert_waiting();
            reply(Lvb { size: 1 << 40, mtime: 77, ..Lvb::default() });
        }
        other => panic!("{other:?}"),
    }
    match glimpse.wait().unwrap() {
        Reply::Granted { handle: None, lvb, .. } => assert_eq!((lvb.size, lvb.mtime), (1 << 40, 77)),
        other => panic!("{other:?}"),
    }
    a.write_under(FID, 0, b"still mine", Some(held), 0).unwrap();
    a.assert_no_ast();
    a.cancel(held);
    assert_eq!(b.glimpse(FID).size, 10, "with nobody in the way, what is stored");
}

/// A holder that knows nothing better delays nobody.
pub fn glimpses_without_answer_tell_what_is_stored(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    a.write(FID, 0, b"stored").unwrap();
    granted(a.start_lock(FID, Extent::WHOLE, LockMode::Pw, PLAIN).wait());
    let glimpse = b.start_lock(FID, Extent::WHOLE, LockMode::Pr, EnqueueFlags { glimpse: true, ..PLAIN });
    match a.next_ast() {
        Ast::Glimpse(_, reply) => drop(reply),
        other => panic!("{other:?}"),
    }
    match glimpse.wait().unwrap() {
        Reply::Granted { handle: None, lvb, .. } => assert_eq!(lvb.size, 6),
        other => panic!("{other:?}"),
    }
}

/// Size and times with a grant are those of the object as it is now, also after it got smaller.
pub fn attributes_come_with_the_lock(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let lvb = |client: &super::Client| {
        let flags = EnqueueFlags { exact: true, ..PLAIN };
        match client.start_lock(FID, SECOND, LockMode::Pr, flags).wait().unwrap() {
            Reply::Granted { handle: Some(h), lvb, .. } => {
                client.cancel(h);
                lvb
            }
            other => panic!("{other:?}"),
        }
    };
    a.write(FID, 0, &[1; 10_000]).unwrap();
    assert_eq!(lvb(&b).size, 10_000);
    // The resource lives on under this lock: what changes has to reach it.
    let held = a.lock(FID, FIRST, LockMode::Pw);
    a.write_under(FID, 0, b"x", Some(held), 0).unwrap();
    b.write(FID, 20_000, b"y").unwrap();
    assert_eq!(lvb(&b).size, 20_001);
    a.truncate(FID, 5).unwrap();
    assert_eq!(lvb(&b).size, 5);
    let attr = clio_core::attr::Attr { mtime: 12_345, ..Default::default() };
    a.call(Op::SetAttr { fid: FID, attr, mask: clio_core::attr::AttrMask::MTIME }).unwrap();
    assert_eq!((lvb(&b).size, lvb(&b).mtime), (5, 12_345));
    a.cancel(held);
    a.call(Op::Destroy(FID)).unwrap();
    assert_eq!(lvb(&b).size, 0);
}

/// So does a punch or a truncate that names one: those of a client that has lost its lock change nothing.
pub fn a_punch_needs_its_lock(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, FIRST, LockMode::Pw);
    a.write_under(FID, 0, &[1; 4096], Some(held), 0).unwrap();
    fails(b.punch_under(FID, FIRST, held), Errno::ESTALE);
    fails(a.punch_under(FID, Extent::new(10, Extent::EOF), held), Errno::EINVAL);
    fails(a.punch_under(Fid::new(8, 8), FIRST, held), Errno::ESTALE);
    a.punch_under(FID, Extent::new(0, 100), held).unwrap();
    a.cancel(held);
    fails(a.punch_under(FID, Extent::new(0, 200), held), Errno::ESTALE);
    let rest = a.lock(FID, Extent::WHOLE, LockMode::Pw);
    a.punch_under(FID, Extent::new(4000, Extent::EOF), rest).unwrap();
    a.cancel(rest);
    let mut expected = [1; 4000];
    expected[..100].fill(0);
    assert_eq!(b.read(FID, 0, 4096).unwrap().0[..4000], expected);
    assert_eq!(b.getattr(FID).unwrap().size, 4000);
}

/// A write names a lock of its own client that allows it.
pub fn a_write_needs_its_lock(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, FIRST, LockMode::Pw);
    fails(b.write_under(FID, 0, b"x", Some(held), 0), Errno::ESTALE);
    fails(a.write_under(FID, 4095, b"xy", Some(held), 0), Errno::EINVAL);
    fails(a.write_under(Fid::new(8, 8), 0, b"x", Some(held), 0), Errno::ESTALE);
    let reading = a.lock(FID, SECOND, LockMode::Pr);
    fails(a.write_under(FID, 5000, b"x", Some(reading), 0), Errno::EINVAL);
    a.cancel(held);
    fails(a.write_under(FID, 0, b"x", Some(held), 0), Errno::ESTALE);
    assert_eq!(a.getattr(FID).unwrap().size, 0, "nothing was written");
}

/// The target takes a lock for a write that has none.
pub fn lockless_writes_wait_for_locks(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, FIRST, LockMode::Pr);
    let waits = b.start_write(FID, 4000, &[2; 200], None, 0);
    a.expect_blocking(held);
    waits.assert_waiting();
    assert_eq!(a.read(FID, 4000, 96).unwrap().0, [0; 96], "not written while somebody reads");
    b.write(FID, 8192, b"elsewhere").unwrap();
    a.cancel(held);
    waits.wait().unwrap();
    assert_eq!(b.read(FID, 4000, 200).unwrap().0, [2; 200]);
    granted(a.start_lock(FID, Extent::WHOLE, LockMode::Pw, EnqueueFlags { try_lock: true, ..PLAIN }).wait());
}

/// And for a read.
pub fn lockless_reads_wait_for_locks(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, FIRST, LockMode::Pw);
    let (waits, buffer) = b.start_read(FID, 0, 100);
    a.expect_blocking(held);
    waits.assert_waiting();
    a.write_under(FID, 0, &[3; 100], Some(held), 0).unwrap();
    a.cancel(held);
    waits.wait().unwrap();
    assert_eq!(buffer.content(), [3; 100], "a read sees what the lock was held for");
}

/// A client reads under its own locks, without asking itself to give them up.
pub fn reads_under_a_lock_dont_wait(f: &Fixture) {
    let a = f.client();
    let first = a.lock(FID, FIRST, LockMode::Pw);
    a.write_under(FID, 0, &[4; 4096], Some(first), 0).unwrap();
    assert_eq!(a.read(FID, 0, 4096).unwrap().0, [4; 4096]);
    a.assert_no_ast();
}

/// Nor where two of them cover the read together: a lock for the read would have to wait for both, and they for the read.
pub fn reads_under_two_locks_dont_wait(f: &Fixture) {
    let a = f.client();
    for (extent, byte) in [(FIRST, 5), (SECOND, 6)] {
        let lock = a.lock(FID, extent, LockMode::Pw);
        a.write_under(FID, extent.start, &[byte; 4096], Some(lock), 0).unwrap();
    }
    assert_eq!(a.read(FID, 96, 8000).unwrap().0, [[5; 4000], [6; 4000]].concat());
    a.assert_no_ast();
    // What they leave out, is asked of others alone.
    let (b, far) = (f.client(), Extent::new(16384, 20480));
    let held = b.lock(FID, far, LockMode::Pw);
    let (waits, buffer) = a.start_read(FID, 0, 20480);
    b.expect_blocking(held);
    waits.assert_waiting();
    b.write_under(FID, far.start, &[7; 4096], Some(held), 0).unwrap();
    b.cancel(held);
    waits.wait().unwrap();
    let want = [vec![5; 4096], vec![6; 4096], vec![0; 8192], vec![7; 4096]].concat();
    assert_eq!(buffer.content(), want);
    a.assert_no_ast();
}

/// Twice is once.
pub fn cancels_are_idempotent(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, FIRST, LockMode::Pw);
    b.cancel(held);
    fails(b.start_lock(FID, FIRST, LockMode::Pr, EnqueueFlags { try_lock: true, ..PLAIN }).wait(), Errno::EAGAIN);
    a.cancel(held);
    a.cancel(held);
    a.cancel(DlmHandle(u64::MAX));
    b.lock(FID, FIRST, LockMode::Pw);
}

/// Clients order locks by their handles, and use the highest bit themselves.
pub fn handles_grow(f: &Fixture) {
    let c = f.client();
    let mut last = DlmHandle(0);
    for block in 0..20 {
        let handle = c.lock(FID, Extent::with_len(block * 4096, 4096), LockMode::Pr);
        assert!(handle > last && handle.0 < 1 << 63, "{handle:?} after {last:?}");
        c.cancel(handle);
        last = handle;
    }
}

/// Readers don't disturb each other.
pub fn readers_share(f: &Fixture) {
    let clients: Vec<_> = (0..4).map(|_| f.client()).collect();
    for c in &clients {
        granted(c.start_lock(FID, Extent::WHOLE, LockMode::Pr, PLAIN).wait());
    }
    clients.iter().for_each(|c| c.assert_no_ast());
}

/// Members of a group neither.
pub fn groups_share(f: &Fixture) {
    let (a, b, c) = (f.client(), f.client(), f.client());
    let mine = granted(a.start_lock(FID, Extent::WHOLE, LockMode::Group(5), PLAIN).wait());
    let yours = granted(b.start_lock(FID, Extent::WHOLE, LockMode::Group(5), PLAIN).wait());
    a.write_under(FID, 0, b"aaaa", Some(mine), 0).unwrap();
    b.write_under(FID, 2, b"bb", Some(yours), 0).unwrap();
    let waits = c.start_lock(FID, FIRST, LockMode::Group(6), PLAIN);
    a.expect_blocking(mine);
    a.cancel(mine);
    b.cancel(yours);
    granted(waits.wait());
    assert_eq!(c.read(FID, 0, 4).unwrap().0, b"aabb");
}

/// Cancels from within the callback.
struct Obliging {
    target: Weak<dyn Target>,
    id: std::sync::OnceLock<clio_core::units::ClientId>,
    done: clio_core::lockrank::RankedMutex<Sender<()>>,
}

impl TargetClient for Obliging {
    fn blocking_ast(&self, _: TargetIndex, handle: DlmHandle) {
        let (Some(target), Some(id)) = (self.target.upgrade(), self.id.get()) else { return };
        let done = self.done.lock().clone();
        let told = move |result: clio_core::Result<Reply>| {
            assert_eq!(result.unwrap(), Reply::Done);
            let _ = done.send(());
        };
        target.submit(*id, Op::Cancel(handle), Box::new(told));
    }

    fn glimpse_ast(&self, _: TargetIndex, _: DlmHandle, reply: GlimpseReply) {
        reply(Lvb { size: 4242, ..Lvb::default() });
    }

    fn evicted(&self, _: TargetIndex) {}
}

/// A callback may call the target again.
pub fn callbacks_may_submit(f: &Fixture) {
    let (tx, cancelled) = channel();
    let rank = clio_core::lockrank::LockRank::Leaf;
    let client = Arc::new(Obliging {
        target: Arc::downgrade(&f.target),
        id: std::sync::OnceLock::new(),
        done: clio_core::lockrank::RankedMutex::new(rank, tx),
    });
    let (id, _) = f.target.connect(client.clone()).unwrap();
    client.id.set(id).unwrap();
    let (tx, rx) = channel();
    let op = Op::Enqueue { fid: FID, extent: Extent::WHOLE, mode: LockMode::Pw, flags: PLAIN };
    f.target.submit(id, op, Box::new(move |r| tx.send(r).unwrap()));
    granted(rx.recv().unwrap());
    let other = f.client();
    assert_eq!(other.glimpse(FID).size, 4242);
    granted(other.start_lock(FID, Extent::WHOLE, LockMode::Pw, PLAIN).wait());
    cancelled.recv().unwrap();
}
