//! Staging, write-out and reads.

use super::script::Kind;
use super::*;
use clio_core::page::PageState;
use clio_core::units::PageIndex;

#[test]
fn what_is_written_arrives_and_is_read_back() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    let data = pattern(700_000, 1);
    assert_eq!(file.write_at(&c.env, &data, 1234).expect("write"), data.len());
    c.check();
    assert!(target.log(Kind::Write).is_empty(), "write-behind");
    let mut buf = vec![0; data.len() + 5000];
    assert_eq!(file.read_at(&c.env, &mut buf, 1000).expect("read"), data.len() + 234, "short at the end");
    assert_eq!(&buf[..234], [0; 234]);
    assert_eq!(&buf[234..data.len() + 234], &data[..]);
    file.fsync(&c.env).expect("fsync");
    let sent: u64 = target.log(Kind::Write).iter().map(|w| w.bytes).sum();
    assert_eq!(sent, data.len() as u64, "exactly the bytes written");
    drop(file);
    // A second client reads what is at the target.
    let d = Client::new(&target, config());
    let mut again = vec![0; data.len()];
    assert_eq!(d.open(1).read_at(&d.env, &mut again, 1234).expect("read"), data.len());
    assert_eq!(again, data);
    c.end(&target);
    d.end(&target);
}

#[test]
fn a_full_rpc_goes_out_by_itself() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { max_rpc_bytes: MB, ..config() });
    let file = c.open(1);
    let step = 64 * KB;
    for at in (0..3 * MB).step_by(step as usize) {
        file.write_at(&c.env, &pattern(step as usize, at as u8), at).expect("write");
    }
    eventually("all that fills RPCs is sent", || target.log(Kind::Write).len() == 3);
    let writes = target.log(Kind::Write);
    let mut extents: Vec<_> = writes.iter().map(|w| (w.extent.start, w.extent.end)).collect();
    extents.sort_unstable();
    assert_eq!(extents, [(0, MB), (MB, 2 * MB), (2 * MB, 3 * MB)], "one RPC for each MiB, aligned");
    assert!(writes.iter().all(|w| w.grant == MB));
    c.check();
    drop(file);
    c.end(&target);
}

#[test]
fn small_writes_are_not_sent_one_by_one() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    for i in 0..500u64 {
        file.write_at(&c.env, &[i as u8; 100], i * 300).expect("write");
    }
    assert!(target.log(Kind::Write).is_empty());
    file.fsync(&c.env).expect("fsync");
    assert_eq!(target.log(Kind::Write).len(), 1);
    assert_eq!(c.device.stats().write_pages.iter().sum::<u64>(), 1);
    drop(file);
    c.end(&target);
}

#[test]
fn old_data_is_written_out() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { writeback_age: Duration::from_millis(10), ..config() });
    let file = c.open(1);
    file.write_at(&c.env, &[1; 5000], 0).expect("write");
    eventually("aged data is written", || target.log(Kind::Write).len() == 1);
    eventually("nothing is dirty", || c.device.stats().credits.dirty() == 0);
    drop(file);
    c.end(&target);
}

/// With little quota left, each file that has something gets its turn.
#[test]
fn under_pressure_one_file_after_another_is_written_out() {
    const FILES: u32 = 40;
    let target = Setup::default().target();
    // One at a time, so that they are sent in the order in which they are picked, by whatever threads.
    let c = Client::new(&target, OscConfig { max_rpcs_in_flight: 1, ..config() });
    let files: Vec<_> = (0..FILES).map(|n| c.open_with(n + 1, 4 * KB)).collect();
    // Two RPCs' worth each; the windows of small files are small.
    for (n, file) in files.iter().enumerate() {
        for at in [0u64, 8] {
            file.write_at(&c.env, &[n as u8; 4096], at * 4 * KB).expect("write");
        }
    }
    assert!(target.log(Kind::Write).is_empty());
    c.device.configure(&c.env, |config| (config.max_dirty_bytes, config.max_rpc_bytes) = (4 * KB, 4 * KB));
    eventually("all is written", || c.device.stats().credits.dirty() == 0);
    let starts: Vec<_> = target.log(Kind::Write).iter().map(|w| w.extent.start / (4 * KB)).collect();
    let turns = [0, 8].map(|at| [at; FILES as usize]).concat();
    assert_eq!(starts, turns, "the first block of each file, then the second");
    c.check();
    drop(files);
    c.end(&target);
}

/// What connecting, and what writes brought, is more than an idle client needs: others may.
#[test]
fn an_idle_client_gives_surplus_grant_back() {
    let target = Setup::default().target();
    let few = OscConfig { max_rpc_bytes: 64 * KB, max_rpcs_in_flight: 1, max_dirty_bytes: 4 * MB, ..config() };
    let c = Client::new(&target, OscConfig { writeback_age: Duration::from_millis(20), ..few });
    let file = c.open(1);
    file.write_at(&c.env, &[1; 4096], 0).expect("write");
    eventually("grant is given back", || !target.log(Kind::ReturnGrant).is_empty());
    let order = target.order();
    let at = |kind| order.iter().position(|k| *k == kind);
    assert!(at(Kind::Write) < at(Kind::ReturnGrant), "not while something is dirty: {order:?}");
    let returned: u64 = target.log(Kind::ReturnGrant).iter().map(|r| r.grant).sum();
    let credits = c.device.stats().credits;
    assert_eq!((credits.returned, credits.available), (returned, MB), "what a burst needs is kept");
    let held = target.inner.grants().held;
    assert_eq!(held, [(c.device.client(), MB)], "and the target has the rest again");
    c.check();
    drop(file);
    c.end(&target);
}

#[test]
fn rpcs_in_flight_are_limited() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { max_rpc_bytes: 64 * KB, max_rpcs_in_flight: 3, ..config() });
    let file = c.open(1);
    target.hold(Kind::Write);
    file.write_at(&c.env, &pattern(MB as usize, 3), 0).expect("write");
    c.device.write_out(&c.env);
    // A worker may hold a slot, and be about to send.
    eventually("as many are sent as may be", || target.held() == 3);
    target.release_one();
    eventually("another takes the slot", || target.held() == 3);
    c.check();
    assert_eq!(c.device.stats().rpcs_in_flight, 3);
    target.release();
    file.fsync(&c.env).expect("fsync");
    assert_eq!(target.log(Kind::Write).len(), 16);
    drop(file);
    c.end(&target);
}

#[test]
fn reads_are_split_at_the_rpc_size() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { max_rpc_bytes: 64 * KB, ..config() });
    let file = c.open(1);
    let data = pattern(300 * KB as usize, 9);
    file.write_at(&c.env, &data, 0).expect("write");
    drop(file);
    c.site.purge(&c.env).expect("purge");
    target.clear_log();
    let file = c.open(1);
    let mut buf = vec![0; data.len()];
    assert_eq!(file.read_at(&c.env, &mut buf, 0).expect("read"), buf.len());
    assert_eq!(buf, data);
    assert!(target.log(Kind::Read).iter().all(|r| r.bytes <= 64 * KB));
    // What is cached is read without a call.
    target.clear_log();
    assert_eq!(file.read_at(&c.env, &mut buf, 0).expect("read"), buf.len());
    assert!(target.log(Kind::Read).is_empty());
    drop(file);
    c.end(&target);
}

#[test]
fn windows_let_a_sequential_writer_go_on_without_calls() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    let data = pattern(MB as usize, 5);
    let mut slow = 0;
    for (i, piece) in data.chunks(1000).enumerate() {
        let at = i as u64 * 1000;
        if !file.write_cached(piece, at, 77) {
            slow += 1;
            file.write_at(&c.env, piece, at).expect("write");
        }
        assert!(c.device.check_accounting().is_ok());
    }
    assert!(slow < 40, "{slow} of 1049 writes took the slow path");
    assert_eq!(file.size(&c.env).expect("size"), data.len() as u64);
    file.fsync(&c.env).expect("fsync");
    let d = Client::new(&target, config());
    let mut back = vec![0; data.len()];
    assert_eq!(d.open(1).read_at(&d.env, &mut back, 0).expect("read"), data.len());
    assert!(back == data);
    drop(file);
    c.end(&target);
    d.end(&target);
}

#[test]
fn a_cancelled_lock_closes_its_window() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    file.write_at(&c.env, &[1; 4096], 0).expect("write");
    assert!(file.write_cached(&[2; 4096], 0, 1), "a written block may be written again");
    let mut buf = [0; 4096];
    assert_eq!(other.read_at(&d.env, &mut buf, 0).expect("read"), 4096);
    assert_eq!(buf, [2; 4096], "what went through the window is seen");
    assert!(!file.write_cached(&[3; 4096], 0, 1), "the window went with the lock");
    assert!(!file.read_cached(&mut buf, 0), "and so did the data");
    c.check();
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

#[test]
fn write_out_leaves_pages_in_use_for_later() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 4096], 0).expect("write");
    let page = file.object().pages().get(PageIndex(0)).expect("page");
    let owned = page.own(clio_core::io::IoId(u64::MAX)).expect("own");
    c.device.write_out(&c.env);
    assert!(target.log(Kind::Write).is_empty());
    assert_eq!(page.state(0), PageState::Owned);
    c.check();
    drop(owned);
    c.device.write_out(&c.env);
    assert_eq!(target.log(Kind::Write).len(), 1);
    c.check();
    drop((page, file));
    c.end(&target);
}

#[test]
fn settings_change_at_run_time() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { max_rpcs_in_flight: 1, max_rpc_bytes: 64 * KB, ..config() });
    let file = c.open(1);
    target.hold(Kind::Write);
    file.write_at(&c.env, &pattern(MB as usize, 3), 0).expect("write");
    c.device.write_out(&c.env);
    assert_eq!(target.held(), 1);
    c.device.configure(&c.env, |config| config.max_rpcs_in_flight = 4);
    assert_eq!(target.held(), 4);
    target.release();
    drop(file);
    c.end(&target);
}

/// Replies of writes may overtake each other; what the latest tells of the object stays.
#[test]
fn replies_out_of_order_leave_the_right_number_of_blocks() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    target.mute(Kind::Write);
    for at in [0, 4 * MB, 8 * MB] {
        file.write_at(&c.env, &pattern(4096, 1), at).expect("write");
        c.device.write_out(&c.env);
    }
    eventually("all are written", || target.muted() == 3);
    target.release_backwards();
    file.fsync(&c.env).expect("fsync");
    let attr = match c.device.call(clio_core::target::Op::GetAttr(fid(1))).expect("getattr") {
        clio_core::target::Reply::Attr(attr) => attr,
        other => panic!("{other:?}"),
    };
    assert_eq!(file.object().attrs().load().blocks, attr.blocks);
    drop(file);
    c.end(&target);
}
