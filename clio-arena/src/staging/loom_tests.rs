//! The protocol between writers, revoker, background drainer and a writer that dies, under the model checker.
//!
//! What each checks is the same: a write is taken by the drainer if and only if its writer was told that it counts.

use super::writer::steps;
use super::*;
use clio_core::memory::words::{LockStamp, LockWordTable};
use clio_core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use clio_core::sync::{Mutex, thread};
use clio_core::units::{BlockSet, Fid};
use std::sync::Arc;

const ARENA_LEN: u64 = 1 << 20;

struct World {
    locks: LockWordTable,
    writer: StagingWriter,
    drainer: StagingDrainer,
    records: Records,
    /// Stands for the arena's bytes, a word for each block.
    data: Vec<AtomicU64>,
}

fn world(records: usize) -> Arc<World> {
    let locks = LockWordTable::new(SharedWords::on_heap(1));
    let words = SharedWords::on_heap(records * RECORD_WORDS);
    Arc::new(World {
        writer: StagingWriter::new(words.clone(), locks.view(), 0),
        drainer: StagingDrainer::new(words.clone(), ARENA_LEN),
        records: Records(words),
        data: (0..2).map(|_| AtomicU64::new(0)).collect(),
        locks,
    })
}

fn view(stamp: LockStamp, block: u64) -> RecordView {
    RecordView {
        fid: Fid::new(1, 1),
        object_offset: block * 4096,
        len: 8192,
        memory_offset: block * 4096,
        handle: 0,
        stamp,
        order: 0,
        blocks: BlockSet::range(0..1),
    }
}

/// Explores everything where `preemptions` is `None`.
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

impl World {
    /// Blocks that `taken` covers; their data must be visible.
    fn drained(&self, taken: &[Taken]) -> Vec<u64> {
        let mut blocks = Vec::new();
        for t in taken {
            for run in t.write.as_ref().unwrap().runs() {
                blocks.extend(run.memory_offset / 4096..(run.memory_offset + run.extent.len()) / 4096);
            }
            self.drainer.retire(t);
        }
        for b in &blocks {
            assert_eq!(
                self.data[*b as usize].load(Ordering::Relaxed),
                7,
                "block {b} was drained before it was written"
            );
        }
        blocks
    }

    fn assert_all_free(&self) {
        for index in 0..self.records.len() {
            assert_eq!(self.records.state(index).state(), Some(RecordState::Free), "record {index}");
        }
    }

    fn put(&self, block: u64) {
        self.data[block as usize].store(7, Ordering::Relaxed);
    }
}

#[test]
fn loom_a_publishing_writer_against_a_revoker() {
    check(None, || {
        let w = world(1);
        let stamp = w.locks.alloc().unwrap();
        let writer = {
            let w = w.clone();
            thread::spawn(move || {
                w.put(0);
                w.writer.claim().unwrap().publish(view(stamp, 0))
            })
        };
        assert!(w.locks.revoke(stamp));
        let drained = w.drained(&w.drainer.sweep(stamp).taken);
        let staged = writer.join().unwrap();
        assert_eq!(drained == [0], matches!(staged, Staged::Yes(_)), "{drained:?} {staged:?}");
        w.assert_all_free();
    });
}

#[test]
fn loom_a_writer_that_dies_at_any_step_against_a_revoker() {
    for steps in 1..=4 {
        check(None, move || {
            let w = world(1);
            let stamp = w.locks.alloc().unwrap();
            let writer = {
                let w = w.clone();
                thread::spawn(move || {
                    w.put(0);
                    steps::publish(&w.writer, view(stamp, 0), steps)
                })
            };
            assert!(w.locks.revoke(stamp));
            let mut drained = w.drained(&w.drainer.sweep(stamp).taken);
            let staged = writer.join().unwrap();
            let late = w.drainer.reclaim(|_| LockStatus::Lost);
            assert!(late.is_empty(), "nothing counts once the lock is lost");
            let again = w.drainer.reclaim(|_| LockStatus::Lost);
            drained.extend(w.drained(&again));
            match staged {
                Some(Staged::Yes(_)) => assert_eq!(drained, [0]),
                Some(Staged::Redo) => assert!(drained.is_empty()),
                // Never acknowledged: either way is right, but not twice.
                None => assert!(drained.len() <= 1),
            }
            w.assert_all_free();
        });
    }
}

#[test]
fn loom_two_writers_and_a_revoker() {
    check(Some(3), || {
        let w = world(2);
        let stamp = w.locks.alloc().unwrap();
        let writers: Vec<_> = (0..2)
            .map(|block| {
                let w = w.clone();
                thread::spawn(move || {
                    w.put(block);
                    w.writer.claim().map(|c| c.publish(view(stamp, block)))
                })
            })
            .collect();
        assert!(w.locks.revoke(stamp));
        let drained = w.drained(&w.drainer.sweep(stamp).taken);
        for (block, writer) in (0..).zip(writers) {
            let staged = writer.join().unwrap();
            assert_eq!(drained.contains(&block), matches!(staged, Some(Staged::Yes(_))));
        }
        w.assert_all_free();
    });
}

#[test]
fn loom_an_extending_writer_against_a_revoker() {
    check(None, || {
        let w = world(1);
        let stamp = w.locks.alloc().unwrap();
        w.put(0);
        let Staged::Yes(id) = w.writer.claim().unwrap().publish(view(stamp, 0)) else { panic!() };
        let writer = {
            let w = w.clone();
            thread::spawn(move || {
                w.put(1);
                w.writer.extend(id, BlockSet::range(1..2))
            })
        };
        assert!(w.locks.revoke(stamp));
        let drained = w.drained(&w.drainer.sweep(stamp).taken);
        let staged = writer.join().unwrap();
        assert!(drained.contains(&0));
        assert_eq!(drained.contains(&1), staged == Staged::Yes(id));
        w.assert_all_free();
    });
}

/// Loom looks only at the latest access of an atomic when it decides what to try in another order, so it never stops
/// an extension between its two steps. Here its first step is over when the revoker begins.
#[test]
fn loom_a_half_extended_record_against_a_revoker() {
    check(None, || {
        let w = world(1);
        let stamp = w.locks.alloc().unwrap();
        w.put(0);
        let Staged::Yes(id) = w.writer.claim().unwrap().publish(view(stamp, 0)) else { panic!() };
        w.put(1);
        let state = w.writer.offer(id, BlockSet::range(1..2)).unwrap();
        let writer = {
            let w = w.clone();
            thread::spawn(move || w.writer.settle(id, BlockSet::range(1..2), state))
        };
        assert!(w.locks.revoke(stamp));
        let drained = w.drained(&w.drainer.sweep(stamp).taken);
        assert_eq!(writer.join().unwrap(), Staged::Yes(id), "its blocks were to be seen all along");
        assert_eq!(drained, [0, 1]);
    });
}

#[test]
fn loom_blocks_added_are_seen_with_their_bytes() {
    check(None, || {
        let w = world(1);
        let stamp = w.locks.alloc().unwrap();
        w.put(0);
        let Staged::Yes(id) = w.writer.claim().unwrap().publish(view(stamp, 0)) else { panic!() };
        let writer = {
            let w = w.clone();
            thread::spawn(move || {
                w.put(1);
                w.records.add_blocks(id.index, BlockSet::range(1..2));
            })
        };
        w.drained(&w.drainer.sweep(stamp).taken);
        writer.join().unwrap();
    });
}

/// The background drainer goes by the owner's own table, here `status`, which the revoker keeps. What it takes counts
/// too, but must not come after the grant unless the revoker knows of it.
#[test]
fn loom_a_writer_a_revoker_and_a_background_drainer() {
    check(Some(3), || {
        let w = world(1);
        let stamp = w.locks.alloc().unwrap();
        let (status, written_out) = (Arc::new(Mutex::new(LockStatus::Held)), Arc::new(AtomicU32::new(0)));
        let writer = {
            let w = w.clone();
            thread::spawn(move || {
                w.put(0);
                w.writer.claim().unwrap().publish(view(stamp, 0))
            })
        };
        let background = {
            let (w, status, written_out) = (w.clone(), status.clone(), written_out.clone());
            thread::spawn(move || {
                let taken = w.drainer.take_published(9, |_| *status.lock());
                let ids: Vec<_> = taken.iter().map(|t| t.id).collect();
                written_out.store(1, Ordering::SeqCst);
                (w.drained(&taken), ids)
            })
        };
        *status.lock() = LockStatus::Revoking;
        assert!(w.locks.revoke(stamp));
        let sweep = w.drainer.sweep(stamp);
        let written_out = written_out.load(Ordering::SeqCst) == 1;
        *status.lock() = LockStatus::Lost;
        let mut drained = w.drained(&sweep.taken);
        let (behind, ids) = background.join().unwrap();
        let known = |id: &RecordId| written_out || sweep.draining.contains(id);
        assert!(ids.iter().all(known), "drained behind the revoker's back");
        drained.extend(behind);
        let staged = writer.join().unwrap();
        assert_eq!(drained == [0], matches!(staged, Staged::Yes(_)), "{drained:?} {staged:?}");
        w.assert_all_free();
    });
}
