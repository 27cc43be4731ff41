//! Random operations on both kinds of target against plain vectors of bytes.

use clio_core::Errno;
use clio_core::target::{Op, Target};
use clio_core::units::{Extent, Fid};
use clio_targets::conformance::{Client, pattern};
use clio_targets::{DirOptions, DirTarget, MemOptions, MemTarget};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: usize, seed: u64 },
    Read { at: u64, len: usize },
    Punch { at: u64, len: u64 },
    Truncate { size: u64 },
    Seek { at: u64, hole: bool },
    Sync,
    Create,
    Destroy,
    Reopen,
}

/// Near the start, the edge of a chunk of memory, and that of a page of checksums.
fn offset() -> impl Strategy<Value = u64> {
    (prop_oneof![Just(0u64), Just(65_536), Just(992 * 4096)], 0u64..30_000, prop_oneof![Just(1u64), Just(4096)])
        .prop_map(|(base, delta, align)| (base + delta).saturating_sub(12_000) / align * align)
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..200, 1usize..20_000, (1usize..6).prop_map(|n| n * 4096)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (offset(), len(), any::<u64>()).prop_map(|(at, len, seed)| Step::Write { at, len, seed }),
        4 => (offset(), len()).prop_map(|(at, len)| Step::Read { at, len }),
        2 => (offset(), 0u64..50_000).prop_map(|(at, len)| Step::Punch { at, len }),
        2 => offset().prop_map(|size| Step::Truncate { size }),
        1 => (offset(), any::<bool>()).prop_map(|(at, hole)| Step::Seek { at, hole }),
        1 => Just(Step::Sync),
        1 => Just(Step::Create),
        1 => Just(Step::Destroy),
        1 => Just(Step::Reopen),
    ]
}

/// What the objects should be.
#[derive(Default)]
struct Model(BTreeMap<Fid, Vec<u8>>);

impl Model {
    fn slice(&self, fid: Fid, at: u64, len: usize) -> Vec<u8> {
        let object = self.0.get(&fid).map_or(&[][..], |o| o);
        let stored = object.get(at as usize..).unwrap_or_default();
        let mut bytes = stored[..stored.len().min(len)].to_vec();
        bytes.resize(len, 0);
        bytes
    }

    fn size(&self, fid: Fid) -> u64 {
        self.0.get(&fid).map_or(0, |o| o.len() as u64)
    }
}

fn check_seek(client: &Client, model: &Model, fid: Fid, at: u64, hole: bool) {
    let size = model.size(fid);
    match client.seek(fid, at, hole) {
        Ok(found) => {
            assert!(found >= at && found <= size && at < size);
            let skipped = model.slice(fid, at, (found - at) as usize);
            assert!(hole || skipped.iter().all(|b| *b == 0), "data was skipped");
        }
        Err(e) => {
            assert_eq!(e.errno(), Errno::ENXIO);
            let rest = model.slice(fid, at, size.saturating_sub(at) as usize);
            assert!(at >= size || (!hole && rest.iter().all(|b| *b == 0)));
        }
    }
}

fn apply(client: &Client, model: &mut Model, fid: Fid, step: &Step) {
    match *step {
        Step::Write { at, len, seed } => {
            let data = pattern(seed, len);
            let lvb = client.write(fid, at, &data).unwrap();
            let object = model.0.entry(fid).or_default();
            if len > 0 {
                let end = at as usize + len;
                object.resize(object.len().max(end), 0);
                object[at as usize..end].copy_from_slice(&data);
            }
            assert_eq!(lvb.size, object.len() as u64);
        }
        Step::Read { at, len } => {
            let (got, size) = client.read(fid, at, len).unwrap();
            assert!(got == model.slice(fid, at, len), "read of {len} at {at}");
            assert_eq!(size, model.size(fid));
        }
        Step::Punch { at, len } => {
            client.punch(fid, Extent::with_len(at, len), 1).unwrap();
            if let Some(object) = model.0.get_mut(&fid) {
                let end = object.len().min((at + len) as usize);
                object[(at as usize).min(end)..end].fill(0);
            }
        }
        Step::Truncate { size } => {
            client.truncate(fid, size).unwrap();
            model.0.entry(fid).or_default().resize(size as usize, 0);
        }
        Step::Seek { at, hole } => check_seek(client, model, fid, at, hole),
        Step::Sync => assert!(client.call(Op::Sync(fid)).is_ok()),
        Step::Create => match client.create(fid) {
            Ok(()) => assert!(model.0.insert(fid, Vec::new()).is_none()),
            Err(e) => assert!(e.errno() == Errno::EEXIST && model.0.contains_key(&fid)),
        },
        Step::Destroy => match client.call(Op::Destroy(fid)) {
            Ok(_) => assert!(model.0.remove(&fid).is_some()),
            Err(e) => assert!(e.errno() == Errno::ENOENT && !model.0.contains_key(&fid)),
        },
        Step::Reopen => {}
    }
}

fn compare_all(client: &Client, model: &Model, fids: &[Fid]) {
    for &fid in fids {
        let size = model.size(fid);
        let attr = client.getattr(fid).unwrap();
        assert_eq!(attr.size, size);
        assert!(client.read(fid, 0, size as usize + 10).unwrap().0 == model.slice(fid, 0, size as usize + 10));
    }
}

fn fids() -> [Fid; 3] {
    [0, 1, 2].map(|i| Fid::new(0x400, 1).sub_object(0, i))
}

/// In memory where the system has a folder for that: this test opens hundreds of stores.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn memory_matches_the_model(steps in prop::collection::vec((0usize..3, step()), 1..60)) {
        let target: Arc<dyn Target> = Arc::new(MemTarget::in_memory(MemOptions::default()));
        let client = Client::connect(target);
        let mut model = Model::default();
        for (which, step) in &steps {
            apply(&client, &mut model, fids()[*which], step);
        }
        compare_all(&client, &model, &fids());
    }

    #[test]
    fn a_folder_matches_the_model(steps in prop::collection::vec((0usize..3, step()), 1..60)) {
        let folder = scratch();
        // So few objects at once that they are closed and opened all the time, too.
        let options = DirOptions { create: true, open_objects: 1, ..DirOptions::default() };
        let open = || Arc::new(DirTarget::open(folder.path(), &options).unwrap());
        let mut target = open();
        let mut client = Client::connect(target.clone());
        let mut model = Model::default();
        for (which, step) in &steps {
            if matches!(step, Step::Reopen) {
                drop((client, target));
                target = open();
                client = Client::connect(target.clone());
            }
            apply(&client, &mut model, fids()[*which], step);
        }
        compare_all(&client, &model, &fids());
        for fid in target.store().objects() {
            let report = target.store().verify(fid.unwrap()).unwrap();
            prop_assert!(report.is_clean(), "{:?}", report);
            prop_assert_eq!(report.unjudged, 0);
        }
    }
}
