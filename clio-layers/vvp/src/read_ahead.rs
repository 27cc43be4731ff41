//! Read-ahead of one open file: what to ask for before it is wanted.
//!
//! [`Pattern`] decides, and knows nothing of pages; [`ReadAhead`] shares it between the threads that read the file.
//! Cached reads tell it nothing but where they cross [`ReadAhead::trigger`], at the start of what was asked for last:
//! there the next window is started, so that a whole one is always under way.

use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::units::{BLOCK_SIZE, Extent};
use smallvec::SmallVec;

/// Smallest window in bytes.
const FIRST_WINDOW: u64 = 256 << 10;
/// Smallest first read of a file, from its start, that makes more be asked for, in bytes.
const FIRST_READ: u64 = 64 << 10;
/// How far a read may start beyond the end of the one before and still be sequential, in bytes.
const SLACK: u64 = 8 * BLOCK_SIZE;
/// Equal gaps after which a stride is believed.
const STRIDE_PROOF: u32 = 2;
/// Most pieces of a stride asked for at once.
const STRIDE_PIECES: u64 = 32;

/// Extents to ask for ahead, block-aligned.
pub(crate) type Ahead = SmallVec<[Extent; 4]>;

/// How far read-ahead may go, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_bytes: u64,
    pub(crate) small_file_bytes: u64,
}

/// What a read came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Advice {
    /// What to ask for.
    pub(crate) ahead: Ahead,
    /// Bytes asked for earlier that the reader came to.
    pub(crate) hit_bytes: u64,
    /// Bytes asked for earlier that the reader turned away from.
    pub(crate) wasted_bytes: u64,
}

/// The pattern of reads so far.
#[derive(Debug, Default)]
struct Pattern {
    last: Extent0,
    /// Reads in sequence, the first not counted.
    streak: u32,
    /// The last two windows asked for ahead of a sequence; up to where the reader came in them.
    asked: Extent0,
    reached: u64,
    /// The reader starts the next window beyond this: the start of the last one.
    marker: u64,
    /// Size of the next window.
    window: u64,
    /// Distance of the last two reads' starts, and how often it came in succession.
    gap: u64,
    gaps: u32,
    /// Start of the first piece of the stride not yet asked for.
    next_piece: u64,
    pieces: u64,
}

/// An extent that is `[0, 0)` by default.
#[derive(Clone, Copy, Debug)]
struct Extent0(Extent);

impl Default for Extent0 {
    fn default() -> Self {
        Self(Extent::new(0, 0))
    }
}

impl Pattern {
    /// Notes a read of a file of `size` bytes; `missed` if not all of it was cached.
    fn on_read(&mut self, read: Extent, size: u64, missed: bool, limits: Limits) -> Advice {
        let mut advice = Advice::default();
        if limits.max_bytes == 0 || read.is_empty() {
            return advice;
        }
        if missed && size <= limits.small_file_bytes {
            self.last = Extent0(read);
            advice.ahead.push(Extent::new(0, size));
        } else if self.is_sequential(read) {
            self.sequential(read, size, limits, &mut advice);
        } else if self.is_strided(read) {
            self.strided(read, size, limits, &mut advice);
        } else if missed {
            self.turn(read, &mut advice);
        }
        advice.ahead.iter_mut().for_each(|e| *e = e.align_to_blocks());
        advice
    }

    fn is_sequential(&self, read: Extent) -> bool {
        let (last, asked) = (self.last.0, self.asked.0);
        let follows = !last.is_empty() && last.end <= read.start && read.start - last.end <= SLACK;
        // Who begins a file with a read that is no header's is about to read on.
        let begins = last.is_empty() && read.start == 0 && read.len() >= FIRST_READ;
        follows || begins || (!asked.is_empty() && asked.start <= read.start && read.start <= asked.end)
    }

    fn sequential(&mut self, read: Extent, size: u64, limits: Limits, advice: &mut Advice) {
        self.streak += 1;
        self.last = Extent0(read);
        (self.gaps, self.gap) = (0, 0);
        let asked = self.asked.0;
        let reached = read.end.min(asked.end);
        advice.hit_bytes = reached.saturating_sub(self.reached);
        self.reached = self.reached.max(reached);
        if !asked.is_empty() && read.end <= self.marker {
            return;
        }
        // Two windows are under way at most.
        let most = (limits.max_bytes / 2).max(BLOCK_SIZE);
        let least = FIRST_WINDOW.max(read.len().saturating_mul(2)).min(most);
        // Fast while it is small: until several targets have work, each step costs the time of a request.
        let growth = if self.window < most / 8 { 4 } else { 2 };
        self.window = self.window.saturating_mul(growth).clamp(least, most);
        let start = asked.end.max(read.end);
        let end = start.saturating_add(self.window).min(size).min(read.end.saturating_add(limits.max_bytes));
        if start >= end {
            // All is asked for. Who reads the last byte says that the rest was of use.
            self.marker = self.marker.max(size.saturating_sub(1));
            return;
        }
        advice.ahead.push(Extent::new(start, end));
        if asked.is_empty() || start > asked.end {
            (self.asked, self.reached) = (Extent0(Extent::new(start, end)), start);
        } else {
            self.asked = Extent0(Extent::new(self.marker, end));
        }
        self.marker = start;
    }

    fn is_strided(&mut self, read: Extent) -> bool {
        let last = self.last.0;
        if last.is_empty() || read.start <= last.start || read.len() != last.len() {
            return false;
        }
        let gap = read.start - last.start;
        let known = self.gaps >= STRIDE_PROOF && self.gap > 0 && gap.is_multiple_of(self.gap);
        if known {
            return true;
        }
        self.gaps = if gap == self.gap { self.gaps + 1 } else { 1 };
        self.gap = gap;
        true
    }

    fn strided(&mut self, read: Extent, size: u64, limits: Limits, advice: &mut Advice) {
        self.drop_window(advice);
        self.last = Extent0(read);
        if self.gaps < STRIDE_PROOF {
            (self.next_piece, self.pieces) = (0, 0);
            return;
        }
        // Half of what was asked for lies ahead still: enough for now.
        if self.next_piece > read.start.saturating_add(self.pieces / 2 * self.gap) {
            return;
        }
        let most = (limits.max_bytes / read.len()).clamp(1, STRIDE_PIECES);
        self.pieces = (self.pieces * 2).clamp(4.min(most), most);
        let mut piece = self.next_piece.max(read.start.saturating_add(self.gap));
        for _ in 0..self.pieces {
            let end = piece.saturating_add(read.len()).min(size);
            if piece >= end {
                break;
            }
            advice.ahead.push(Extent::new(piece, end));
            piece = piece.saturating_add(self.gap);
        }
        self.next_piece = piece;
    }

    /// The reader went elsewhere.
    fn turn(&mut self, read: Extent, advice: &mut Advice) {
        self.drop_window(advice);
        *self = Pattern { last: Extent0(read), ..Pattern::default() };
    }

    fn drop_window(&mut self, advice: &mut Advice) {
        advice.wasted_bytes += self.asked.0.end.saturating_sub(self.reached);
        self.asked = Extent0::default();
        (self.reached, self.marker, self.window, self.streak) = (0, 0, 0, 0);
    }

    /// Where a cached read is to report; `u64::MAX` for nowhere.
    fn trigger(&self) -> u64 {
        match (self.asked.0.is_empty(), self.pieces) {
            (false, _) => self.marker,
            (true, 1..) => self.next_piece.saturating_sub((self.pieces / 2).max(1) * self.gap),
            _ => u64::MAX,
        }
    }
}

/// The read-ahead state of an open file.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    pattern: RankedMutex<Pattern>,
    /// Extents that the lock of the read did not reach: for an IO of their own, once the read is over.
    pending: RankedMutex<Ahead>,
    has_pending: AtomicU64,
    /// Where a cached read is to report; 0 until the first one has.
    trigger: AtomicU64,
}

impl Default for ReadAhead {
    fn default() -> Self {
        Self {
            pattern: RankedMutex::new(LockRank::Leaf, Pattern::default()),
            pending: RankedMutex::new(LockRank::Leaf, Ahead::new()),
            has_pending: AtomicU64::new(0),
            trigger: AtomicU64::new(0),
        }
    }
}

impl ReadAhead {
    /// Whether a cached read up to `end` has to be told to [`ReadAhead::on_read`].
    #[inline]
    pub(crate) fn is_due(&self, end: u64) -> bool {
        end > self.trigger.load(Ordering::Relaxed)
    }

    /// Whether the first read that is due is only due for being the first: there is nothing to tell then.
    pub(crate) fn begin(&self) -> bool {
        self.trigger.compare_exchange(0, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Notes a read. Nothing comes of it while another thread is doing the same.
    pub(crate) fn on_read(&self, read: Extent, size: u64, missed: bool, limits: Limits) -> Advice {
        let Some(mut pattern) = self.pattern.try_lock() else { return Advice::default() };
        let advice = pattern.on_read(read, size, missed, limits);
        self.trigger.store(pattern.trigger().max(1), Ordering::Relaxed);
        advice
    }

    /// Leaves extents for later.
    pub(crate) fn defer(&self, extent: Extent) {
        if !extent.is_empty() {
            self.pending.lock().push(extent);
            self.has_pending.store(1, Ordering::Relaxed);
        }
    }

    /// Takes what was left for later.
    pub(crate) fn take_deferred(&self) -> Ahead {
        if self.has_pending.swap(0, Ordering::Relaxed) == 0 {
            return Ahead::new();
        }
        std::mem::take(&mut *self.pending.lock())
    }
}

#[cfg(all(test, not(clio_loom)))]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_bytes: 8 << 20, small_file_bytes: 64 << 10 };
    const BIG: u64 = 1 << 40;

    fn read(p: &mut Pattern, start: u64, len: u64) -> Vec<Extent> {
        p.on_read(Extent::with_len(start, len), BIG, true, LIMITS).ahead.to_vec()
    }

    #[test]
    fn the_second_sequential_read_opens_a_window_and_each_window_entered_the_next() {
        let mut p = Pattern::default();
        assert!(read(&mut p, 0, 4096).is_empty());
        let first = Extent::with_len(8192, FIRST_WINDOW);
        assert_eq!(read(&mut p, 4096, 4096), [first]);
        assert_eq!(p.trigger(), first.start);
        let second = Extent::with_len(first.end, 4 * FIRST_WINDOW);
        assert_eq!(read(&mut p, 8192, 4096), [second]);
        assert!(read(&mut p, 12_288, 4096).is_empty() && read(&mut p, first.end - 4096, 4096).is_empty());
        assert_eq!(p.trigger(), second.start);
        let (mut at, mut largest) = (first.end, 0);
        for _ in 0..10_000 {
            for e in read(&mut p, at, 4096) {
                assert!(e.end <= at + 4096 + LIMITS.max_bytes, "{e:?} at {at}");
                largest = largest.max(e.len());
            }
            at += 4096;
        }
        assert_eq!(largest, LIMITS.max_bytes / 2);
    }

    #[test]
    fn a_file_begun_with_a_large_read_is_read_on() {
        let mut p = Pattern::default();
        assert_eq!(read(&mut p, 0, 1 << 20), [Extent::with_len(1 << 20, 2 << 20)]);
        let mut p = Pattern::default();
        assert!(read(&mut p, 1 << 20, 1 << 20).is_empty(), "not from its start");
    }

    proptest::proptest! {
        /// Whatever is read: what was asked for is used or wasted once.
        #[test]
        fn no_more_is_used_or_wasted_than_was_asked_for(
            reads in proptest::collection::vec((0u64..3, 0u64..64, 1u64..64), 1..200),
            max_mib in 0u64..9,
            size in 1u64..4096,
        ) {
            let (mut p, size) = (Pattern::default(), size * 10_000);
            let limits = Limits { max_bytes: max_mib << 20, small_file_bytes: 64 << 10 };
            let (mut asked, mut settled, mut next) = (0, 0, 0u64);
            for (jump, place, blocks) in reads {
                let start = if jump == 0 { place * size / 64 } else { next };
                let read = Extent::new(start, (start + blocks * 4096).min(size));
                next = if read.is_empty() { 0 } else { read.end };
                let advice = p.on_read(read, size, true, limits);
                asked += advice.ahead.iter().map(|e| e.len()).sum::<u64>();
                settled += advice.hit_bytes + advice.wasted_bytes;
                proptest::prop_assert!(settled <= asked, "{settled} of {asked}");
            }
        }
    }

    #[test]
    fn never_past_the_end() {
        let mut p = Pattern::default();
        let size = 100_000;
        for at in (0..size).step_by(4096) {
            for e in p.on_read(Extent::with_len(at, 4096), size, true, LIMITS).ahead {
                assert!(e.end <= size.next_multiple_of(4096), "{e:?}");
            }
        }
    }

    #[test]
    fn a_stride_is_found_after_two_equal_gaps() {
        let mut p = Pattern::default();
        let (gap, len) = (1 << 20, 8192);
        assert!(read(&mut p, 0, len).is_empty());
        assert!(read(&mut p, gap, len).is_empty());
        let ahead = read(&mut p, 2 * gap, len);
        assert_eq!(ahead.len(), 4);
        assert_eq!(ahead[0], Extent::with_len(3 * gap, len));
        assert!(read(&mut p, 3 * gap, len).is_empty());
        // Reads in between were cached and not reported: a multiple of the gap goes on.
        let ahead = read(&mut p, 5 * gap, len);
        assert_eq!(ahead[0], Extent::with_len(7 * gap, len));
        assert_eq!(ahead.len(), 8);
    }

    #[test]
    fn random_reads_ask_for_nothing_and_end_a_window() {
        let mut p = Pattern::default();
        for at in [50u64, 3, 77, 12, 99, 31, 64, 8] {
            assert!(read(&mut p, at << 24, 4096).is_empty());
        }
        read(&mut p, 0, 4096);
        assert_eq!(read(&mut p, 4096, 4096).len(), 1);
        let advice = p.on_read(Extent::with_len(1 << 30, 8192), BIG, true, LIMITS);
        assert_eq!(advice, Advice { wasted_bytes: FIRST_WINDOW, ..Advice::default() });
        assert_eq!(p.trigger(), u64::MAX);
    }

    #[test]
    fn small_files_are_read_whole() {
        let mut p = Pattern::default();
        let ahead = p.on_read(Extent::with_len(9000, 100), 50_001, true, LIMITS).ahead;
        assert_eq!(ahead.to_vec(), [Extent::new(0, 53_248)]);
        assert!(p.on_read(Extent::with_len(0, 100), 50_001, false, LIMITS).ahead.is_empty());
    }
}
