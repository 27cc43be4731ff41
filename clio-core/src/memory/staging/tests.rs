use super::layout::{DIRTY, IN_PARTS, OFFSET, PIECES, Part, Piece, RANGES, STATE};
use super::*;
use crate::Errno;
use crate::memory::MemRef;
use crate::memory::words::SharedWords;
use crate::units::{BlockSet, Extent, Fid, MAX_FILE_SIZE};
use proptest::prelude::*;
use std::cell::Cell;
use std::ptr::NonNull;

thread_local! {
    static STORES_LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Lets this thread's client die before it has made `stores` more stores to its records; `None`: it lives on.
pub(crate) fn die_after(stores: Option<usize>) {
    STORES_LEFT.set(stores);
}

pub(super) fn before_a_store() {
    match STORES_LEFT.get() {
        Some(0) => panic!("the client dies"),
        left => STORES_LEFT.set(left.map(|n| n - 1)),
    }
}

const ARENA: u64 = 1 << 20;

fn words_of(dirty: u64, in_parts: u64, piece: Piece, parts: &[Part]) -> [u64; RECORD_WORDS] {
    let mut words = [0; RECORD_WORDS];
    (words[STATE], words[DIRTY], words[IN_PARTS], words[OFFSET]) = (1, dirty, in_parts, 1 << 20);
    words[PIECES] = piece.pack();
    parts.iter().enumerate().for_each(|(i, p)| words[RANGES.start + i] = p.pack());
    words
}

fn runs(words: &[u64; RECORD_WORDS]) -> Vec<(u64, u64, u64)> {
    let folio = decode(words, ARENA).unwrap().unwrap();
    folio.runs.iter().map(|r| (r.extent.start - (1 << 20), r.extent.len(), r.at)).collect()
}

#[test]
fn blocks_beside_each_other_are_one_run_and_parts_are_to_the_byte() {
    let piece = Piece { at: 0x4000, first: 4, blocks: 4 };
    let parts = [(6, 100, 200), (6, 10, 20), (6, 150, 4096), (5, 0, 7)];
    let parts = parts.map(|(block, start, end)| Part { block, start, end });
    assert_eq!(runs(&words_of(0b11_0000, 0, piece, &[])), [(0x4000, 0x2000, 0x4000)]);
    assert_eq!(
        runs(&words_of(0b1101_0000, 0b0100_0000, piece, &parts)),
        [(0x4000, 0x1000, 0x4000), (0x600a, 10, 0x600a), (0x6064, 0x1f9c, 0x6064)],
        "ranges that overlap are one, and one that ends with its block goes on in the next"
    );
}

#[test]
fn nonsense_is_refused() {
    let piece = |at, first, blocks| Piece { at, first, blocks };
    let refused = |words: [u64; RECORD_WORDS]| decode(&words, ARENA).unwrap_err().errno() == Errno::EBADMSG;
    assert!(refused(words_of(1, 0, piece(ARENA, 0, 1), &[])), "outside of the memory");
    assert!(refused(words_of(0b10, 0, piece(ARENA - 4096, 0, 4), &[])), "partly outside");
    assert!(refused(words_of(1 << 4, 0, piece(0, 0, 4), &[])), "a block that the piece doesn't hold");
    assert!(refused(words_of(1 << 16, 0, piece(0, 0, 16), &[])), "a segment without a piece");
    let mut words = words_of(1, 0, piece(0, 0, 1), &[]);
    words[OFFSET] = 17;
    assert!(refused(words), "not aligned");
    for offset in [MAX_FILE_SIZE, u64::MAX - 4095] {
        words[OFFSET] = offset;
        assert!(refused(words), "beyond the largest file");
    }
    words[STATE] = 0;
    assert_eq!(decode(&words, ARENA).unwrap(), None, "nobody's");
}

proptest! {
    /// Whatever a client leaves, what comes of it lies in its memory, and in order.
    #[test]
    fn decoding_is_total(words in prop::collection::vec(any::<u64>(), RECORD_WORDS), small in any::<u64>(), len in 0u64..1 << 30) {
        let mut words: [u64; RECORD_WORDS] = words.try_into().unwrap();
        for (i, word) in words.iter_mut().enumerate().skip(1) {
            // Mostly values that come close to something that makes sense.
            if small >> i & 1 == 1 { *word &= 0x0000_00ff_0fff_0fff; }
        }
        if let Ok(Some(folio)) = decode(&words, len) {
            let mut end = 0;
            for run in folio.runs {
                prop_assert!(!run.extent.is_empty() && run.extent.start >= end && run.extent.end <= MAX_FILE_SIZE);
                prop_assert!(run.at + run.extent.len() <= len);
                end = run.extent.end;
            }
        }
    }
}

#[test]
fn records_are_used_again_and_run_out() {
    let words = SharedWords::on_heap(2 * RECORD_WORDS);
    let block = vec![0u64; 512].leak();
    // SAFETY: leaked memory, of which nothing is ever read or written here.
    #[expect(unsafe_code, reason = "test memory")]
    let memory = unsafe { MemRef::from_raw(NonNull::from(&mut block[0]).cast(), 4096) };
    let table = StagingTable::new(words.clone(), memory);
    let fid = |n| Fid::new(1, n);
    let (a, b) = (table.claim(fid(1), 0).unwrap(), table.claim(fid(2), 4096).unwrap());
    assert_eq!((table.claim(fid(3), 0), table.in_use()), (None, 2));
    table.set_piece(b, 0, 3, memory);
    table.add(b, BlockSet::range(3..4));
    assert!(!table.remove(b, BlockSet::range(0..2)));
    table.give_back(a);
    let found: Vec<_> = read(&words, 4096).map(Result::unwrap).collect();
    let runs = vec![StagedRun { extent: Extent::new(4 * 4096, 5 * 4096), at: 0 }];
    assert_eq!(found, [StagedFolio { fid: fid(2), runs }]);
    assert_eq!((table.claim(fid(4), 0), table.in_use()), (Some(a), 2));
    assert!(table.remove(b, BlockSet::range(0..9)));
    assert_eq!(read(&words, 4096).count(), 0);
}
