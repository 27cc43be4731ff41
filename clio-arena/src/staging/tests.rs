use super::*;
use clio_core::memory::words::{LockStamp, LockWordTable};
use clio_core::units::{BlockSet, Extent, Fid};
use proptest::prelude::*;

const ARENA_LEN: u64 = 8 << 20;

struct World {
    locks: LockWordTable,
    words: SharedWords,
    writer: StagingWriter,
    drainer: StagingDrainer,
}

fn world(records: usize) -> World {
    let locks = LockWordTable::new(SharedWords::on_heap(4));
    let words = SharedWords::on_heap(records * RECORD_WORDS);
    let writer = StagingWriter::new(words.clone(), locks.view(), 0);
    World { drainer: StagingDrainer::new(words.clone(), ARENA_LEN), writer, words, locks }
}

fn view(stamp: LockStamp) -> RecordView {
    RecordView {
        fid: Fid::new(7, 8).sub_object(1, 2),
        object_offset: (3 << 20) + 100,
        len: 10_000,
        memory_offset: 1 << 20,
        handle: 42,
        stamp,
        order: 0,
        blocks: BlockSet::range(0..1),
    }
}

fn id(staged: Staged) -> RecordId {
    match staged {
        Staged::Yes(id) => id,
        Staged::Redo => panic!("not staged"),
    }
}

#[test]
fn the_states_and_their_edges() {
    use RecordEvent::*;
    let states = [
        RecordState::Free,
        RecordState::Preparing,
        RecordState::Published,
        RecordState::Draining,
        RecordState::Revoked,
    ];
    let events = [Claim, Publish, Abandon, Extend, Withdraw, Acknowledge, Take, Refuse, Requeue, Retire, Reap];
    let table: Vec<String> = states
        .into_iter()
        .flat_map(|s| events.into_iter().filter_map(move |e| Some(format!("{s:?} {e:?} {:?}", s.after(e)?))))
        .collect();
    let expected = "Free Claim Preparing
Preparing Publish Published
Preparing Abandon Free
Preparing Reap Free
Published Extend Published
Published Withdraw Revoked
Published Take Draining
Published Refuse Revoked
Draining Requeue Published
Draining Retire Free
Revoked Acknowledge Free
Revoked Reap Free";
    assert_eq!(table.join("\n"), expected);
}

#[test]
fn state_words_keep_their_parts_apart() {
    let word = StateWord::new(RecordState::Published, u16::MAX, (1 << 45) - 1);
    assert_eq!(
        (word.state(), word.extensions(), word.generation()),
        (Some(RecordState::Published), u16::MAX, (1 << 45) - 1)
    );
    assert!(word.after(RecordEvent::Extend).is_none(), "the count must not wrap");
    assert_eq!(StateWord::from_raw(7).state(), None);
}

#[test]
fn a_write_is_published_drained_and_retired() {
    let w = world(2);
    let stamp = w.locks.alloc().unwrap();
    let id = id(w.writer.claim().unwrap().publish(view(stamp)));
    assert!(w.writer.is_staged(id));
    assert!(w.locks.revoke(stamp));
    let sweep = w.drainer.sweep(stamp);
    let write = sweep.taken[0].write.clone().unwrap();
    assert_eq!(*write.record(), view(stamp));
    assert_eq!(sweep.taken[0].id, id);
    assert_eq!(w.drainer.sweep(stamp).draining, [id]);
    assert!(w.writer.is_staged(id) && w.drainer.is_draining(id));
    w.drainer.retire(&sweep.taken[0]);
    assert!(!w.writer.is_staged(id) && !w.drainer.is_draining(id));
}

#[test]
fn runs_are_the_bytes_written_and_no_others() {
    let stamp = LockStamp { index: 0, generation: 1 };
    let mut record = view(stamp);
    record.blocks = BlockSet::range(0..1).or(BlockSet::range(2..3));
    let runs: Vec<_> = record.validate(ARENA_LEN).unwrap().runs().collect();
    let (base, memory) = (3 << 20, 1 << 20);
    assert_eq!(
        runs,
        [
            StagedRun { extent: Extent::new(base + 100, base + 4096), memory_offset: memory + 100 },
            StagedRun { extent: Extent::new(base + 8192, base + 10_100), memory_offset: memory + 8192 },
        ]
    );
}

#[test]
fn a_write_under_a_lost_lock_must_be_redone() {
    let w = world(1);
    let stamp = w.locks.alloc().unwrap();
    assert!(w.locks.revoke(stamp));
    assert_eq!(w.writer.claim().unwrap().publish(view(stamp)), Staged::Redo);
    assert!(w.drainer.sweep(stamp).taken.is_empty());
    assert!(w.writer.claim().is_some(), "the record is free again");
}

#[test]
fn a_writer_held_up_before_its_last_look_is_refused_by_the_background() {
    let w = world(1);
    let stamp = w.locks.alloc().unwrap();
    assert_eq!(writer::steps::publish(&w.writer, view(stamp), 3), None);
    let _ = w.drainer.take_published(9, |_| LockStatus::Revoking);
    assert_eq!(Records(w.words.clone()).state(0).state(), Some(RecordState::Published), "left to the sweep");
    assert!(w.drainer.take_published(9, |_| LockStatus::Lost).is_empty());
    assert_eq!(Records(w.words.clone()).state(0).state(), Some(RecordState::Revoked));
}

#[test]
fn extensions_add_new_blocks_of_the_range_only() {
    let w = world(1);
    let stamp = w.locks.alloc().unwrap();
    let id = id(w.writer.claim().unwrap().publish(view(stamp)));
    assert_eq!(w.writer.extend(id, BlockSet::range(1..2)), Staged::Yes(id));
    assert_eq!(w.writer.extend(id, BlockSet::range(1..3)), Staged::Redo, "overwrites");
    assert_eq!(w.writer.extend(id, BlockSet::range(3..4)), Staged::Redo, "out of range");
    let taken = w.drainer.take_published(1, |_| LockStatus::Held);
    assert_eq!(taken[0].write.as_ref().unwrap().record().blocks, BlockSet::range(0..2));
    assert_eq!(w.writer.extend(id, BlockSet::range(2..3)), Staged::Redo, "drained");
    w.drainer.retire(&taken[0]);
    assert_eq!(w.writer.extend(id, BlockSet::range(2..3)), Staged::Redo, "gone");
}

#[test]
fn records_run_out_and_come_back() {
    let w = world(3);
    let stamp = w.locks.alloc().unwrap();
    for _ in 0..3 {
        id(w.writer.claim().unwrap().publish(view(stamp)));
    }
    assert!(w.writer.claim().is_none());
    let taken = w.drainer.take_published(2, |_| LockStatus::Held);
    assert_eq!(taken.len(), 2);
    w.drainer.retire(&taken[0]);
    w.drainer.requeue(&taken[1]);
    assert!(w.writer.claim().is_some());
    assert_eq!(w.drainer.take_published(9, |_| LockStatus::Held).len(), 2);
}

#[test]
fn drained_in_the_order_of_writing() {
    let w = world(2);
    let stamp = w.locks.alloc().unwrap();
    let first = id(w.writer.claim().unwrap().publish(view(stamp)));
    id(w.writer.claim().unwrap().publish(view(stamp)));
    let taken = w.drainer.take_published(1, |_| LockStatus::Held);
    assert_eq!(taken[0].id, first);
    w.drainer.retire(&taken[0]);
    id(w.writer.claim().unwrap().publish(view(stamp)));
    let orders: Vec<_> =
        w.drainer.sweep(stamp).taken.iter().map(|t| t.write.as_ref().unwrap().record().order).collect();
    assert_eq!(orders, [1, 2], "though the later record lies before the earlier one");
}

#[test]
fn a_new_drainer_takes_over() {
    let w = world(1);
    let stamp = w.locks.alloc().unwrap();
    id(w.writer.claim().unwrap().publish(view(stamp)));
    assert_eq!(w.drainer.sweep(stamp).taken.len(), 1);
    let next = StagingDrainer::new(w.words.clone(), ARENA_LEN);
    next.adopt();
    assert_eq!(next.sweep(stamp).taken.len(), 1);
}

fn any_view() -> impl Strategy<Value = RecordView> {
    let fields = (any::<u64>(), any::<[u32; 2]>(), any::<u64>(), any::<u32>(), any::<u32>());
    (fields, any::<(u32, u32, u64, u64)>(), any::<[u64; 4]>()).prop_map(
        |((seq, [oid, ver], object_offset, len, block), (handle, index, generation, order), blocks)| RecordView {
            fid: Fid { seq, oid, ver },
            object_offset,
            len,
            memory_offset: u64::from(block) * 4096,
            handle,
            stamp: LockStamp { index, generation },
            order,
            blocks: BlockSet(blocks),
        },
    )
}

proptest! {
    #[test]
    fn records_round_trip(view in any_view()) {
        prop_assert_eq!(RecordView::from_words(&view.to_words()), view);
    }

    /// Whatever a client writes into the table, the drainer ends, and what it takes lies in the arena.
    #[test]
    fn a_hostile_table_is_survived(
        raw in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..8192, Just(u64::MAX)], 4 * RECORD_WORDS),
        plausible in any::<bool>(),
    ) {
        let w = world(4);
        for (i, value) in raw.iter().enumerate() {
            let value = match (plausible, i % RECORD_WORDS) {
                (true, 0) => value & !7 | 2,
                (true, 3) => value >> 30,
                (true, 4) => value & 0x1_ffff_0000_0003,
                (true, 6) => (value % 2048) << 32,
                (true, 9..) => 0,
                _ => *value,
            };
            w.words[i].store(value, Ordering::Relaxed);
        }
        let stamp = LockStamp { index: 1, generation: u64::MAX };
        let mut taken = w.drainer.sweep(stamp).taken;
        taken.extend(w.drainer.reclaim(|s| if s.generation % 2 == 0 { LockStatus::Held } else { LockStatus::Lost }));
        for t in &taken {
            for run in t.write.iter().flat_map(|w| w.runs().collect::<Vec<_>>()) {
                prop_assert!(!run.extent.is_empty() && run.extent.end <= i64::MAX as u64);
                prop_assert!(run.memory_offset + run.extent.len() <= ARENA_LEN);
            }
            w.drainer.retire(t);
        }
    }

    /// Random steps of writer and owner against a list of what was told to count: it is drained, once.
    #[test]
    fn what_counts_is_drained_once(ops in prop::collection::vec((0u8..6, any::<prop::sample::Index>()), 1..120)) {
        let w = world(5);
        let mut locks: Vec<LockStamp> = vec![w.locks.alloc().unwrap()];
        let mut staged: Vec<(RecordId, LockStamp)> = Vec::new();
        let mut drained: Vec<RecordId> = Vec::new();
        for (op, at) in ops {
            let stamp = locks[at.index(locks.len())];
            match op {
                0..=2 => {
                    if let Some(claim) = w.writer.claim()
                        && let Staged::Yes(id) = claim.publish(view(stamp))
                    {
                        prop_assert!(w.locks.view().is_current(stamp));
                        staged.push((id, stamp));
                    }
                }
                3 => {
                    w.locks.revoke(stamp);
                    for t in w.drainer.sweep(stamp).taken {
                        w.drainer.retire(&t);
                        drained.push(t.id);
                    }
                    prop_assert!(staged.iter().all(|(id, s)| *s != stamp || drained.contains(id)));
                }
                4 => {
                    let held = w.locks.view();
                    for t in w.drainer.take_published(2, |s| {
                        if held.is_current(s) { LockStatus::Held } else { LockStatus::Lost }
                    }) {
                        w.drainer.retire(&t);
                        drained.push(t.id);
                    }
                }
                _ => locks.extend(w.locks.alloc()),
            }
        }
        for stamp in locks {
            w.locks.revoke(stamp);
            drained.extend(w.drainer.sweep(stamp).taken.iter().map(|t| t.id));
        }
        let mut counted: Vec<_> = staged.into_iter().map(|(id, _)| (id.index, id.generation)).collect();
        let mut drained: Vec<_> = drained.into_iter().map(|id| (id.index, id.generation)).collect();
        counted.sort_unstable();
        drained.sort_unstable();
        prop_assert_eq!(counted, drained);
    }
}
