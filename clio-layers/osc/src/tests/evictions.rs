//! What a client loses that the target has evicted.

use super::faults::grants;
use super::script::Kind;
use super::*;
use clio_core::Errno;
use clio_core::lock::{LockDescr, request};
use clio_core::target::{EnqueueFlags, LockMode};
use clio_core::units::Extent;

fn evictable() -> Arc<ScriptedTarget> {
    let dlm = DlmConfig { blocking_timeout_ms: 50, ..DlmConfig::default() };
    Setup { dlm, ..Setup::default() }.target()
}

/// LU-17364, and what an eviction means: locks and dirty data go, the writer is told once, and all works again.
#[test]
fn an_eviction_drops_data_before_locks_and_is_told_once() {
    let target = evictable();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    file.write_sync_at(&c.env, &[1; 4096], 0).expect("write");
    file.write_at(&c.env, &[2; 100_000], 0).expect("write");
    let need = LockDescr {
        extent: Extent::new(0, 4096),
        mode: LockMode::Pw,
        flags: EnqueueFlags::default(),
        demand: Default::default(),
    };
    // In use for as long as it takes.
    let user = request(&c.env, file.object(), &need).expect("lock");
    other.write_at(&d.env, &[3; 10], 0).expect("write");
    eventually("evicted", || c.device.stats().evictions == 1);
    eventually("nothing is dirty", || c.device.stats().credits.dirty() == 0);
    eventually("nothing is cached", || file.object().pages().is_empty());
    c.check();
    assert_eq!(c.device.stats().credits.available, 0);
    drop(user);
    eventually("no lock is left", || c.device.stats().locks == 0);
    assert_eq!(file.fsync(&c.env).map_err(|e| e.errno()), Err(Errno::EIO));
    file.fsync(&c.env).expect("once");
    let mut buf = [0; 4096];
    assert_eq!(file.read_at(&c.env, &mut buf, 0).expect("read"), 4096);
    assert_eq!((&buf[..10], &buf[10..]), (&[3; 10][..], &[1; 4086][..]));
    file.write_at(&c.env, &[4; 10], 0).expect("write");
    file.fsync(&c.env).expect("all is well again");
    assert!(c.device.stats().credits.available > 0, "grant came back with the write");
    let (ours, theirs) = grants(&target, &c);
    assert!(ours <= theirs);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

/// A truncate that is still on its way when its lock is lost changes nothing any more.
#[test]
fn a_truncate_whose_lock_was_lost_is_refused() {
    let target = evictable();
    let (c, d) = (Client::new(&target, config()), Client::new(&target, config()));
    let (file, other) = (c.open(1), d.open(1));
    file.write_sync_at(&c.env, &[1; 4096], 0).expect("write");
    target.hold(Kind::Punch);
    std::thread::scope(|s| {
        let _released = target.release_at_end();
        let cut = s.spawn(|| file.truncate(&Env::get(EnvTags::IO), 5).map_err(|e| e.errno()));
        eventually("on its way", || target.held() == 1);
        other.write_sync_at(&d.env, &[3; 4096], 0).expect("write");
        assert_eq!(c.device.stats().evictions, 1);
        target.release();
        assert_eq!(cut.join().expect("no panic"), Err(Errno::EIO));
    });
    assert!(target.log(Kind::Punch).iter().all(|p| p.lock.is_some()));
    assert_eq!(other.size(&d.env).expect("size"), 4096);
    let mut buf = [0; 4096];
    assert!(file.read_at(&c.env, &mut buf, 0).expect("read") == 4096 && buf == [3; 4096]);
    drop((file, other));
    c.end(&target);
    d.end(&target);
}

/// Never across an eviction: what waits to be sent again isn't.
#[test]
fn nothing_is_resent_across_an_eviction() {
    let target = evictable();
    let c = Client::new(&target, OscConfig { resend_delay: Duration::from_millis(300), ..config() });
    let d = Client::new(&target, config());
    let (file, other) = (c.open(1), d.open(1));
    file.write_at(&c.env, &[2; 10_000], 0).expect("write");
    target.fail(Kind::Write, Errno::EIO, 1);
    c.device.write_out(&c.env);
    other.write_at(&d.env, &[3; 10], 0).expect("write");
    assert_eq!(c.device.stats().evictions, 1);
    assert_eq!(file.fsync(&c.env).map_err(|e| e.errno()), Err(Errno::EIO));
    file.fsync(&c.env).expect("once");
    assert_eq!(other.size(&d.env).expect("size"), 10, "what was lost didn't come later");
    c.check();
    drop((file, other));
    c.end(&target);
    d.end(&target);
}
