//! LazyIO between two clients: what a reader may not see before it asks, what it must see then, and what nobody loses.

use clio::{Client, Errno, File, OpenOptions};
use clio_targets::wrap::Fault;
use clio_tests::faults::{Kind, World};
use clio_tests::{clients, narrow, pattern, read_write};
use proptest::prelude::*;

fn lazy() -> OpenOptions {
    read_write().layout(narrow(2)).lazyio(true)
}

fn all(file: &File) -> Vec<u8> {
    let mut buf = vec![0xEE; 1 << 20];
    let n = file.read_at(&mut buf, 0).expect("read");
    buf.truncate(n);
    buf
}

/// Two clients, and the file lazily open at each.
fn two_lazy() -> ([Client; 2], [File; 2]) {
    let clients = clients::<2>(2);
    let files = clients.each_ref().map(|c| c.open_with("/f", lazy()).expect("open"));
    (clients, files)
}

#[test]
fn others_see_what_was_propagated_once_they_synchronize() {
    let (_clients, [a, b]) = two_lazy();
    a.write_all_at(&[1; 100_000], 0).expect("write");
    assert!(all(&b).is_empty(), "not propagated");
    b.lazyio_synchronize(0, 0).expect("synchronize");
    assert!(all(&b).is_empty(), "not propagated");
    a.lazyio_propagate(0, 0).expect("propagate");
    assert!(all(&b).is_empty(), "not synchronized");
    b.lazyio_synchronize(0, 0).expect("synchronize");
    assert_eq!(all(&b), [1; 100_000]);
    // Bytes that were read stay as they were read.
    a.write_all_at(&[2; 10], 50_000).expect("write");
    a.lazyio_propagate(0, 0).expect("propagate");
    assert_eq!(all(&b), [1; 100_000]);
    b.lazyio_synchronize(50_000, 10).expect("synchronize");
    assert_eq!(all(&b)[49_999..50_011], [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
}

#[test]
fn handles_that_are_not_lazy_see_what_was_propagated_at_once() {
    let ([one, two], [a, b]) = two_lazy();
    for client in [&one, &two] {
        let other = client.open_with("/f", read_write()).expect("open");
        a.write_all_at(&pattern(1, 0, 5000), 100).expect("write");
        assert!(all(&other).is_empty(), "what is kept lazily is the handle's own");
        a.lazyio_propagate(0, 0).expect("propagate");
        assert_eq!(all(&other)[100..], pattern(1, 0, 5000));
        // A write of it is seen by the lazy one, which has read that before, once that synchronizes.
        assert_eq!(all(&a)[100..], pattern(1, 0, 5000));
        other.write_all_at(b"coherent", 200).expect("write");
        assert_eq!(all(&a)[200..208], pattern(1, 100, 8));
        a.lazyio_synchronize(0, 0).expect("synchronize");
        assert_eq!(all(&a)[200..208], *b"coherent");
        a.set_len(0).expect("cut");
    }
    drop(b);
}

#[test]
fn writers_of_neighbouring_bytes_lose_nothing() {
    let (_clients, [a, b]) = two_lazy();
    a.write_all_at(&[0; 20_000], 0).expect("write");
    a.lazyio_propagate(0, 0).expect("propagate");
    b.lazyio_synchronize(0, 0).expect("synchronize");
    let mut want = vec![0; 20_000];
    for (at, wanted) in want.iter_mut().enumerate() {
        let (file, byte) = if at % 2 == 0 { (&a, 1) } else { (&b, 2) };
        file.write_all_at(&[byte], at as u64).expect("write");
        *wanted = byte;
    }
    for file in [&a, &b] {
        file.lazyio_propagate(0, 0).expect("propagate");
    }
    for file in [&a, &b] {
        file.lazyio_synchronize(0, 0).expect("synchronize");
        assert!(all(file) == want);
    }
}

#[test]
fn ranges_are_honoured_to_the_byte() {
    let (_clients, [a, b]) = two_lazy();
    a.write_all_at(&[1; 10_000], 0).expect("write");
    a.lazyio_propagate(1000, 500).expect("propagate");
    b.lazyio_synchronize(0, 0).expect("synchronize");
    let seen = all(&b);
    assert_eq!(seen.len(), 1500, "as far as was propagated");
    assert!(seen[..1000].iter().all(|b| *b == 0) && seen[1000..].iter().all(|b| *b == 1));
    a.lazyio_propagate(0, 0).expect("propagate");
    b.lazyio_synchronize(9000, 10).expect("synchronize");
    let seen = all(&b);
    assert_eq!(seen.len(), 10_000, "the size is as it is now");
    assert_eq!(seen[500], 0, "of what was read before, only what was asked for is read anew");
    assert_eq!(seen[9005], 1);
}

#[test]
fn synchronizing_propagates_what_is_dirty_and_turning_it_off_drains() {
    let (_clients, [a, b]) = two_lazy();
    a.write_all_at(&[1; 5000], 0).expect("write");
    a.lazyio_synchronize(0, 0).expect("synchronize");
    assert_eq!(all(&a), [1; 5000]);
    b.lazyio_synchronize(0, 0).expect("synchronize");
    assert_eq!(all(&b), [1; 5000]);
    a.write_all_at(&[2; 5000], 0).expect("write");
    a.set_lazyio(false).expect("off");
    b.lazyio_synchronize(0, 0).expect("synchronize");
    assert_eq!(all(&b), [2; 5000]);
    b.set_lazyio(false).expect("off");
    a.write_all_at(&[3; 5000], 0).expect("write");
    assert_eq!(all(&b), [3; 5000], "coherent again");
    b.set_lazyio(true).expect("on");
    assert_eq!(all(&b), [3; 5000]);
    a.write_all_at(&[4; 5000], 0).expect("write");
    assert_eq!(all(&b), [3; 5000], "lazy again");
}

#[test]
fn a_truncate_of_another_is_seen_after_synchronizing() {
    let (clients, [a, b]) = two_lazy();
    a.write_all_at(&[1; 200_000], 0).expect("write");
    a.lazyio_propagate(0, 0).expect("propagate");
    b.lazyio_synchronize(0, 0).expect("synchronize");
    assert_eq!(all(&b).len(), 200_000);
    let other = clients[0].open_with("/f", read_write()).expect("open");
    other.set_len(70_000).expect("truncate");
    assert_eq!(all(&b).len(), 200_000, "not synchronized");
    b.lazyio_synchronize(0, 1).expect("synchronize");
    assert_eq!(all(&b), [1; 70_000]);
    other.set_len(100_000).expect("grow");
    b.lazyio_synchronize(90_000, 1).expect("synchronize");
    assert_eq!(all(&b)[70_000..], [0; 30_000], "nothing that was cut comes back");
}

#[test]
fn what_cannot_be_propagated_is_told_and_stays() {
    let world = World::new(2);
    let client = world.client();
    let file = client.open_with("/f", lazy()).expect("open");
    file.write_all_at(&[1; 300_000], 0).expect("write");
    world.fail(Kind::Write, Fault::Refuse(Errno::ENOSPC));
    for _ in 0..2 {
        assert_eq!(file.lazyio_propagate(0, 0).expect_err("full").errno(), Errno::ENOSPC);
    }
    assert_eq!(file.set_lazyio(false).expect_err("full").errno(), Errno::ENOSPC);
    assert_eq!(all(&file), [1; 300_000], "it is still there");
    world.heal();
    file.sync_all().expect("sync");
    let other = client.open_file("/f").expect("open");
    assert_eq!(all(&other), [1; 300_000]);

    file.write_all_at(&[2; 300_000], 0).expect("write");
    world.fail(Kind::Write, Fault::Refuse(Errno::ENOSPC));
    assert_eq!(file.close().expect_err("told at close").errno(), Errno::ENOSPC);
    world.heal();
    assert_eq!(all(&other), [1; 300_000]);
    drop(other);
    world.end([client]);
}

#[test]
fn a_write_of_nothing_changes_nothing() {
    let (_clients, [a, _]) = two_lazy();
    a.write_all_at(&[1; 10], 0).expect("write");
    assert_eq!(a.write_at(&[], 1000).expect("nothing"), 0);
    assert_eq!(all(&a).len(), 10);
    a.lazyio_propagate(0, 0).expect("propagate");
    assert_eq!(a.metadata().expect("stat").len(), 10);
}

#[test]
fn much_is_written_and_read_lazily() {
    let (_clients, [a, b]) = two_lazy();
    let data = pattern(7, 0, 70 << 20);
    for (i, piece) in data.chunks(3 << 20).enumerate() {
        a.write_all_at(piece, (i * (3 << 20)) as u64).expect("write");
    }
    a.close().expect("close");
    b.lazyio_synchronize(0, 0).expect("synchronize");
    let mut seen = vec![0; data.len()];
    b.read_exact_at(&mut seen, 0).expect("read");
    assert!(seen == data);
}

#[test]
fn a_setting_makes_all_files_lazy() {
    let client = Client::builder().store("mem:").set("force_lazyio", 1).connect().expect("client");
    let [a, b] = [(), ()].map(|()| client.open_with("/f", read_write()).expect("open"));
    a.write_all_at(b"kept", 0).expect("write");
    assert!(all(&b).is_empty());
    // An append is as ever: all see it at once, but those who look away. What came before it goes first.
    assert_eq!(a.append(b"seen").expect("append"), 4);
    assert!(all(&b).is_empty());
    b.lazyio_synchronize(0, 0).expect("synchronize");
    assert_eq!(all(&b), b"keptseen");
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: usize, byte: u8 },
    Read { at: u64, len: usize },
    Append(usize),
    SetLen(u64),
    Punch { at: u64, len: u64 },
    Propagate { at: u64, len: u64 },
    Synchronize { at: u64, len: u64 },
    Lazy(bool),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0u64..300_000;
    prop_oneof![
        4 => (at.clone(), 1..90_000usize, 1u8..).prop_map(|(at, len, byte)| Step::Write { at, len, byte }),
        3 => (at.clone(), 1..90_000usize).prop_map(|(at, len)| Step::Read { at, len }),
        1 => (1..9000usize).prop_map(Step::Append),
        1 => at.clone().prop_map(Step::SetLen),
        1 => (at.clone(), 1..90_000u64).prop_map(|(at, len)| Step::Punch { at, len }),
        2 => (at.clone(), 0..90_000u64).prop_map(|(at, len)| Step::Propagate { at, len }),
        2 => (at, 0..90_000u64).prop_map(|(at, len)| Step::Synchronize { at, len }),
        1 => any::<bool>().prop_map(Step::Lazy),
        1 => Just(Step::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 64 } else { 512 }))]

    /// Whoever uses a file alone doesn't notice that it is lazy.
    #[test]
    fn alone_a_lazy_file_is_as_any(steps in prop::collection::vec(step(), 1..40)) {
        let [client, other] = clients::<2>(2);
        let file = client.open_with("/f", lazy()).expect("open");
        let mut model: Vec<u8> = Vec::new();
        let put = |model: &mut Vec<u8>, at: usize, bytes: &[u8]| {
            if model.len() < at + bytes.len() {
                model.resize(at + bytes.len(), 0);
            }
            model[at..at + bytes.len()].copy_from_slice(bytes);
        };
        for step in steps {
            match step {
                Step::Write { at, len, byte } => {
                    file.write_all_at(&vec![byte; len], at).expect("write");
                    put(&mut model, at as usize, &vec![byte; len]);
                }
                Step::Read { at, len } => {
                    let mut buf = vec![0xEE; len];
                    let n = file.read_at(&mut buf, at).expect("read");
                    let want = model.get(at as usize..).unwrap_or_default();
                    prop_assert!(buf[..n] == want[..want.len().min(len)]);
                }
                Step::Append(len) => {
                    prop_assert_eq!(file.append(&vec![0xAA; len]).expect("append"), model.len() as u64);
                    let end = model.len();
                    put(&mut model, end, &vec![0xAA; len]);
                }
                Step::SetLen(size) => {
                    file.set_len(size).expect("set_len");
                    model.resize(size as usize, 0);
                }
                Step::Punch { at, len } => {
                    file.punch_hole(at, len).expect("punch");
                    let end = model.len().min((at + len) as usize);
                    if let Some(hole) = model.get_mut(at as usize..end) {
                        hole.fill(0);
                    }
                }
                Step::Propagate { at, len } => file.lazyio_propagate(at, len).expect("propagate"),
                Step::Synchronize { at, len } => file.lazyio_synchronize(at, len).expect("synchronize"),
                Step::Lazy(on) => file.set_lazyio(on).expect("set_lazyio"),
                Step::Sync => file.sync_all().expect("sync"),
            }
        }
        prop_assert_eq!(file.metadata().expect("stat").len(), model.len() as u64);
        file.close().expect("close");
        let mut seen = vec![0xEE; model.len() + 1];
        let n = other.open_file("/f").expect("open").read_at(&mut seen, 0).expect("read");
        prop_assert!(seen[..n] == model[..]);
    }
}
