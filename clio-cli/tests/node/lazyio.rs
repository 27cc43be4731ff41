//! LazyIO among processes.

use crate::store::{Process, Store};

/// Has all do what `command` says for each, at the same time; done when all are: a barrier.
fn together(all: &mut [Process], command: impl Fn(usize) -> String) -> Vec<String> {
    all.iter_mut().enumerate().for_each(|(i, p)| p.begin(&command(i)));
    all.iter_mut().map(Process::answer).collect()
}

/// The loop of a parallel program: each writes its part, propagates; a barrier; each synchronizes and reads all; a barrier.
#[test]
fn a_parallel_loop() {
    const PART: usize = 10_001;
    let store = Store::new();
    let mut all = store.processes::<4>();
    let ok = |answers: Vec<String>| assert!(answers.iter().all(|a| a == "ok"), "{answers:?}");
    ok(together(&mut all, |_| "open /f lazy wide".into()));
    for round in 1..=20 {
        ok(together(&mut all, |i| format!("write /f {} {PART} {}", i * PART, round * 10 + i)));
        ok(together(&mut all, |_| "propagate /f 0 0".into()));
        ok(together(&mut all, |_| "synchronize /f 0 0".into()));
        let want: Vec<String> = (0..4).map(|i| format!("{PART}x{}", round * 10 + i)).collect();
        for read in together(&mut all, |_| "read /f 0 1000000".into()) {
            assert_eq!(read, want.join(" "), "round {round}");
        }
    }
    let mut other = store.process();
    other.tell("open /f");
    assert_eq!(other.ask("size /f"), (4 * PART).to_string());
}

/// One handle among many that is not lazy, then is; what another process did is seen as each promises.
#[test]
fn lazy_beside_coherent() {
    let store = Store::new();
    let [mut lazy, mut coherent] = store.processes();
    lazy.tell("open /f lazy");
    coherent.tell("open /f");
    coherent.tell("write /f 0 10 1");
    lazy.tell("synchronize /f 0 0");
    assert_eq!(lazy.ask("read /f 0 100"), "10x1");
    coherent.tell("write /f 0 10 2");
    assert_eq!(lazy.ask("read /f 0 100"), "10x1", "it looks away");
    lazy.tell("write /f 5 10 3");
    assert_eq!(coherent.ask("read /f 0 100"), "10x2", "it keeps that to itself");
    lazy.tell("propagate /f 5 5");
    assert_eq!(coherent.ask("read /f 0 100"), "5x2 5x3");
    lazy.tell("synchronize /f 0 0");
    assert_eq!(lazy.ask("read /f 0 100"), "5x2 10x3");
    assert_eq!(coherent.ask("read /f 0 100"), "5x2 10x3");
    // Its process is killed: what it kept is gone, what it had propagated is not.
    lazy.tell("write /f 0 100 4");
    lazy.tell("propagate /f 0 1");
    lazy.kill();
    assert_eq!(coherent.ask("read /f 0 100"), "1x4 4x2 10x3");
}
