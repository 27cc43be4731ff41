//! FIDs from a sequence that never goes back.
//!
//! The store holds the end of the range handed out so far; a crash skips what is left of the range.

use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};

/// Key in the meta space of the range's end: eight bytes, big-endian.
pub(crate) const KEY: &[u8] = b"fid-limit";
/// The root directory.
pub(crate) const ROOT: Fid = Fid::new(1, 1);

/// The first number that is handed out: right after the root's.
const FIRST: u64 = (1 << 32) + 2;
/// FIDs reserved at once.
const RANGE: u64 = 4096;

/// A reserved part of the sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FidRange {
    next: u64,
    limit: u64,
}

impl FidRange {
    /// Of a new store: nothing is reserved.
    pub(crate) fn new() -> Self {
        Self { next: FIRST, limit: FIRST }
    }

    /// From the stored end of the range: everything before may be in use.
    pub(crate) fn decode(stored: &[u8]) -> Result<Self> {
        match stored.try_into().map(u64::from_be_bytes) {
            Ok(limit) if limit >= FIRST => Ok(Self { next: limit, limit }),
            _ => Err(Error::new(
                Errno::EBADMSG,
                "open",
                "the record of FIDs in use is damaged; restore the store from a copy",
            )),
        }
    }

    /// The stored form of the range's end.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.limit.to_be_bytes().to_vec()
    }

    /// The next FID, and whether the range's end moved: then it must be stored with the FID's first use.
    pub(crate) fn allocate(&mut self) -> Result<(Fid, bool)> {
        let n = self.next;
        let grow = n == self.limit;
        if grow {
            self.limit = n
                .checked_add(RANGE)
                .ok_or_else(|| Error::new(Errno::ENOSPC, "create", "all 2^64 FIDs of this store are used up"))?;
        }
        self.next = n + 1;
        Ok((Fid::new(n >> 32, n as u32), grow))
    }

    /// Whether any was handed out.
    pub(crate) fn started(&self) -> bool {
        self.limit > FIRST
    }

    /// Whether `fid` may have been handed out.
    pub(crate) fn covers(&self, fid: Fid) -> bool {
        fid == ROOT || (fid.seq < 1 << 32 && (fid.seq << 32 | u64::from(fid.oid)) < self.limit)
    }

    /// Moves the range past `fid`.
    pub(crate) fn skip(&mut self, fid: Fid) {
        if fid.seq < u64::from(u32::MAX) {
            let after = (fid.seq << 32 | u64::from(fid.oid)) + 1;
            self.limit = self.limit.max(after);
            self.next = self.limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_twice_over_reopens() {
        let mut range = FidRange::new();
        let mut stored = range.encode();
        let mut last = ROOT;
        for n in 0..3 * RANGE {
            let (fid, grew) = range.allocate().unwrap();
            assert!(fid > last && range.covers(fid));
            last = fid;
            if grew {
                stored = range.encode();
            }
            if n % 1000 == 999 {
                range = FidRange::decode(&stored).unwrap();
                assert!(range.covers(last));
            }
        }
    }

    #[test]
    fn ends_and_damage() {
        let mut range = FidRange { next: u64::MAX - 1, limit: u64::MAX - 1 };
        assert_eq!(range.allocate().unwrap_err().errno(), Errno::ENOSPC);
        assert_eq!(FidRange::decode(&[0; 8]).unwrap_err().errno(), Errno::EBADMSG);
        assert_eq!(FidRange::decode(&[0; 3]).unwrap_err().errno(), Errno::EBADMSG);
        let mut range = FidRange::new();
        let far = Fid::new(7, 9);
        assert!(!range.covers(far));
        range.skip(far);
        assert!(range.covers(far));
        assert_eq!(range.allocate().unwrap().0, Fid::new(7, 10));
    }
}
