//! Units and names: bytes, folios, blocks, stripes and FIDs as types that cannot be mixed up.

use std::fmt;
use std::ops::Range;

/// Granularity of validity, dirtiness and locking, in bytes.
pub const BLOCK_SIZE: u64 = 4096;
/// Largest (and default) folio size in bytes.
pub const MAX_FOLIO_SIZE: u64 = 1 << 20;
/// The largest file size and offset in bytes: what `off_t` can express.
pub const MAX_FILE_SIZE: u64 = i64::MAX as u64;

/// File identifier: names a file, and by its version field the sub-objects of that file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[doc(alias = "lu_fid")]
pub struct Fid {
    /// Sequence: one per store or client that allocates.
    pub seq: u64,
    /// Number within the sequence.
    pub oid: u32,
    /// 0 for a file; 1 + (component << 16 | stripe) for a sub-object of it.
    pub ver: u32,
}

impl Fid {
    /// A file's FID.
    pub const fn new(seq: u64, oid: u32) -> Self {
        Self { seq, oid, ver: 0 }
    }

    /// The FID of stripe `stripe` of layout component `component` of this file.
    ///
    /// # Panics
    /// If `component` or `stripe` exceeds 16 bits less one: layouts are checked before.
    pub fn sub_object(self, component: u16, stripe: u16) -> Self {
        assert!(component < u16::MAX, "component index {component} out of range");
        Self { ver: 1 + ((component as u32) << 16 | stripe as u32), ..self }
    }

    /// The file that this FID, of a file or of one of its sub-objects, belongs to.
    pub const fn file(self) -> Self {
        Self { ver: 0, ..self }
    }

    /// Component and stripe of a sub-object's FID; `None` for a file's.
    pub fn stripe_of(self) -> Option<(u16, u16)> {
        let v = self.ver.checked_sub(1)?;
        Some(((v >> 16) as u16, v as u16))
    }

    /// Sixteen bytes, big-endian, so that byte order is FID order.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut b = [0; 16];
        b[..8].copy_from_slice(&self.seq.to_be_bytes());
        b[8..12].copy_from_slice(&self.oid.to_be_bytes());
        b[12..].copy_from_slice(&self.ver.to_be_bytes());
        b
    }

    /// The inverse of [`Fid::to_bytes`].
    pub fn from_bytes(b: [u8; 16]) -> Self {
        Self {
            seq: u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            oid: u32::from_be_bytes([b[8], b[9], b[10], b[11]]),
            ver: u32::from_be_bytes([b[12], b[13], b[14], b[15]]),
        }
    }
}

impl fmt::Display for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}:{:#x}:{:#x}]", self.seq, self.oid, self.ver)
    }
}

impl fmt::Debug for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A half-open range of bytes `[start, end)` of a file or sub-object.
/// `end == u64::MAX` ([`Extent::EOF`]) means "to the end of file, wherever it moves".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// First byte after.
    pub end: u64,
}

impl Extent {
    /// The end of an extent that reaches to the end of file.
    pub const EOF: u64 = u64::MAX;
    /// The whole file, wherever its end moves.
    pub const WHOLE: Extent = Extent { start: 0, end: Self::EOF };

    /// `[start, end)`; an end before the start gives an empty extent at `start`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }

    /// `[start, start + len)`, saturating.
    pub const fn with_len(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// Bytes covered.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether no byte is covered.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether every byte of `other` is covered.
    pub const fn covers(self, other: Extent) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// Whether the byte at `offset` is covered.
    pub const fn contains(self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }

    /// Whether a byte is in both.
    pub const fn overlaps(self, other: Extent) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end && other.start < self.end
    }

    /// What is in both.
    pub fn intersect(self, other: Extent) -> Extent {
        Extent::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The smallest extent that covers both; an empty one does not count.
    pub fn hull(self, other: Extent) -> Extent {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Extent { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }

    /// Grown outwards to block boundaries.
    pub fn align_to_blocks(self) -> Extent {
        let end = match self.end {
            Self::EOF => Self::EOF,
            e => e.checked_next_multiple_of(BLOCK_SIZE).unwrap_or(Self::EOF),
        };
        Extent { start: self.start / BLOCK_SIZE * BLOCK_SIZE, end }
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            Self::EOF => write!(f, "[{}, EOF)", self.start),
            e => write!(f, "[{}, {e})", self.start),
        }
    }
}

/// Index of a folio in its object: byte offset / folio size of that object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageIndex(pub u64);

/// Index of a stripe in its layout component.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StripeIndex(pub u16);

/// Index of a storage target in its store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TargetIndex(pub u16);

/// A client of the lock manager.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// A set of blocks of one folio: 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockSet(pub [u64; 4]);

impl BlockSet {
    /// No block.
    pub const EMPTY: BlockSet = BlockSet([0; 4]);

    /// The blocks `range` (indices below 256).
    #[inline]
    pub fn range(range: Range<usize>) -> Self {
        let mut words = [0u64; 4];
        for (w, word) in words.iter_mut().enumerate() {
            let lo = range.start.clamp(w * 64, w * 64 + 64) - w * 64;
            let hi = range.end.clamp(w * 64, w * 64 + 64) - w * 64;
            if hi > lo {
                *word = (u64::MAX >> (64 - (hi - lo))) << lo;
            }
        }
        Self(words)
    }

    /// The blocks that the bytes `[start, end)` of the folio touch.
    #[inline]
    pub fn touching(start: u64, end: u64) -> Self {
        if end <= start {
            return Self::EMPTY;
        }
        Self::range((start / BLOCK_SIZE) as usize..end.div_ceil(BLOCK_SIZE) as usize)
    }

    /// The blocks that the bytes `[start, end)` of the folio cover whole.
    #[inline]
    pub fn within(start: u64, end: u64) -> Self {
        let (s, e) = (start.div_ceil(BLOCK_SIZE) as usize, (end / BLOCK_SIZE) as usize);
        Self::range(s..e.max(s))
    }

    /// Whether no block is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// How many blocks are in the set.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether block `b` is in the set.
    #[inline]
    pub fn contains(&self, b: usize) -> bool {
        self.0[b / 64] >> (b % 64) & 1 == 1
    }

    /// Adds block `b`.
    #[inline]
    pub fn insert(&mut self, b: usize) {
        self.0[b / 64] |= 1 << (b % 64);
    }

    /// Takes block `b` out.
    #[inline]
    pub fn remove(&mut self, b: usize) {
        self.0[b / 64] &= !(1 << (b % 64));
    }

    /// Blocks in both.
    #[inline]
    pub fn and(self, o: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & o.0[i]))
    }

    /// Blocks in either.
    #[inline]
    pub fn or(self, o: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | o.0[i]))
    }

    /// Blocks in this one and not in the other.
    #[inline]
    pub fn minus(self, o: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !o.0[i]))
    }

    /// Whether every block of `o` is in this set.
    #[inline]
    pub fn covers(self, o: Self) -> bool {
        o.minus(self).is_empty()
    }

    /// The blocks, lowest first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        self.runs().flatten()
    }

    /// Maximal runs of consecutive blocks, lowest first.
    #[inline]
    pub fn runs(self) -> impl Iterator<Item = Range<usize>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next_set(at)?;
            let end = Self(self.0.map(|w| !w)).next_set(start).unwrap_or(256);
            at = end;
            Some(start..end)
        })
    }

    fn next_set(&self, from: usize) -> Option<usize> {
        if from >= 256 {
            return None;
        }
        let mut w = from / 64;
        let mut word = self.0[w] & (u64::MAX << (from % 64));
        loop {
            if word != 0 {
                return Some(w * 64 + word.trailing_zeros() as usize);
            }
            w += 1;
            word = *self.0.get(w)?;
        }
    }
}

impl fmt::Debug for BlockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.runs()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn block_set_matches_a_set_of_indices(a in 0usize..=256, b in 0usize..=256, c in 0usize..=256, d in 0usize..=256) {
            let (x, y) = (BlockSet::range(a..b), BlockSet::range(c..d));
            let naive = |r: Range<usize>| r.collect::<std::collections::BTreeSet<_>>();
            let (nx, ny) = (naive(a..b), naive(c..d));
            prop_assert_eq!(x.iter().collect::<Vec<_>>(), nx.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(x.or(y).iter().collect::<Vec<_>>(), nx.union(&ny).copied().collect::<Vec<_>>());
            prop_assert_eq!(x.and(y).count(), nx.intersection(&ny).count());
            prop_assert_eq!(x.minus(y).iter().collect::<Vec<_>>(), nx.difference(&ny).copied().collect::<Vec<_>>());
            prop_assert_eq!(x.covers(y), ny.is_subset(&nx));
        }

        #[test]
        fn fid_round_trips(seq: u64, oid: u32, c in 0u16..100, s: u16) {
            let f = Fid::new(seq, oid).sub_object(c, s);
            prop_assert_eq!(Fid::from_bytes(f.to_bytes()), f);
            prop_assert_eq!(f.stripe_of(), Some((c, s)));
            prop_assert_eq!(f.file(), Fid::new(seq, oid));
        }
    }

    #[test]
    fn extents() {
        let e = Extent::new(10, 5000);
        assert_eq!(e.align_to_blocks(), Extent::new(0, 8192));
        assert_eq!(Extent::WHOLE.align_to_blocks(), Extent::WHOLE);
        assert!(Extent::WHOLE.covers(e) && !e.covers(Extent::WHOLE));
        assert!(!Extent::new(0, 4).overlaps(Extent::new(4, 8)));
        assert_eq!(Extent::new(0, 4).hull(Extent::new(8, 9)), Extent::new(0, 9));
        assert_eq!(BlockSet::touching(1, 4097), BlockSet::range(0..2));
        assert_eq!(BlockSet::within(1, 8192), BlockSet::range(1..2));
    }
}
