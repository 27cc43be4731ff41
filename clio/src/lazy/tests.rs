//! The buffer of a lazy handle against plain bytes.

use super::dirty::Dirty;
use super::snapshot::Snapshot;
use proptest::prelude::*;

const SIZE: usize = 20_000;

#[derive(Clone, Debug)]
enum Step {
    Write { at: usize, len: usize, byte: u8 },
    Take { at: usize, len: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0..SIZE, 1..6000usize);
    prop_oneof![
        (place.clone(), any::<u8>()).prop_map(|((at, len), byte)| Step::Write { at, len, byte }),
        place.prop_map(|(at, len)| Step::Take { at, len }),
    ]
}

proptest! {
    #[test]
    fn what_is_dirty_is_what_was_written_last(steps in prop::collection::vec(step(), 1..60)) {
        let mut dirty = Dirty::default();
        let mut model: Vec<Option<u8>> = vec![None; SIZE + 6000];
        for step in steps {
            match step {
                Step::Write { at, len, byte } => {
                    dirty.write(at as u64, &vec![byte; len]);
                    model[at..at + len].fill(Some(byte));
                }
                Step::Take { at, len } => {
                    let range = at as u64..(at + len) as u64;
                    while let Some((start, bytes)) = dirty.take(&range) {
                        let start = start as usize;
                        prop_assert!(start >= at && start + bytes.len() <= at + len, "beyond the range");
                        for (i, byte) in bytes.iter().enumerate() {
                            prop_assert_eq!(model[start + i].take(), Some(*byte));
                        }
                    }
                    prop_assert!(model[at..at + len].iter().all(Option::is_none), "something was left");
                }
            }
            prop_assert_eq!(dirty.bytes(), model.iter().flatten().count());
            prop_assert_eq!(dirty.end() as usize, model.iter().rposition(Option::is_some).map_or(0, |at| at + 1));
            let mut seen = vec![0xEE; model.len()];
            dirty.read(0, &mut seen);
            let expected: Vec<u8> = model.iter().map(|b| b.unwrap_or(0xEE)).collect();
            prop_assert!(seen == expected);
        }
    }
}

#[test]
fn a_snapshot_has_whole_blocks() {
    let mut snapshot = Snapshot::default();
    assert_eq!(snapshot.missing(&(100..9000)), Some(0..12_288));
    snapshot.insert(4096, &[1; 8192]);
    assert_eq!(snapshot.missing(&(100..9000)), Some(0..4096));
    assert_eq!(snapshot.missing(&(4096..12_288)), None);
    assert_eq!(snapshot.missing(&(4096..12_289)), Some(12_288..16_384));
    snapshot.write(4000, &[2; 200]);
    let mut seen = [9; 300];
    snapshot.read(4090, &mut seen);
    assert_eq!(seen[..6], [9; 6], "nothing is known of these");
    assert!(seen[6..110].iter().all(|b| *b == 2) && seen[110..].iter().all(|b| *b == 1));
    snapshot.forget(8191..8192);
    assert_eq!((snapshot.bytes(), snapshot.missing(&(4096..12_288))), (4096, Some(4096..8192)));
    snapshot.forget(8192..8192);
    assert_eq!(snapshot.bytes(), 4096);
    snapshot.forget(super::WHOLE);
    assert_eq!(snapshot.bytes(), 0);
}
