//! Whenever a client dies, its records name exactly what was written and isn't at its target yet.

use super::WriteRefusal;
use super::backing::Backing;
use super::folio::FolioCell;
use super::folio_state::{Move, Sub};
use crate::lockrank::{LockRank, RankedMutex};
use crate::memory::staging::{self, RECORD_WORDS, StagingTable};
use crate::memory::words::SharedWords;
use crate::memory::{MemRef, PageMemory};
use crate::object::AttrCell;
use crate::units::{BLOCK_SIZE, BlockSet, Fid};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

const BLOCK: usize = BLOCK_SIZE as usize;
/// Two segments.
const BLOCKS: usize = 32;
const OFFSET: u64 = 3 << 20;
const MEMORY: usize = 1 << 20;

/// Page memory as one piece; what is given back is spoilt.
#[derive(Debug)]
struct Spoiling {
    all: MemRef,
    free: RankedMutex<Vec<MemRef>>,
    table: Arc<StagingTable>,
}

impl PageMemory for Spoiling {
    fn alloc(&self, len: usize) -> Option<MemRef> {
        let mut free = self.free.lock();
        let at = free.iter().position(|m| m.len() == len)?;
        Some(free.swap_remove(at))
    }
    fn free(&self, mem: MemRef) {
        mem.write_at(0, &vec![0xdd; mem.len()]);
        self.free.lock().push(mem);
    }
    fn used(&self) -> usize {
        0
    }
    fn staging(&self) -> Option<Arc<StagingTable>> {
        Some(self.table.clone())
    }
}

/// For each byte of the folio its value, if it is dirty.
type Bytes = Vec<Option<u8>>;

struct World {
    memory: Arc<Spoiling>,
    words: SharedWords,
    backing: Backing,
    cell: FolioCell,
    /// What was written and isn't at the target.
    dirty: Bytes,
    writes: u8,
}

#[derive(Clone, Debug)]
enum Act {
    Write { at: usize, len: usize, eof: u64 },
    WriteOut(BlockSet),
    Arrive(bool),
    Truncate(usize),
    Forget(BlockSet),
}

impl World {
    #[expect(unsafe_code, reason = "test memory")]
    fn new() -> World {
        let bytes = vec![0xeeu8; MEMORY + BLOCK].leak();
        let start = bytes.as_ptr().align_offset(BLOCK);
        // SAFETY: leaked memory that nothing else uses.
        let all = unsafe { MemRef::from_raw(NonNull::from(&mut bytes[start]), MEMORY) };
        let words = SharedWords::on_heap(RECORD_WORDS);
        let table = Arc::new(StagingTable::new(words.clone(), all));
        let mut pieces = Vec::new();
        let mut at = 0;
        for (len, count) in [(1, 16), (4, 12), (16, 8)] {
            for _ in 0..count {
                pieces.push(all.slice(at..at + len * BLOCK));
                at += len * BLOCK;
            }
        }
        let memory = Arc::new(Spoiling { all, free: RankedMutex::new(LockRank::Leaf, pieces), table });
        let cell = FolioCell::default();
        cell.begin_life();
        let sub = Sub { fid: Fid::new(5, 6), attrs: Arc::new(AttrCell::default()), offset: OFFSET };
        cell.lock().sub = Some(sub);
        let backing = Backing::new(memory.clone());
        World { memory, words, backing, cell, dirty: vec![None; BLOCKS * BLOCK], writes: 0 }
    }

    /// What `act` makes of the dirty bytes.
    fn after(&self, act: &Act) -> Bytes {
        let mut dirty = self.dirty.clone();
        let mut clean = |blocks: BlockSet| {
            blocks.iter().for_each(|b| dirty[b * BLOCK..(b + 1) * BLOCK].fill(None));
        };
        match act {
            Act::Write { at, len, .. } => dirty[*at..at + len].fill(Some(self.writes)),
            Act::WriteOut(_) => {}
            Act::Arrive(_) => clean(self.cell.lock().page_out()),
            Act::Truncate(at) => dirty[*at..].fill(None),
            Act::Forget(blocks) => clean(*blocks),
        }
        dirty
    }

    /// What of it the folio's state allows.
    fn allowed(&self, act: Act) -> Option<Act> {
        let state = self.cell.lock();
        let busy = state.in_flight();
        Some(match act {
            Act::Write { at, len, .. } => {
                let touched = BlockSet::touching(at as u64, (at + len) as u64);
                busy.and(touched.or(self.cell.segments().growth(touched))).is_empty().then_some(act)?
            }
            Act::WriteOut(blocks) => Act::WriteOut(blocks.and(self.cell.dirty())),
            Act::Arrive(_) => act,
            Act::Truncate(at) => {
                busy.and(BlockSet::touching(at as u64, (BLOCKS * BLOCK) as u64)).is_empty().then_some(act)?
            }
            Act::Forget(blocks) => Act::Forget(blocks.minus(busy)),
        })
    }

    fn act(&self, act: &Act) -> Result<(), WriteRefusal> {
        let mut state = self.cell.lock();
        match act {
            Act::Write { at, len, eof } => {
                let bytes = vec![self.writes; *len];
                return self.cell.write(&mut state, &self.backing, *at, &bytes, *eof).map(drop);
            }
            Act::WriteOut(blocks) => {
                state.set(Move::MakeReady(*blocks)).unwrap();
                self.cell.set_clean(*blocks);
            }
            Act::Arrive(well) => {
                let blocks = state.page_out();
                state.set(Move::Complete(blocks)).unwrap();
                match well {
                    true => state.partial.remove_all(blocks),
                    false => self.cell.forget(&mut state, &self.backing, blocks),
                }
                self.backing.settle(&mut state, self.cell.dirty());
            }
            Act::Truncate(at) => self.cell.truncate(&mut state, &self.backing, *at, BLOCKS),
            Act::Forget(blocks) => self.cell.forget(&mut state, &self.backing, *blocks),
        }
        Ok(())
    }

    /// What the daemon finds.
    fn named(&self) -> Bytes {
        let mut named = vec![None; BLOCKS * BLOCK];
        for folio in staging::read(&self.words, MEMORY as u64) {
            let folio = folio.expect("a record of a client that keeps to the rules");
            assert_eq!(folio.fid, Fid::new(5, 6));
            for run in folio.runs {
                let mut bytes = vec![0; run.extent.len() as usize];
                self.memory.all.read_at(run.at as usize, &mut bytes);
                let start = (run.extent.start - OFFSET) as usize;
                named[start..start + bytes.len()].iter_mut().zip(bytes).for_each(|(to, byte)| *to = Some(byte));
            }
        }
        named
    }
}

fn blocks() -> impl Strategy<Value = BlockSet> {
    (0..BLOCKS, 1..=BLOCKS).prop_map(|(start, len)| BlockSet::range(start..(start + len).min(BLOCKS)))
}

fn act() -> impl Strategy<Value = Act> {
    let write = |len| {
        (0..BLOCKS * BLOCK, len, prop_oneof![Just(0), Just(u64::MAX), 0..(BLOCKS * BLOCK) as u64])
            .prop_map(|(at, len, eof): (usize, usize, u64)| Act::Write { at, len: len.min(BLOCKS * BLOCK - at), eof })
    };
    prop_oneof![
        6 => write(1..200usize),
        // Beside each other, so that ranges grow and join.
        4 => (0..4usize, 0..40usize, 1..3usize)
            .prop_map(|(b, i, n)| Act::Write { at: b * BLOCK + i * 100, len: n * 100, eof: u64::MAX }),
        3 => write(1..5 * BLOCK),
        2 => blocks().prop_map(Act::WriteOut),
        2 => any::<bool>().prop_map(Act::Arrive),
        1 => (0..BLOCKS * BLOCK).prop_map(Act::Truncate),
        1 => blocks().prop_map(Act::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 96 }, ..ProptestConfig::default() })]

    #[test]
    fn a_client_may_die_at_any_store(acts in prop::collection::vec(act(), 1..60), stores in 0usize..300) {
        let mut world = World::new();
        staging::tests::die_after(Some(stores));
        for act in acts {
            let Some(act) = world.allowed(act) else { continue };
            world.writes = world.writes.wrapping_add(1) % 0xdd;
            let after = world.after(&act);
            let done = catch_unwind(AssertUnwindSafe(|| world.act(&act)));
            let named = world.named();
            match done {
                Ok(Ok(())) => {
                    prop_assert!(named == after, "after {:?}", act);
                    world.dirty = after;
                }
                Ok(Err(WriteRefusal::Fragmented(block))) => {
                    prop_assert!(named == world.dirty, "refused: {:?}", act);
                    prop_assert!(world.cell.lock().partial.contains(block), "a block to write out");
                }
                Ok(Err(_)) => prop_assert!(named == world.dirty, "refused: {:?}", act),
                Err(_) => {
                    // In the middle: each byte as before, or as after.
                    for i in 0..BLOCKS * BLOCK {
                        let (old, now, new) = (world.dirty[i], named[i], after[i]);
                        let taken_back = new.is_none() || matches!(act, Act::Arrive(_));
                        let fits = now == old || now == new || (now.is_none() && taken_back);
                        prop_assert!(fits, "byte {} is {:?}: was {:?}, becomes {:?} by {:?}", i, now, old, new, act);
                    }
                    break;
                }
            }
        }
        staging::tests::die_after(None);
        let mut state = world.cell.lock();
        world.backing.settle(&mut state, BlockSet::EMPTY);
    }
}
