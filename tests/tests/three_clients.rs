//! Random operations by three clients on one file of one store, in memory or in folders, against a plain vector of
//! bytes: after every operation each client must see what a single local file would show, and keep its accounts.

use clio::{Client, ClientBuilder, File};
use clio_tests::{narrow, pattern, read_write};
use proptest::prelude::*;

/// Files besides the one that all is about: more than a small client keeps locks.
const CROWD: usize = 40;

/// Everything happens in the first megabyte, so that operations meet.
const SPAN: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Op {
    Read {
        at: u64,
        len: usize,
    },
    Write {
        at: u64,
        len: usize,
    },
    Append {
        len: usize,
    },
    Truncate {
        size: u64,
    },
    Punch {
        at: u64,
        len: u64,
    },
    Sync {
        data_only: bool,
    },
    DirectWrite {
        at: u64,
        len: usize,
    },
    DirectRead {
        at: u64,
        len: usize,
    },
    /// By an open file that makes each write durable before it returns.
    DsyncWrite {
        at: u64,
        len: usize,
    },
    DsyncAppend {
        len: usize,
    },
    Stat,
    SeekData {
        at: u64,
    },
    SeekHole {
        at: u64,
    },
    /// The client gives all its locks back, with what it has cached under them.
    DropCaches,
    /// The client locks so many other files that it gives back those locks of this one that it hasn't used for long.
    CrowdLocks,
    Reopen,
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 1usize..200, 3 => 1usize..10_000, 2 => Just(4096usize), 1 => 1usize..300_000]
}

fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 0..SPAN, 2 => (0..SPAN / 4096).prop_map(|b| b * 4096), 1 => (0..16u64).prop_map(|s| s * 65_536)]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (offsets(), lengths()).prop_map(|(at, len)| Op::Read { at, len }),
        8 => (offsets(), lengths()).prop_map(|(at, len)| Op::Write { at, len }),
        2 => lengths().prop_map(|len| Op::Append { len }),
        2 => offsets().prop_map(|size| Op::Truncate { size }),
        2 => (offsets(), lengths()).prop_map(|(at, len)| Op::Punch { at, len: len as u64 }),
        1 => any::<bool>().prop_map(|data_only| Op::Sync { data_only }),
        1 => (offsets(), lengths()).prop_map(|(at, len)| Op::DirectWrite { at, len }),
        1 => (offsets(), lengths()).prop_map(|(at, len)| Op::DirectRead { at, len }),
        2 => (offsets(), lengths()).prop_map(|(at, len)| Op::DsyncWrite { at, len }),
        1 => lengths().prop_map(|len| Op::DsyncAppend { len }),
        2 => Just(Op::Stat),
        1 => offsets().prop_map(|at| Op::SeekData { at }),
        1 => offsets().prop_map(|at| Op::SeekHole { at }),
        1 => Just(Op::DropCaches),
        1 => Just(Op::CrowdLocks),
        1 => Just(Op::Reopen),
    ]
}

struct Side {
    client: Client,
    file: File,
    appender: File,
    direct: File,
    dsync: File,
    dsync_appender: File,
    crowd: Vec<File>,
}

impl Side {
    fn open(client: Client, stripes: u16) -> Self {
        let open = |options| client.open_with("/f", options).expect("open");
        let file = open(read_write().layout(narrow(stripes)));
        let appender = open(clio::OpenOptions::new().append(true));
        let direct = open(read_write().direct(true));
        let dsync = open(read_write().dsync(true));
        let dsync_appender = open(clio::OpenOptions::new().append(true).dsync(true));
        let crowd = (0..CROWD).map(|n| client.open_with(format!("/other{n}"), read_write()).expect("open")).collect();
        Self { file, appender, direct, dsync, dsync_appender, crowd, client }
    }
}

/// Where the store is, and how much its clients may have.
#[derive(Clone, Copy, Debug)]
struct Setting {
    stripes: u16,
    /// So small that pages, quota and locks run out.
    tiny: bool,
    /// Clients soon do without locks.
    contended: bool,
}

fn builder(uri: &str, setting: Setting) -> ClientBuilder {
    let mut builder = Client::builder().store(&format!("{uri}?targets=3"));
    if setting.contended {
        let keys = [("contended_locks", 0), ("lockless_conflicts", 1), ("contention_window_ms", 3_600_000)];
        builder = keys.into_iter().fold(builder, |builder, (key, value)| builder.set(key, value));
    }
    match setting.tiny {
        true => builder.set("cache_mb", 4).set("max_dirty_mb", 1).set("max_pages_per_rpc", 16).set("lock_lru", 16),
        false => builder,
    }
}

/// Bytes that the client has written to the targets.
fn sent(client: &Client) -> u64 {
    client.stats().targets.iter().map(|t| t.written_bytes).sum()
}

fn check_read(got: &[u8], n: usize, model: &[u8], at: u64, what: &str) -> Result<(), TestCaseError> {
    let start = (at as usize).min(model.len());
    let end = (at as usize + got.len()).min(model.len());
    let want = &model[start..end.max(start)];
    prop_assert_eq!(n, want.len(), "{}: length of a read at {}", what, at);
    if let Some(bad) = (0..n).find(|i| got[*i] != want[*i]) {
        prop_assert!(false, "{}: byte {} is {:#x}, should be {:#x}", what, at as usize + bad, got[bad], want[bad]);
    }
    Ok(())
}

fn write(model: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    if model.len() < end {
        model.resize(end, 0);
    }
    model[at as usize..end].copy_from_slice(data);
}

fn run(uri: &str, setting: Setting, script: Vec<(usize, Op)>) -> Result<(), TestCaseError> {
    let stripes = setting.stripes;
    let first = builder(uri, setting).connect().expect("client");
    let clients = [first.clone(), first.second_client().expect("client"), first.second_client().expect("client")];
    let mut sides: Vec<_> = clients.into_iter().map(|c| Side::open(c, stripes)).collect();
    let mut model: Vec<u8> = Vec::new();
    for (n, (who, op)) in script.into_iter().enumerate() {
        let side = &mut sides[who];
        let what = format!("op {n} by client {who}: {op:?}");
        let sent_before = sent(&side.client);
        match op {
            Op::Read { at, len } | Op::DirectRead { at, len } => {
                let file = if matches!(op, Op::Read { .. }) { &side.file } else { &side.direct };
                let mut buf = vec![0x55; len];
                let got = file.read_at(&mut buf, at).expect("read");
                check_read(&buf, got, &model, at, &what)?;
            }
            Op::Write { at, len } | Op::DirectWrite { at, len } | Op::DsyncWrite { at, len } => {
                let file = match op {
                    Op::DirectWrite { .. } => &side.direct,
                    Op::DsyncWrite { .. } => &side.dsync,
                    _ => &side.file,
                };
                let data = pattern(n as u64, at, len);
                file.write_all_at(&data, at).expect("write");
                write(&mut model, at, &data);
            }
            Op::Append { len } | Op::DsyncAppend { len } => {
                let appender = if matches!(op, Op::Append { .. }) { &side.appender } else { &side.dsync_appender };
                let at = model.len() as u64;
                let data = pattern(n as u64, at, len);
                prop_assert_eq!(appender.append(&data).expect("append"), at, "{}", what);
                write(&mut model, at, &data);
            }
            Op::Truncate { size } => {
                side.file.set_len(size).expect("truncate");
                model.resize(size as usize, 0);
            }
            Op::Punch { at, len } => {
                side.file.punch_hole(at, len).expect("punch");
                let (s, e) = ((at as usize).min(model.len()), ((at + len) as usize).min(model.len()));
                model[s..e].fill(0);
            }
            Op::Sync { data_only: true } => side.file.sync_data().expect("sync"),
            Op::Sync { data_only: false } => side.file.sync_all().expect("sync"),
            Op::Stat => prop_assert_eq!(side.file.metadata().expect("stat").len(), model.len() as u64, "{}", what),
            Op::SeekData { at } => {
                let skipped = match side.file.seek_data(at) {
                    Ok(data) => {
                        prop_assert!(data >= at && data < model.len() as u64, "{}: {}", what, data);
                        at as usize..data as usize
                    }
                    Err(e) => {
                        prop_assert_eq!(e.errno(), clio::Errno::ENXIO, "{}", what);
                        (at as usize).min(model.len())..model.len()
                    }
                };
                prop_assert!(model[skipped].iter().all(|b| *b == 0), "{}: data was taken for a hole", what);
            }
            Op::SeekHole { at } => match side.file.seek_hole(at) {
                Ok(hole) => {
                    prop_assert!(hole >= at && hole <= model.len() as u64, "{}: {}", what, hole);
                    prop_assert!(model.get(hole as usize).is_none_or(|b| *b == 0), "{}: no hole at {}", what, hole);
                }
                Err(e) => {
                    prop_assert_eq!(e.errno(), clio::Errno::ENXIO, "{}", what);
                    prop_assert!(at >= model.len() as u64, "{}: the end is a hole", what);
                }
            },
            Op::DropCaches => side.client.drop_caches().expect("drop caches"),
            Op::CrowdLocks => {
                for other in &side.crowd {
                    prop_assert_eq!(other.read_at(&mut [0], 0).expect("read"), 0, "{}", what);
                }
            }
            Op::Reopen => *side = Side::open(side.client.clone(), stripes),
        }
        if let Op::DsyncWrite { len, .. } | Op::DsyncAppend { len } = op {
            let sent = sent(&sides[who].client) - sent_before;
            prop_assert!(sent >= len as u64, "{}: only {} bytes have gone out when it returns", what, sent);
        }
        for (of, side) in sides.iter().enumerate() {
            let broken = |e| TestCaseError::fail(format!("{what}: client {of}: {e}"));
            side.client.check_invariants().map_err(broken)?;
        }
    }
    for (who, side) in sides.iter().enumerate() {
        let mut all = vec![0; model.len() + 1];
        let got = side.file.read_at(&mut all, 0).expect("read");
        check_read(&all, got, &model, 0, &format!("at the end, client {who}"))?;
    }
    Ok(())
}

/// Found by the property test below: the append of a client whose cached size another client had cut.
#[test]
fn an_append_after_the_truncates_of_two_others_starts_at_the_end() {
    let script = vec![(1, Op::Truncate { size: 233_346 }), (0, Op::Truncate { size: 0 }), (1, Op::Append { len: 1 })];
    run("mem:", Setting { stripes: 1, tiny: false, contended: false }, script).expect("as a local file");
}

fn settings() -> impl Strategy<Value = Setting> {
    (1u16..=3, any::<bool>(), prop::bool::weighted(0.3)).prop_map(|(stripes, tiny, contended)| Setting {
        stripes,
        tiny,
        contended,
    })
}

fn scripts() -> impl Strategy<Value = Vec<(usize, Op)>> {
    prop::collection::vec((0usize..3, ops()), 1..60)
}

fn config(cases: u32) -> ProptestConfig {
    // What fails becomes a named test.
    let failure_persistence = None;
    ProptestConfig { cases, max_shrink_iters: 2000, failure_persistence, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(clio_tests::cases(40)))]

    #[test]
    fn three_clients_see_one_file(setting in settings(), script in scripts()) {
        run("mem:", setting, script)?;
    }
}

proptest! {
    #![proptest_config(config(clio_tests::cases(10)))]

    /// In folders, requests are carried out by other threads, and what is checked at rest is found right.
    #[test]
    fn three_clients_see_one_file_in_folders(setting in settings(), script in scripts()) {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("tempdir");
        run(&format!("dir:{}", dir.path().join("store").display()), setting, script)?;
    }
}
