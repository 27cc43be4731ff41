//! What clones of a file share, and what names of a store mean one store.

use clio::{Client, Config, Errno, Layout, OpenOptions};
use clio_tests::{content, read_write};
use std::io::{Read, Seek, SeekFrom, Write};

const RECORD: usize = 100;
const ROUNDS: usize = 500;

#[test]
fn clones_write_one_after_another() {
    let client = Client::open("mem:").expect("client");
    let file = client.open_with("/f", read_write()).expect("open");
    std::thread::scope(|s| {
        for who in 1..=4u8 {
            let mut clone = file.clone();
            s.spawn(move || (0..ROUNDS).for_each(|_| clone.write_all(&[who; RECORD]).expect("write")));
        }
    });
    let all = content(&client, "/f");
    assert_eq!(all.len(), 4 * ROUNDS * RECORD, "each has a place of its own");
    for who in 1..=4u8 {
        let records = all.chunks(RECORD).filter(|r| r.iter().all(|b| *b == who)).count();
        assert_eq!(records, ROUNDS, "records of {who}");
    }
}

#[test]
fn clones_read_one_after_another() {
    let client = Client::open("mem:").expect("client");
    let mut file = client.open_with("/f", read_write()).expect("open");
    let numbers: Vec<u8> = (0..2000u32).flat_map(u32::to_le_bytes).collect();
    file.write_all(&numbers).expect("write");
    file.seek(SeekFrom::Start(0)).expect("seek");
    let mut seen: Vec<u32> = std::thread::scope(|s| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let mut clone = file.clone();
                s.spawn(move || {
                    let (mut mine, mut number) = (Vec::new(), [0; 4]);
                    while clone.read(&mut number).expect("read") == 4 {
                        mine.push(u32::from_le_bytes(number));
                    }
                    mine
                })
            })
            .collect();
        readers.into_iter().flat_map(|r| r.join().expect("reader")).collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..2000).collect::<Vec<_>>(), "each number is read once");
}

#[test]
fn a_file_that_ends_early_is_an_unexpected_end() {
    let client = Client::open("mem:").expect("client");
    let file = client.open_with("/f", read_write()).expect("open");
    file.write_all_at(&[1; 10], 0).expect("write");
    let e = file.read_exact_at(&mut [0; 11], 0).expect_err("it is too short");
    assert_eq!((e.errno(), e.kind()), (Errno::ENODATA, std::io::ErrorKind::UnexpectedEof));
    assert_eq!(std::io::Error::from(e).kind(), std::io::ErrorKind::UnexpectedEof);
    let e = client.get_xattr("/f", b"user.none").expect_err("there is none");
    assert_ne!(e.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn an_open_store_has_as_many_targets_as_it_has() {
    let folder = tempfile::tempdir().expect("folder");
    let uri = |n: u16| format!("dir:{}?targets={n}", folder.path().join("store").display());
    let client = Client::open(&uri(2)).expect("client");
    for other in [uri(3), uri(1)] {
        let e = Client::open(&other).expect_err("not so many");
        assert_eq!(e.errno(), Errno::EINVAL);
        assert!(e.to_string().contains("the store has 2 targets"), "{e}");
    }
    drop(Client::open(&uri(2)).expect("as many"));
    let named = Client::open("mem:handles?targets=2").expect("client");
    assert_eq!(Client::open("mem:handles?targets=4").expect_err("not so many").errno(), Errno::EINVAL);
    drop(Client::open("mem:handles").expect("as it is"));
    drop((client, named));
}

#[test]
fn an_open_store_keeps_the_settings_that_it_was_opened_with() {
    let folder = tempfile::tempdir().expect("folder");
    let dir = format!("dir:{}?targets=3", folder.path().join("store").display());
    for uri in [dir.as_str(), "mem:settings?targets=3"] {
        let open = |timeout: Option<u64>, pools: &[(&str, &[u16])]| {
            let mut config = Config::default();
            pools.iter().for_each(|(name, members)| config.set_pool(name, members.iter().copied()));
            let builder = Client::builder().store(uri).config(config);
            timeout.into_iter().fold(builder, |b, ms| b.set("lock_timeout_ms", ms)).connect()
        };
        let first = open(Some(50_000), &[("fast", &[0, 1])]).expect("client");
        let refused = |timeout, pools, says: &[&str]| {
            let e = open(timeout, pools).expect_err("it is open otherwise");
            assert_eq!(e.errno(), Errno::EINVAL);
            says.iter().for_each(|word| assert!(e.to_string().contains(word), "'{word}' is not in: {e}"));
        };
        refused(Some(60_000), &[], &["lock_timeout_ms = 50000, not 60000 (given)", "leave it out here"]);
        refused(None, &[("fast", &[0, 2])], &["pool fast = {0, 1}, not [0, 2] (given)"]);
        refused(None, &[("slow", &[2])], &["no pool 'slow'"]);
        // Who asks for what is, or for nothing, gets it.
        open(Some(50_000), &[("fast", &[1, 0])]).expect("the same settings");
        let second = open(None, &[]).expect("no settings");
        second.set_layout("/f", &Layout::raid0().stripe_count(2).pool("fast")).expect("the pool is the store's");
        // Once it is closed, it can be opened otherwise.
        drop((first, second));
        open(Some(60_000), &[("fast", &[0, 2])]).expect("nobody has it open");
    }
}

#[test]
fn a_store_is_one_store_whatever_link_leads_to_it() {
    let folder = tempfile::tempdir().expect("folder");
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    std::fs::create_dir(&real).expect("folder");
    std::os::unix::fs::symlink(&real, &link).expect("link");
    let open = |dir: &std::path::Path| Client::open(&format!("dir:{}", dir.join("store").display()));
    let here = open(&real).expect("client");
    let there = open(&link).expect("the same store, by the link");
    here.open_with("/f", read_write()).expect("open").write_all_at(b"seen", 0).expect("write");
    assert_eq!(content(&there, "/f"), b"seen");
}

#[test]
fn stores_are_opened_beside_each_other() {
    let folder = tempfile::tempdir().expect("folder");
    std::thread::scope(|s| {
        for n in 0..16 {
            let uri = format!("dir:{}", folder.path().join(format!("store{}", n % 4)).display());
            s.spawn(move || {
                let client = Client::open(&uri).expect("client");
                let path = format!("/f{n}");
                let file = client.open_with(&path, OpenOptions::new().write(true).create_new(true)).expect("open");
                file.write_all_at(&[1; 10], 0).expect("write");
            });
        }
    });
    for n in 0..4 {
        let uri = format!("dir:{}", folder.path().join(format!("store{n}")).display());
        assert_eq!(Client::open(&uri).expect("client").read_dir("/").expect("read").len(), 4);
    }
}
