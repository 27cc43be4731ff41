//! What happens while the store is at work.

use super::{Service, ServiceConfig};
use crate::conformance::{Ast, Client};
use crate::{BulkSums, Filled, MemStore, ObjectStore, Space};
use clio_core::attr::{Attr, AttrMask};
use clio_core::sync::atomic::{AtomicBool, Ordering};
use clio_core::sync::{Condvar, Mutex};
use clio_core::target::{BulkSegment, EnqueueFlags, LockMode, Op, Reply, Target};
use clio_core::units::{Extent, Fid, TargetIndex};
use clio_core::{Errno, Result};
use clio_dlm::DlmConfig;
use std::sync::Arc;

const FID: Fid = Fid { seq: 1, oid: 1, ver: 1 };
const FIRST: Extent = Extent { start: 0, end: 4096 };
const SECOND: Extent = Extent { start: 4096, end: 8192 };

/// Holds up calls until told.
#[derive(Debug, Default)]
struct Gate {
    closed: AtomicBool,
    waiting: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        self.changed.notify_all();
        while self.closed.load(Ordering::Relaxed) {
            waiting = self.changed.wait(waiting);
        }
        *waiting -= 1;
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Waits until `count` calls are held up.
    fn wait_for(&self, count: usize) {
        let mut waiting = self.waiting.lock();
        while *waiting < count {
            waiting = self.changed.wait(waiting);
        }
    }

    fn open(&self) {
        let _guard = self.waiting.lock();
        self.closed.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// A store in memory with gates before a write and after the attributes were read.
#[derive(Debug)]
struct Gated {
    inner: MemStore,
    writes: Gate,
    attrs: Gate,
}

impl ObjectStore for Gated {
    fn create(&self, fid: Fid) -> Result<()> {
        self.inner.create(fid)
    }
    fn destroy(&self, fid: Fid) -> Result<()> {
        self.inner.destroy(fid)
    }
    fn read(&self, fid: Fid, bulk: &[BulkSegment]) -> Result<Filled> {
        self.inner.read(fid, bulk)
    }
    fn write(&self, fid: Fid, bulk: &[BulkSegment], sums: Option<&BulkSums>, mtime: u64, sync: bool) -> Result<Attr> {
        self.writes.pass();
        self.inner.write(fid, bulk, sums, mtime, sync)
    }
    fn punch(&self, fid: Fid, extent: Extent, mtime: u64) -> Result<Attr> {
        self.inner.punch(fid, extent, mtime)
    }
    fn getattr(&self, fid: Fid) -> Result<Attr> {
        let attr = self.inner.getattr(fid);
        self.attrs.pass();
        attr
    }
    fn setattr(&self, fid: Fid, attr: &Attr, mask: AttrMask) -> Result<Attr> {
        self.inner.setattr(fid, attr, mask)
    }
    fn sync(&self, fid: Fid) -> Result<()> {
        self.inner.sync(fid)
    }
    fn seek(&self, fid: Fid, offset: u64, hole: bool) -> Result<u64> {
        self.inner.seek(fid, offset, hole)
    }
    fn space(&self) -> Result<Space> {
        self.inner.space()
    }
    fn count(&self) -> Result<u64> {
        self.inner.count()
    }
}

fn service(dlm: DlmConfig) -> Arc<Service<Gated>> {
    let store = Gated { inner: MemStore::new(1 << 30), writes: Gate::default(), attrs: Gate::default() };
    Arc::new(Service::pooled(TargetIndex(0), store, 4, 100, ServiceConfig { dlm, ..ServiceConfig::default() }))
}

#[test]
fn a_lock_outlives_the_writes_under_it() {
    let service = service(DlmConfig::default());
    let (a, b) = (Client::connect(service.clone()), Client::connect(service.clone()));
    let held = a.lock(FID, FIRST, LockMode::Pw);
    service.store().writes.close();
    let write = a.start_write(FID, 0, b"first", Some(held), 0);
    service.store().writes.wait_for(1);
    a.cancel(held);
    assert_eq!(a.write_under(FID, 0, b"x", Some(held), 0).unwrap_err().errno(), Errno::ESTALE);
    let waits = b.start_lock(FID, FIRST, LockMode::Pw, EnqueueFlags::default());
    waits.assert_waiting();
    service.store().writes.open();
    write.wait().unwrap();
    let Reply::Granted { lvb, .. } = waits.wait().unwrap() else { panic!() };
    assert_eq!(lvb.size, 5);
}

#[test]
fn locks_of_one_client_cover_a_read_together() {
    let service = service(DlmConfig::default());
    let a = Client::connect(service.clone());
    let exact = EnqueueFlags { exact: true, ..EnqueueFlags::default() };
    a.write(FID, 0, &[7; 12288]).unwrap();
    for extent in [FIRST, SECOND] {
        a.start_lock(FID, extent, LockMode::Pw, exact).wait().unwrap();
    }
    // To ask for a lock over both would be to wait for the very locks that the read is made under.
    assert_eq!(a.read(FID, 10, 8182).unwrap().0, vec![7; 8182]);
    a.assert_no_ast();
    // What they leave out is locked apart: the read need not wait for them.
    assert_eq!(a.read(FID, 10, 12278).unwrap().0, vec![7; 12278]);
    a.assert_no_ast();
}

#[test]
fn a_client_goes_when_its_writes_are_done() {
    let service = service(DlmConfig::default());
    let (a, b) = (Client::connect(service.clone()), Client::connect(service.clone()));
    let held = a.lock(FID, FIRST, LockMode::Pw);
    service.store().writes.close();
    let write = a.start_write(FID, 0, b"last", Some(held), 4096);
    service.store().writes.wait_for(1);
    let gone = a.start(Op::Disconnect, Vec::new());
    let waits = b.start_lock(FID, FIRST, LockMode::Pw, EnqueueFlags::default());
    gone.assert_waiting();
    waits.assert_waiting();
    assert_eq!(a.getattr(FID).unwrap_err().errno(), Errno::ESTALE);
    service.store().writes.open();
    write.wait().unwrap();
    gone.wait().unwrap();
    waits.wait().unwrap();
    assert_eq!(service.grants().held, [(b.id(), b.grant())]);
}

#[test]
fn an_eviction_lets_nobody_in_before_the_last_write_has_ended() {
    let service = service(DlmConfig { blocking_timeout_ms: 1, ..DlmConfig::default() });
    let [a, b, c] = [(); 3].map(|()| Client::connect(service.clone()));
    let first = a.lock(FID, FIRST, LockMode::Pw);
    let second = a.lock(FID, SECOND, LockMode::Pw);
    service.store().writes.close();
    let write = a.start_write(FID, 4096, b"late", Some(second), 4096);
    service.store().writes.wait_for(1);
    // The write keeps the second lock from running out, but the first does, and with it goes all that `a` has.
    let on_first = b.start_lock(FID, FIRST, LockMode::Pw, EnqueueFlags { exact: true, ..Default::default() });
    let on_second = c.start_lock(FID, SECOND, LockMode::Pw, EnqueueFlags { exact: true, ..Default::default() });
    while service.lock_counts().waiting > 0 {
        std::thread::yield_now();
    }
    on_first.assert_waiting();
    on_second.assert_waiting();
    assert_eq!(a.write_under(FID, 0, b"x", Some(first), 0).unwrap_err().errno(), Errno::ESTALE);
    service.store().writes.open();
    write.wait().unwrap();
    on_first.wait().unwrap();
    let Reply::Granted { lvb, .. } = on_second.wait().unwrap() else { panic!() };
    assert_eq!(lvb.size, 4100, "the late write is known to who comes after it");
    loop {
        match a.next_ast() {
            Ast::Evicted => break,
            Ast::Blocking(h) => assert!(h == first || h == second),
            other => panic!("{other:?}"),
        }
    }
    a.write(FID, 8192, b"a client that was evicted may go on without its locks").unwrap();
}

#[test]
fn attributes_that_change_while_they_are_read_are_read_again() {
    let service = service(DlmConfig::default());
    let (a, b) = (Client::connect(service.clone()), Client::connect(service.clone()));
    a.create(FID).unwrap();
    service.store().attrs.close();
    let lock = a.start_lock(FID, FIRST, LockMode::Pr, EnqueueFlags::default());
    service.store().attrs.wait_for(1);
    b.truncate(FID, 777).unwrap();
    service.store().attrs.open();
    let Reply::Granted { lvb, .. } = lock.wait().unwrap() else { panic!() };
    assert_eq!(lvb.size, 777);
}

#[test]
fn a_target_that_closes_answers_everybody() {
    let service = service(DlmConfig::default());
    let target: Arc<dyn clio_core::target::Target> = service.clone();
    let (a, b) = (Client::connect(target.clone()), Client::connect(target.clone()));
    let held = a.lock(FID, FIRST, LockMode::Pw);
    let lock = b.start_lock(FID, FIRST, LockMode::Pw, EnqueueFlags::default());
    let write = b.start_write(FID, 0, b"lockless", None, 4096);
    a.expect_blocking(held);
    drop((a, b, target));
    drop(service);
    assert_eq!(lock.wait().unwrap_err().errno(), Errno::ESHUTDOWN);
    assert_eq!(write.wait().unwrap_err().errno(), Errno::ESHUTDOWN);
}

#[test]
fn a_glimpse_that_nobody_answers_ends_in_time() {
    let service = service(DlmConfig { glimpse_timeout_ms: 1, ..DlmConfig::default() });
    let (a, b) = (Client::connect(service.clone()), Client::connect(service.clone()));
    a.lock(FID, FIRST, LockMode::Pw);
    let glimpse = EnqueueFlags { glimpse: true, ..EnqueueFlags::default() };
    let waits = b.start_lock(FID, Extent::WHOLE, LockMode::Pr, glimpse);
    let Ast::Glimpse(_, never) = a.next_ast() else { panic!() };
    assert!(matches!(waits.wait().unwrap(), Reply::Granted { handle: None, .. }));
    // Too late changes nothing.
    never(clio_core::attr::Lvb { size: 9, ..Default::default() });
}

/// Found by fuzzing: the lock manager knows the service as client 0, so that a request in its name got a lock.
#[test]
fn nobody_speaks_for_the_service() {
    let service = service(DlmConfig::default());
    for id in [super::state::SERVER, clio_core::units::ClientId(u64::MAX)] {
        let (tell, answer) = std::sync::mpsc::channel();
        let (extent, mode, flags) = (FIRST, LockMode::Pr, EnqueueFlags::default());
        let done = Box::new(move |result| tell.send(result).unwrap());
        service.submit(id, Op::Enqueue { fid: FID, extent, mode, flags }, done);
        assert_eq!(answer.recv().unwrap().unwrap_err().errno(), Errno::ESTALE);
    }
    assert_eq!(service.lock_counts().granted, 0);
}
