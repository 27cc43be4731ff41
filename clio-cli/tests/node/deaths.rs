//! Processes that die.

use crate::store::{Store, signal};
use rustix::process::Signal;

#[test]
fn what_a_killed_process_had_synced_is_there_and_its_locks_are_not() {
    let store = Store::new();
    let [mut dies, mut lives] = store.processes();
    dies.tell("open /f wide");
    lives.tell("open /f");
    for round in 1..=20u32 {
        dies.tell(&format!("write /f 0 300000 {round}"));
        dies.tell("sync /f");
        // It holds a write lock on all of it, in the middle of more.
        dies.begin("append /f 1000 99 1000000");
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round % 7)));
        dies.kill();
        assert_eq!(lives.ask("read /f 0 300000"), format!("300000x{round}"));
        lives.tell("truncate /f 300000");
        dies = store.process();
        dies.tell("open /f wide");
    }
}

#[test]
fn a_file_that_only_a_killed_process_had_open_goes_with_it() {
    let store = Store::new();
    let [mut dies, mut lives] = store.processes();
    dies.tell("open /f");
    dies.tell("write /f 0 1000000 1");
    dies.tell("sync /f");
    dies.tell("unlink /f");
    assert_eq!(dies.ask("read /f 0 10"), "10x1");
    dies.kill();
    lives.tell("mkdir /d");
    assert!(store.clio(&["shutdown"]).status.success());
    drop(lives);
    let client = loop {
        // The daemon is just going.
        match clio::Client::open(&format!("dir:{}", store.path().display())) {
            Err(e) if e.errno() == clio::Errno::EBUSY => std::thread::yield_now(),
            client => break client.expect("open"),
        }
    };
    let report = client.check(false).expect("check");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.objects, 0, "its objects are gone");
}

#[test]
fn a_killed_daemon_loses_nothing_that_was_synced() {
    let store = Store::new();
    for round in 1..=10u32 {
        let [mut a, mut b] = store.processes();
        a.tell("open /f wide");
        b.tell("open /g");
        if round > 1 {
            assert_eq!(a.ask("read /f 0 300000"), format!("300000x{}", round - 1));
            assert_eq!(
                b.ask("list /"),
                format!("f g {}", (1..round).map(|r| format!("s{r}")).collect::<Vec<_>>().join(" "))
            );
        }
        a.tell(&format!("write /f 0 300000 {round}"));
        a.tell("sync /f");
        b.tell(&format!("mkdir /s{round}"));
        a.begin("append /f 1000 99 1000000");
        signal(store.daemon().expect("it runs"), Signal::KILL);
        assert_eq!(a.answer(), "EIO", "the program is told");
        assert_eq!(b.ask("mkdir /x"), "EIO");
        let mut next = store.process();
        next.tell("open /f");
        next.tell("truncate /f 300000");
        if round == 10 {
            break;
        }
    }
}
