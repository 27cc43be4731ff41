//! Grants: what a target gives, its clients hold.

use super::client::fails;
use super::{Client, Fixture};
use clio_core::Errno;
use clio_core::target::{LockMode, Op};
use clio_core::units::{Extent, Fid};

const FID: Fid = Fid { seq: 0x200, oid: 11, ver: 0 };

/// Target and clients agree on what each holds.
#[track_caller]
fn agree(f: &Fixture, clients: &[&Client]) {
    let Some(grants) = &f.grants else { return };
    let stats = grants();
    let mut held: Vec<_> = clients.iter().map(|c| (c.id(), c.grant())).collect();
    held.sort_unstable();
    assert_eq!(stats.held, held);
    assert_eq!(stats.given, held.iter().map(|h| h.1).sum::<u64>());
}

/// Through writes of all kinds.
pub fn grants_are_conserved(f: &Fixture) {
    let (a, b) = (f.client(), f.client());
    assert!(a.grant() >= 1 << 20, "a new client can dirty something");
    agree(f, &[&a, &b]);
    let lock = a.lock(FID, Extent::new(0, 1 << 20), LockMode::Pw);
    for i in 0..50u64 {
        let before = a.grant();
        a.write_under(FID, i * 4096, &[1; 4096], Some(lock), 4096).unwrap();
        assert!(a.grant() >= before, "what was used is given again while there is space");
        b.write_under(Fid::new(9, i as u32), 0, &[2; 100], None, 8192).unwrap();
        b.write(FID, 1 << 21, b"no grant").unwrap();
        agree(f, &[&a, &b]);
    }
    b.disconnect();
    agree(f, &[&a]);
}

/// Given back, it can be used no more.
pub fn returned_grant_is_gone(f: &Fixture) {
    let a = f.client();
    a.return_grant(a.grant() - 100);
    agree(f, &[&a]);
    fails(a.write_under(FID, 0, &[1; 10], None, 101), Errno::EPROTO);
    a.write_under(FID, 0, &[1; 10], None, 100).unwrap();
    agree(f, &[&a]);
    assert!(a.grant() > 100, "a client that writes again is given some again");
}

/// Nobody uses what isn't theirs.
pub fn more_than_was_given_is_refused(f: &Fixture) {
    let a = f.client();
    fails(a.write_under(FID, 0, &[1; 10], None, a.grant() + 1), Errno::EPROTO);
    fails(a.write_under(FID, 0, &[1; 10], None, u64::MAX), Errno::EPROTO);
    assert_eq!(a.getattr(FID).unwrap().size, 0);
    agree(f, &[&a]);
}

/// An error takes no grant, wherever it arises.
pub fn a_failed_write_uses_none(f: &Fixture) {
    let a = f.client();
    let lock = a.lock(FID, Extent::new(0, 4096), LockMode::Pw);
    fails(a.write_under(FID, 4096, &[1; 10], Some(lock), 4096), Errno::EINVAL);
    a.cancel(lock);
    fails(a.write_under(FID, 0, &[1; 10], Some(lock), 4096), Errno::ESTALE);
    fails(a.write_under(FID, u64::MAX - 5, &[1; 10], None, 4096), Errno::EFBIG);
    let buffer = std::sync::Arc::new(super::Buffer::new(&[5; 10]));
    let bulk = clio_core::target::Bulk::from_elem(buffer.segment(0, 10, 0), 1);
    let op = Op::Write { fid: FID, bulk, checksum: Some(1), lock: None, grant: 4096, mtime: 1, sync: false };
    fails(a.start(op, vec![buffer]).wait(), Errno::EBADMSG);
    agree(f, &[&a]);
}
