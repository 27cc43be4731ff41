//! The memory target's capacity.

use clio_core::Errno;
use clio_core::target::Op;
use clio_core::units::{Extent, Fid};
use clio_targets::conformance::Client;
use clio_targets::{MemOptions, MemTarget, ObjectStore};
use std::sync::Arc;

const FID: Fid = Fid { seq: 1, oid: 2, ver: 3 };

#[test]
fn a_full_target_says_so_and_what_is_freed_can_be_used_again() {
    let options = MemOptions { capacity: 10 * 4096, ..MemOptions::default() };
    let target = Arc::new(MemTarget::in_memory(options));
    let client = Client::connect(target.clone());
    assert_eq!(client.grant(), 10 * 4096, "no more is promised than there is");
    client.write(FID, 0, &[1; 8 * 4096]).unwrap();
    let other = Fid::new(9, 9);
    let e = client.write(other, 0, &[2; 3 * 4096]).unwrap_err();
    assert_eq!(e.errno(), Errno::ENOSPC);
    assert!(e.to_string().contains("32768 of 40960 bytes"), "{e}");
    assert_eq!(client.getattr(other).unwrap().size, 0, "all or nothing");
    client.write(FID, 0, &[3; 8 * 4096]).unwrap();
    client.punch(FID, Extent::new(0, 4096), 1).unwrap();
    client.write(other, 0, &[2; 3 * 4096]).unwrap();
    client.call(Op::Destroy(FID)).unwrap();
    client.truncate(other, 0).unwrap();
    assert_eq!(target.store().space().unwrap().free, 10 * 4096);
}
