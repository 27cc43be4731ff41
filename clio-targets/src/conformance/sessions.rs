//! Clients that come and go.

use super::client::{fails, granted};
use super::{Client, Fixture, pattern};
use clio_core::Errno;
use clio_core::target::{EnqueueFlags, LockMode, Op};
use clio_core::units::{Extent, Fid};

const FID: Fid = Fid { seq: 0x200, oid: 13, ver: 0 };

/// Who is not connected gets ESTALE for everything.
pub fn strangers_are_refused(f: &Fixture) {
    let gone = f.client();
    gone.disconnect();
    fails(gone.call(Op::GetAttr(FID)), Errno::ESTALE);
    fails(gone.create(FID), Errno::ESTALE);
    fails(gone.write(FID, 0, b"x"), Errno::ESTALE);
    fails(gone.read(FID, 0, 1), Errno::ESTALE);
    fails(gone.start_lock(FID, Extent::WHOLE, LockMode::Pr, EnqueueFlags::default()).wait(), Errno::ESTALE);
    fails(gone.call(Op::Cancel(clio_core::target::DlmHandle(1))), Errno::ESTALE);
    fails(gone.call(Op::ReturnGrant { bytes: 1 }), Errno::ESTALE);
    fails(gone.call(Op::Disconnect), Errno::ESTALE);
    let back = f.client();
    assert_ne!(back.id(), gone.id());
    assert_eq!(back.getattr(FID).unwrap().size, 0);
}

/// The locks of a client go with it.
pub fn disconnect_frees_locks(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, Extent::WHOLE, LockMode::Pw);
    let waits = b.start_lock(FID, Extent::WHOLE, LockMode::Pw, EnqueueFlags::default());
    a.expect_blocking(held);
    waits.assert_waiting();
    a.disconnect();
    granted(waits.wait());
}

/// So do its requests for locks, and they are answered.
pub fn disconnect_answers_those_who_wait(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    let held = a.lock(FID, Extent::WHOLE, LockMode::Pw);
    let lock = b.start_lock(FID, Extent::WHOLE, LockMode::Pw, EnqueueFlags::default());
    let write = b.start_write(FID, 0, b"too late", None, 0);
    a.expect_blocking(held);
    b.disconnect();
    fails(lock.wait(), Errno::ESHUTDOWN);
    a.cancel(held);
    fails(write.wait(), Errno::ESTALE);
    assert_eq!(a.getattr(FID).unwrap().size, 0, "nothing of a client that has gone is written");
}

/// Many requests of several threads at once: every completion comes, and the data is right.
pub fn each_request_is_answered_once(f: &Fixture) {
    std::thread::scope(|scope| {
        for t in 0..4u32 {
            let target = f.target.clone();
            scope.spawn(move || {
                let client = Client::connect(target);
                let fid = |i: u32| Fid::new(u64::from(t), i % 5);
                let data = |i: u32| pattern(u64::from(t * 1000 + i), 3000);
                let offset = |i: u32| u64::from(i / 5) * 3000;
                let writes: Vec<_> =
                    (0..100).map(|i| client.start_write(fid(i), offset(i), &data(i), None, 0)).collect();
                for write in writes {
                    write.wait().unwrap();
                }
                let reads: Vec<_> = (0..100).map(|i| client.start_read(fid(i), offset(i), 3000)).collect();
                for (i, (pending, buffer)) in reads.into_iter().enumerate() {
                    pending.wait().unwrap();
                    assert!(buffer.content() == data(i as u32), "thread {t}, request {i}");
                }
                client.disconnect();
            });
        }
    });
}
