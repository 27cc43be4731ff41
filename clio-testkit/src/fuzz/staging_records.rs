//! Staging records: the daemon must not trust what a client left in shared memory.

use super::{Verdict, refused};
use clio_core::Errno;
use clio_core::memory::staging::{RECORD_WORDS, decode};
use clio_core::units::{Extent, MAX_FILE_SIZE, MAX_FOLIO_SIZE};

/// The length of the shared memory, then the words of a record, eight bytes each, little-endian; what is cut off is zeros.
pub fn staging_records(input: &[u8]) -> Verdict {
    let mut all = [[0; 8]; 1 + RECORD_WORDS];
    all.as_flattened_mut().iter_mut().zip(input).for_each(|(to, from)| *to = *from);
    let [memory_len, words @ ..] = all.map(u64::from_le_bytes);
    let folio = match decode(&words, memory_len) {
        Ok(Some(folio)) => folio,
        Ok(None) => return Verdict::Accepted,
        Err(e) => return refused(&e, &[Errno::EBADMSG]),
    };
    let mut last: Option<Extent> = None;
    for run in &folio.runs {
        assert!(!run.extent.is_empty() && run.extent.end <= MAX_FILE_SIZE, "{run:?}");
        assert!(last.is_none_or(|last| last.end <= run.extent.start), "runs are in order and don't overlap");
        assert!(run.at.checked_add(run.extent.len()).is_some_and(|end| end <= memory_len), "{run:?} in the memory");
        last = Some(run.extent);
    }
    let hull = folio.runs.iter().fold(Extent::new(0, 0), |hull, run| hull.hull(run.extent));
    assert!(!hull.is_empty() && hull.len() <= MAX_FOLIO_SIZE, "all in one folio");
    Verdict::Accepted
}
