//! Two clients, one object, random operations, against a plain vector.

use super::*;
use clio_core::units::Extent;
use proptest::prelude::*;

const SIZE: usize = 300_000;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Small(usize, usize),
    Append(usize),
    Read(usize, usize),
    Truncate(usize),
    Punch(usize, usize),
    Fsync,
    WriteOut,
    CancelLocks,
    DropCaches,
    Size,
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE, 1usize..60_000).prop_map(|(a, n)| (a, n.min(SIZE - a)));
    let small = (0..SIZE, 1usize..600).prop_map(|(a, n)| (a, n.min(SIZE - a)));
    prop_oneof![
        4 => range().prop_map(|(a, n)| Step::Write(a, n)),
        4 => small.prop_map(|(a, n)| Step::Small(a, n)),
        1 => (1usize..9000).prop_map(Step::Append),
        6 => range().prop_map(|(a, n)| Step::Read(a, n)),
        1 => (0..SIZE).prop_map(Step::Truncate),
        1 => range().prop_map(|(a, n)| Step::Punch(a, n)),
        1 => Just(Step::Fsync),
        1 => Just(Step::WriteOut),
        1 => Just(Step::CancelLocks),
        1 => Just(Step::DropCaches),
        1 => Just(Step::Size),
    ]
}

fn put(truth: &mut Vec<u8>, at: usize, data: &[u8]) {
    if truth.len() < at + data.len() {
        truth.resize(at + data.len(), 0);
    }
    truth[at..at + data.len()].copy_from_slice(data);
}

fn apply(c: &Client, file: &EchoFile, step: &Step, seed: u8, truth: &mut Vec<u8>) -> Result<(), TestCaseError> {
    let env = &c.env;
    match *step {
        Step::Write(at, n) | Step::Small(at, n) => {
            let data = pattern(n, seed);
            if !file.write_cached(&data, at as u64, 1) {
                prop_assert_eq!(file.write_at(env, &data, at as u64).expect("write"), n);
            }
            put(truth, at, &data);
        }
        Step::Append(n) => {
            let data = pattern(n, seed);
            prop_assert_eq!(file.append(env, &data).expect("append"), n);
            let at = truth.len();
            put(truth, at, &data);
        }
        Step::Read(at, n) => {
            let mut buf = vec![0x55; n];
            let end = truth.len().min(at + n);
            let expected = truth.get(at..end).unwrap_or(&[]);
            if !file.read_cached(&mut buf, at as u64) {
                let got = file.read_at(env, &mut buf, at as u64).expect("read");
                prop_assert_eq!(got, expected.len());
            }
            prop_assert!(&buf[..expected.len()] == expected, "read of {} at {}", n, at);
        }
        Step::Truncate(size) => {
            file.truncate(env, size as u64).expect("truncate");
            truth.resize(size, 0);
        }
        Step::Punch(at, n) => {
            file.punch(env, Extent::with_len(at as u64, n as u64)).expect("punch");
            let end = truth.len().min(at + n);
            if let Some(hole) = truth.get_mut(at..end) {
                hole.fill(0);
            }
        }
        Step::Fsync => file.fsync(env).expect("fsync"),
        Step::WriteOut => c.device.write_out(env),
        Step::CancelLocks => {
            file.object().locks().cancel_all(env);
        }
        Step::DropCaches => file.object().prune(env, false).expect("prune"),
        Step::Size => prop_assert_eq!(file.size(env).expect("size"), truth.len() as u64),
    }
    Ok(())
}

fn run(
    target: Arc<ScriptedTarget>,
    config: OscConfig,
    folio: u64,
    steps: &[(bool, Step)],
) -> Result<(), TestCaseError> {
    let clients = [Client::new(&target, config.clone()), Client::new(&target, config)];
    let files = [clients[0].open_with(1, folio), clients[1].open_with(1, folio)];
    let mut truth = Vec::new();
    for (n, (who, step)) in steps.iter().enumerate() {
        let who = usize::from(*who);
        apply(&clients[who], &files[who], step, n as u8, &mut truth)?;
        for c in &clients {
            c.check();
        }
    }
    drop(files);
    for c in clients {
        c.end(&target);
    }
    let last = Client::new(&target, super::config());
    let mut buf = vec![0; truth.len() + 10];
    let got = last.open(1).read_at(&last.env, &mut buf, 0).expect("read");
    prop_assert!(buf[..got] == truth[..], "what the target has in the end");
    last.end(&target);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn two_clients_see_one_object(steps in prop::collection::vec((any::<bool>(), step()), 1..50)) {
        run(Setup::default().target(), config(), 64 * KB, &steps)?;
    }

    /// The same with everything scarce: quota, grant, slots, and RPCs that are smaller than folios.
    #[test]
    fn and_when_everything_is_scarce(steps in prop::collection::vec((any::<bool>(), step()), 1..40)) {
        let scarce = OscConfig {
            max_rpc_bytes: 16 * KB,
            max_rpcs_in_flight: 2,
            max_dirty_bytes: 48 * KB,
            quota_wait: Duration::from_millis(20),
            ..config()
        };
        let grant = GrantConfig { initial: 40 * KB, per_client: 64 * KB, ..GrantConfig::default() };
        run(Setup { grant, ..Setup::default() }.target(), scarce.clone(), 32 * KB, &steps)?;
        // And when answers come from other threads.
        run(Setup { grant, ..Setup::default() }.threaded(), scarce, 32 * KB, &steps)?;
    }
}
