//! The wrappers do what they say.

use clio_core::Errno;
use clio_core::target::{Op, Target};
use clio_core::units::Fid;
use clio_targets::conformance::{Client, Fixture};
use clio_targets::wrap::{Fault, Faulty, Throttled};
use clio_targets::{MemOptions, MemTarget};
use std::sync::Arc;
use std::time::{Duration, Instant};

const FID: Fid = Fid { seq: 1, oid: 2, ver: 3 };

fn mem() -> Arc<dyn Target> {
    Arc::new(MemTarget::in_memory(MemOptions::default()))
}

mod throttled {
    use super::*;

    fn fixture() -> Fixture {
        let target = Arc::new(Throttled::new(mem(), 1 << 32));
        Fixture { target, grants: None, keep: Box::new(()) }
    }

    clio_targets::conformance_tests!(fixture);
}

mod faulty_without_faults {
    use super::*;

    fn fixture() -> Fixture {
        let target = Arc::new(Faulty::new(mem()));
        Fixture { target, grants: None, keep: Box::new(()) }
    }

    clio_targets::conformance_tests!(fixture);
}

#[test]
fn a_throttled_target_is_never_faster_than_its_rate() {
    let client = Client::connect(Arc::new(Throttled::new(mem(), 10 << 20)));
    let start = Instant::now();
    let writes: Vec<_> = (0..8u64).map(|i| client.start_write(FID, i << 17, &vec![1; 1 << 17], None, 0)).collect();
    for write in writes {
        write.wait().unwrap();
    }
    // 1 MiB at 10 MiB/s. A lower bound only: how much slower a loaded machine is, says nothing.
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[test]
fn dropping_a_throttled_target_answers_what_waits() {
    let target = Arc::new(Throttled::new(mem(), 1));
    let client = Client::connect(target.clone());
    let write = client.start_write(FID, 0, &[1; 4096], None, 0);
    write.assert_waiting();
    drop(client);
    drop(target);
    write.wait().unwrap();
}

#[test]
fn faults_hit_the_request_they_are_for() {
    let faulty = Arc::new(Faulty::new(mem()));
    let client = Client::connect(faulty.clone());
    faulty.fail_nth(1, Fault::Refuse(Errno::EIO), |op| matches!(op, Op::Write { .. }));
    client.write(FID, 0, b"aa").unwrap();
    client.create(Fid::new(9, 9)).unwrap();
    assert_eq!(client.write(FID, 0, b"bb").unwrap_err().errno(), Errno::EIO);
    client.write(FID, 2, b"cc").unwrap();
    assert_eq!(client.read(FID, 0, 4).unwrap().0, b"aacc");
    faulty.fail_nth(0, Fault::LoseReply(Errno::ETIMEDOUT), |op| matches!(op, Op::Write { .. }));
    assert_eq!(client.write(FID, 0, b"dd").unwrap_err().errno(), Errno::ETIMEDOUT);
    assert_eq!(client.read(FID, 0, 4).unwrap().0, b"ddcc", "carried out all the same");
    faulty.fail_nth(0, Fault::Delay(Duration::from_millis(1)), |_| true);
    client.write(FID, 0, b"ee").unwrap();
}

#[test]
fn what_is_held_comes_in_order_and_none_is_lost() {
    let faulty = Arc::new(Faulty::new(mem()));
    let client = Client::connect(faulty.clone());
    faulty.set_rule(|op| matches!(op, Op::Write { .. }).then_some(Fault::HoldRequest));
    let first = client.start_write(FID, 0, b"1", None, 0);
    let second = client.start_write(FID, 0, b"2", None, 0);
    first.assert_waiting();
    assert_eq!(client.getattr(FID).unwrap().size, 0, "the target has not seen it");
    faulty.set_rule(|op| matches!(op, Op::Write { .. }).then_some(Fault::HoldReply));
    let third = client.start_write(FID, 1, b"3", None, 0);
    third.assert_waiting();
    assert_eq!(client.read(FID, 0, 2).unwrap().0, b"\x003", "the target has");
    assert_eq!(faulty.held(), 3);
    assert_eq!(faulty.release(), 3);
    for write in [first, second, third] {
        write.wait().unwrap();
    }
    assert_eq!(client.read(FID, 0, 2).unwrap().0, b"23");
}
