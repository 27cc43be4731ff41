//! Many threads of several clients at once, over a target that answers from threads of its own.

use super::*;
use clio_core::units::Extent;
use std::sync::atomic::{AtomicBool, Ordering};

const SLOT: u64 = 5000;
const THREADS: u64 = 3;
const ROUNDS: u64 = 40;

/// Writers of slots that share blocks and folios; each slot is written by one thread, in rounds.
fn fight(config: OscConfig, grant: GrantConfig) {
    let target = Setup { grant, ..Setup::default() }.threaded();
    let clients: Vec<_> = (0..2).map(|_| Client::new(&target, config.clone())).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writers: Vec<_> = clients
            .iter()
            .enumerate()
            .flat_map(|(n, c)| (0..THREADS).map(move |t| (n as u64 * THREADS + t, c)))
            .map(|(slot, c)| {
                let file = c.open_with(1, 64 * KB);
                s.spawn(move || write_slot(&file, slot))
            })
            .collect();
        for c in &clients {
            let (file, over, device) = (c.open_with(1, 64 * KB), &over, &c.device);
            s.spawn(move || {
                let env = Env::get(EnvTags::ANY);
                while !over.load(Ordering::SeqCst) {
                    device.write_out(&env);
                    device.check_accounting().expect("accounting");
                    file.object().locks().cancel_all(&env);
                    file.size(&env).expect("size");
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
        }
        let outcomes: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        over.store(true, Ordering::SeqCst);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    for c in clients {
        c.end(&target);
    }
}

fn slot_bytes(slot: u64, round: u64) -> Vec<u8> {
    pattern(SLOT as usize, (slot * 41 + round) as u8)
}

fn write_slot(file: &EchoFile, slot: u64) {
    let env = Env::get(EnvTags::IO);
    let at = slot * SLOT;
    for round in 0..ROUNDS {
        let data = slot_bytes(slot, round);
        for (i, piece) in data.chunks(1700).enumerate() {
            let at = at + i as u64 * 1700;
            if !file.write_cached(piece, at, round) {
                file.write_at(&env, piece, at).expect("write");
            }
        }
        if round % 7 == 0 {
            file.fsync(&env).expect("fsync");
        }
        let mut back = vec![0; SLOT as usize];
        assert_eq!(file.read_at(&env, &mut back, at).expect("read"), SLOT as usize);
        assert!(back == data, "slot {slot}, round {round}");
    }
}

#[test]
fn threads_of_two_clients_lose_nothing() {
    fight(config(), GrantConfig::default());
}

#[test]
fn threads_of_two_clients_lose_nothing_when_everything_is_scarce() {
    let scarce = OscConfig {
        max_rpc_bytes: 8 * KB,
        max_rpcs_in_flight: 1,
        max_dirty_bytes: 16 * KB,
        quota_wait: Duration::from_millis(5),
        writeback_age: Duration::from_millis(2),
        lock_limit: 1,
        ..config()
    };
    fight(scarce, GrantConfig { initial: 12 * KB, per_client: 20 * KB, ..GrantConfig::default() });
}

/// Evictions in the middle of it all: data may be lost, which is told; books stay right, and nothing hangs.
#[test]
fn evictions_in_the_middle_of_everything_leave_the_books_right() {
    let dlm = DlmConfig { blocking_timeout_ms: 2, ..DlmConfig::default() };
    let target = Setup { dlm, ..Setup::default() }.threaded();
    let clients: Vec<_> = (0..2).map(|_| Client::new(&target, config())).collect();
    std::thread::scope(|s| {
        for (n, c) in clients.iter().enumerate() {
            let (file, device) = (c.open_with(1, 64 * KB), &c.device);
            s.spawn(move || {
                let env = Env::get(EnvTags::IO);
                for i in 0..150u64 {
                    let at = i * 997 % 100_000;
                    let written = file.write_at(&env, &[n as u8; 9000], at);
                    let read = file.read_at(&env, &mut [0; 500], at);
                    for e in [written.err(), read.err(), file.fsync(&env).err()].into_iter().flatten() {
                        let fair = [clio_core::Errno::EIO, clio_core::Errno::ESTALE, clio_core::Errno::EBUSY];
                        assert!(fair.contains(&e.errno()), "{e}");
                    }
                    device.check_accounting().expect("accounting");
                    let user = file.object().locks().covering(Extent::new(0, 4096), clio_core::target::LockMode::Pr);
                    std::thread::sleep(Duration::from_millis(i % 5));
                    drop(user);
                }
            });
        }
    });
    let evictions: u64 = clients.iter().map(|c| c.device.stats().evictions).sum();
    assert!(evictions > 0, "the test didn't test anything");
    for c in clients {
        let _ = c.device.shutdown(&c.env);
        c.check();
        assert_eq!(c.device.stats().credits.dirty(), 0);
    }
}
