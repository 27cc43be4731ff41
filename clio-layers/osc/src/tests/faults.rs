//! Errors, shortage, eviction, and the faults that others had: each is a rule.

use super::script::Kind;
use super::*;
use clio_core::Errno;
use clio_core::io::IoId;
use clio_core::page::Rw;
use clio_core::target::BulkSegment;
use clio_core::units::{BLOCK_SIZE, PageIndex};

pub(super) fn grants(target: &ScriptedTarget, c: &Client) -> (u64, u64) {
    let held = target.inner.grants().held;
    let at_target = held.iter().find(|(id, _)| *id == c.device.client()).map_or(0, |(_, h)| *h);
    let credits = c.device.stats().credits;
    (credits.available + credits.reserved + credits.spending, at_target)
}

#[test]
fn passing_errors_are_retried() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    let data = pattern(10_000, 1);
    file.write_at(&c.env, &data, 0).expect("write");
    for errno in [Errno::EIO, Errno::EAGAIN, Errno::ENOMEM, Errno::EBADMSG] {
        target.fail(Kind::Write, errno, 1);
    }
    file.fsync(&c.env).expect("fsync");
    assert_eq!(c.device.stats().resends, 4);
    drop(file);
    c.site.purge(&c.env).expect("purge");
    let file = c.open(1);
    target.corrupt_reads(2);
    let mut buf = vec![0; 10_000];
    assert_eq!(file.read_at(&c.env, &mut buf, 0).expect("read"), 10_000);
    assert!(buf == data);
    assert_eq!(c.device.stats().checksum_errors, 3);
    c.check();
    drop(file);
    c.end(&target);
}

#[test]
fn a_lasting_error_is_told_once_to_each_file_and_writes_go_synchronously_until_one_succeeds() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { resend_limit: 2, ..config() });
    let (file, second) = (c.open(1), c.open(1));
    file.write_at(&c.env, &[1; 5000], 0).expect("write-behind");
    target.fail(Kind::Write, Errno::EIO, 1000);
    assert_eq!(file.fsync(&c.env).map_err(|e| e.errno()), Err(Errno::EIO));
    file.fsync(&c.env).expect("told already");
    assert_eq!(target.log(Kind::Write).len(), 3);
    // Now the writer himself gets the error, and it is not told again; nor does it clear what the other is owed.
    assert_eq!(file.write_at(&c.env, &[2; 10], 0).map_err(|e| e.errno()), Err(Errno::EIO));
    target.fail_no_more();
    file.write_at(&c.env, &[3; 10], 0).expect("synchronous");
    assert_eq!(c.device.stats().credits.dirty(), 0);
    assert_eq!(second.fsync(&c.env).map_err(|e| e.errno()), Err(Errno::EIO), "only the report clears it");
    second.fsync(&c.env).expect("told already");
    file.write_at(&c.env, &[4; 10], 0).expect("write-behind again");
    assert!(c.device.stats().credits.dirty() > 0);
    let (ours, theirs) = grants(&target, &c);
    assert_eq!(ours, theirs);
    drop((file, second));
    c.end(&target);
}

#[test]
fn a_full_target_is_not_asked_again() {
    let setup = Setup { capacity: 64 * KB, ..Setup::default() };
    let target = setup.target();
    let c = Client::new(&target, OscConfig { quota_wait: Duration::from_millis(50), ..config() });
    let file = c.open(1);
    // Grant is never more than there is space, so that what is acknowledged fits.
    let mut done = 0;
    let error = loop {
        match file.write_at(&c.env, &[7; 8192], done) {
            Ok(n) => done += n as u64,
            Err(e) => break e,
        }
    };
    assert_eq!(error.errno(), Errno::ENOSPC);
    assert_eq!(done, 64 * KB);
    file.fsync(&c.env).expect("what was acknowledged is there");
    assert_eq!(c.device.stats().resends, 0);
    c.check();
    drop(file);
    c.end(&target);
}

/// LU-19977: grant is conserved when writes fail.
#[test]
fn grant_is_not_lost_by_failures() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { resend_limit: 0, ..config() });
    for (n, errno) in [Errno::ENOSPC, Errno::EDQUOT, Errno::EIO, Errno::EBADMSG].into_iter().enumerate() {
        let file = c.open(n as u32);
        file.write_at(&c.env, &[1; 20_000], 0).expect("write");
        target.fail(Kind::Write, errno, 1);
        assert_eq!(file.fsync(&c.env).map_err(|e| e.errno()), Err(errno));
        c.check();
    }
    let (ours, theirs) = grants(&target, &c);
    assert_eq!(ours, theirs);
    c.end(&target);
}

/// LU-12142: one I/O larger than the cache.
#[test]
fn a_write_larger_than_the_quota_ends() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { max_dirty_bytes: 128 * KB, max_rpc_bytes: 64 * KB, ..config() });
    let file = c.open_with(1, MB);
    let data = pattern(3 * MB as usize, 4);
    assert_eq!(file.write_at(&c.env, &data, 100).expect("write"), data.len());
    assert!(c.device.stats().credits.dirty() <= 128 * KB);
    let mut back = vec![0; data.len()];
    file.read_at(&c.env, &mut back, 100).expect("read");
    assert!(back == data);
    c.check();
    drop(file);
    c.end(&target);
}

/// LU-15477, LU-13131: nothing is held while a grant or a slot is waited for, and the wait is bounded.
#[test]
fn pages_are_not_held_while_quota_is_waited_for() {
    let target = Setup::default().target();
    let quota = OscConfig { max_dirty_bytes: 8 * KB, quota_wait: Duration::from_secs(60), ..config() };
    let c = Client::new(&target, quota);
    let file = c.open(1);
    file.write_at(&c.env, &[1; 8192], 0).expect("write");
    target.hold(Kind::Write);
    std::thread::scope(|s| {
        let _released = target.release_at_end();
        s.spawn(|| file.write_at(&Env::get(EnvTags::IO), &[2; 8192], 100_000).expect("write"));
        eventually("the writer waits, and what is in its way is pushed", || {
            target.held() == 1 && c.device.lock_state().quota_waiters == 1
        });
        let page = file.object().pages().get(PageIndex(0)).expect("page");
        drop(page.own(IoId(u64::MAX)).expect("nobody owns the page"));
        let mut buf = [0; 8192];
        assert!(file.read_cached(&mut buf, 100_000) && buf == [2; 8192], "it can be read meanwhile");
        target.release();
    });
    assert_eq!(c.device.stats().without_quota, 0);
    c.check();
    drop(file);
    c.end(&target);
}

#[test]
fn without_grant_writes_go_synchronously() {
    let grant = GrantConfig { total: 0, ..GrantConfig::default() };
    let target = Setup { grant, ..Setup::default() }.target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 10_000], 5).expect("write");
    let writes = target.log(Kind::Write);
    assert_eq!(writes.iter().map(|w| w.bytes).sum::<u64>(), 10_000);
    assert!(writes.iter().all(|w| w.grant == 0 && w.lock.is_some()));
    assert_eq!(c.device.stats().without_quota, 3);
    drop(file);
    c.end(&target);
}

/// LU-13100: what one object has set aside for later doesn't starve another.
#[test]
fn an_idle_window_gives_its_grant_up() {
    let grant = GrantConfig { initial: MB, per_client: MB, ..GrantConfig::default() };
    let target = Setup { grant, ..Setup::default() }.target();
    let c = Client::new(&target, config());
    let (idle, busy) = (c.open_with(1, MB), c.open_with(2, MB));
    for at in (0..3 * BLOCK_SIZE).step_by(BLOCK_SIZE as usize) {
        idle.write_at(&c.env, &[1; BLOCK_SIZE as usize], at).expect("write");
    }
    assert!(c.device.stats().credits.staged > 16 * BLOCK_SIZE, "a window is open");
    busy.write_at(&c.env, &pattern(1020 * KB as usize, 3), 0).expect("write");
    assert_eq!(c.device.stats().without_quota, 0);
    c.check();
    drop((idle, busy));
    c.end(&target);
}

/// LU-17190: direct I/O fills all slots while a flush must free a lock.
#[test]
fn a_flush_for_a_lock_needs_no_slot() {
    let target = Setup::default().target();
    let c = Client::new(&target, OscConfig { max_rpcs_in_flight: 2, ..config() });
    let d = Client::new(&target, config());
    let (file, reader, other) = (c.open(1), c.open(2), d.open(1));
    file.write_at(&c.env, &[1; 8192], 0).expect("write");
    let mem = c.site.slab().memory().alloc(1 << 20).expect("memory");
    target.hold(Kind::Read);
    std::thread::scope(|s| {
        let _released = target.release_at_end();
        for i in 0..2 {
            let (reader, bulk) = (&reader, BulkSegment { offset: i * 4096, mem: mem.slice(0..4096) });
            s.spawn(move || {
                reader.direct(&Env::get(EnvTags::IO), Rw::Read, &[bulk].into_iter().collect()).expect("read")
            });
        }
        eventually("all slots are taken", || target.held() == 2);
        // Doesn't return before the lock has come over.
        other.write_at(&d.env, &[2; 10], 0).expect("write");
        assert_eq!(target.held(), 2);
        target.release();
    });
    c.check();
    drop((file, reader, other));
    c.end(&target);
    d.end(&target);
}

/// LU-1274, LU-4861: an AST takes no mutex that anybody holds while a target is called. Two clients fight for one
/// object while both hold pages and wait for locks.
#[test]
fn asts_in_the_middle_of_everything_block_nobody() {
    let target = Setup::default().target();
    let clients: Vec<_> = (0..3).map(|_| Client::new(&target, config())).collect();
    std::thread::scope(|s| {
        for (n, c) in clients.iter().enumerate() {
            let file = c.open(1);
            s.spawn(move || {
                let env = Env::get(EnvTags::IO);
                for i in 0..60u64 {
                    file.write_at(&env, &[n as u8 + 1; 3000], i * 1000).expect("write");
                    let mut buf = [0; 2000];
                    file.read_at(&env, &mut buf, i * 500).expect("read");
                    file.size(&env).expect("glimpse");
                }
            });
        }
    });
    for c in clients {
        c.check();
        c.end(&target);
    }
}

/// An eviction takes the grant before the client hears of it; a lock taken since then is good.
#[test]
fn a_write_whose_grant_is_gone_goes_without() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 5000], 0).expect("write");
    target.fail(Kind::Write, Errno::EPROTO, 1);
    file.fsync(&c.env).expect("the data arrives");
    let grants: Vec<_> = target.log(Kind::Write).iter().map(|w| w.grant).collect();
    assert_eq!(grants, [2 * BLOCK_SIZE, 0]);
    let mut back = [0; 5000];
    assert!(file.read_at(&c.env, &mut back, 0).expect("read") == 5000 && back == [1; 5000]);
    c.check();
    drop(file);
    c.end(&target);
}

/// LU-20510: a device that goes waits for all that it has sent.
#[test]
fn shutdown_waits_for_what_was_sent() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 10_000], 0).expect("write");
    target.hold(Kind::Write);
    c.device.write_out(&c.env);
    let done = std::sync::atomic::AtomicBool::new(false);
    let device = c.device.clone();
    std::thread::scope(|s| {
        let _released = target.release_at_end();
        s.spawn(|| {
            device.shutdown(&Env::get(EnvTags::ANY)).expect("shutdown");
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!done.load(std::sync::atomic::Ordering::SeqCst));
        target.release();
    });
    assert!(done.load(std::sync::atomic::Ordering::SeqCst));
    assert!(device.stats().credits.dirty() == 0);
}

/// LU-19556: fsync waits for what others have on their way, and for nothing that waits for itself.
#[test]
fn fsyncs_at_once_wait_for_the_same_write() {
    let target = Setup::default().target();
    let c = Client::new(&target, config());
    let file = c.open(1);
    file.write_at(&c.env, &[1; 10_000], 0).expect("write");
    target.hold(Kind::Write);
    std::thread::scope(|s| {
        let _released = target.release_at_end();
        for _ in 0..3 {
            s.spawn(|| file.fsync(&Env::get(EnvTags::IO)).expect("fsync"));
        }
        eventually("sent", || target.held() == 1);
        target.release();
    });
    assert_eq!(target.log(Kind::Write).len(), 1);
    drop(file);
    c.end(&target);
}

/// LU-14541, LU-16160: a read that fails leaves nothing valid, and the next one fetches.
#[test]
fn a_failed_read_leaves_nothing_valid() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, OscConfig { resend_limit: 1, ..config() }));
    let file = c.open(1);
    file.write_at(&c.env, &[1; 10_000], 0).expect("write");
    file.fsync(&c.env).expect("fsync");
    let other = d.open(1);
    target.fail(Kind::Read, Errno::EIO, 2);
    let mut buf = [0; 10_000];
    assert_eq!(other.read_at(&d.env, &mut buf, 0).map_err(|e| e.errno()), Err(Errno::EIO));
    assert!(!other.read_cached(&mut buf, 0));
    assert_eq!(other.read_at(&d.env, &mut buf, 0).expect("read"), 10_000);
    assert_eq!(buf, [1; 10_000]);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

/// LU-12681: KMS that is cut zeroes nothing.
#[test]
fn a_cut_kms_zeroes_nothing() {
    let target = Setup::default().target();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    let mut truth = pattern(5000, 3);
    file.write_at(&c.env, &truth, 0).expect("write");
    let mut buf = vec![0; 5000];
    other.read_at(&d.env, &mut buf, 0).expect("read");
    other.write_at(&d.env, &[0xAA; 10], 10).expect("write");
    assert_eq!(file.object().attrs().kms(), 0);
    // A part of a block that is not cached, under a new lock.
    file.write_at(&c.env, &[0xBB; 10], 4500).expect("write");
    file.read_at(&c.env, &mut buf, 0).expect("read");
    truth[10..20].fill(0xAA);
    truth[4500..4510].fill(0xBB);
    assert!(buf == truth);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}
