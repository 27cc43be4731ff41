//! What may have been lost when the machine, not only the process, went down.
//!
//! The page cache outlives a process, so after a kill the marks of `side` are exact. After a crash of the machine the
//! disk may have data without the mark that was written before it. So, before an object is changed for the first time,
//! a bit for its group (one of 64) is made durable in the file `state`. If the store is opened under another boot of
//! the machine, the objects of these groups are suspect: their checksums are computed anew at first use instead of
//! being judged. [`Intent::finish_settling`] takes the bits off once everything is on disk.

use super::state::{Record, SIZE};
use crate::syncs;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::units::Fid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The open file `state`.
#[derive(Debug)]
pub(super) struct Intent {
    file: File,
    record: RankedMutex<Record>,
    /// `record.fresh`, to look at without the mutex.
    durable: AtomicU64,
}

/// One of 64 groups of objects.
fn group(fid: Fid) -> u64 {
    1 << (super::layout::spread(fid) >> 58)
}

/// Nanoseconds since 1970, by a clock fine enough that no two openings of a store read the same.
fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_nanos() as u64)
}

/// Names this boot of the machine; zeros where the system doesn't tell, which makes nothing suspect.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut id = [0; 16];
    let digits = text.iter().filter_map(|c| char::from(*c).to_digit(16));
    for (i, digit) in digits.take(32).enumerate() {
        id[i / 2] = id[i / 2] << 4 | digit as u8;
    }
    id
}

impl Intent {
    /// Reads the file, which may be empty (a new store), and starts a new epoch.
    pub(super) fn open(file: File) -> io::Result<Self> {
        Self::open_under(file, boot_id())
    }

    fn open_under(file: File, boot: [u8; 16]) -> io::Result<Self> {
        let mut bytes = [0; SIZE];
        let old = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Record::decode(&bytes).unwrap_or_else(|| {
                tracing::warn!("the file 'state' is damaged: checksums of all objects are computed anew");
                Record { intent: u64::MAX, boot: boot.map(|b| !b), ..Record::default() }
            }),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Record::default(),
            Err(e) => return Err(e),
        };
        let record = old.next(boot, now_ns());
        file.write_all_at(&record.encode(), 0)?;
        syncs::data(&file)?;
        Ok(Self { file, record: RankedMutex::new(LockRank::Leaf, record), durable: AtomicU64::new(0) })
    }

    /// The number of this opening of the store.
    pub(super) fn epoch(&self) -> u64 {
        self.record.lock().epoch
    }

    /// Makes it durable that the object is going to change. Costs a disk write the first time for its group.
    pub(super) fn announce(&self, fid: Fid) -> io::Result<()> {
        let group = group(fid);
        if self.durable.load(Ordering::Acquire) & group != 0 {
            return Ok(());
        }
        let mut record = self.record.lock();
        if record.intent & group == 0 {
            let next = Record { intent: record.intent | group, ..*record };
            self.file.write_all_at(&next.encode(), 0)?;
            syncs::data(&self.file)?;
            *record = next;
        }
        record.fresh |= group;
        self.durable.store(record.fresh, Ordering::Release);
        Ok(())
    }

    /// Whether the checksums of an object that were last known to be right in `epoch` may not fit its data.
    pub(super) fn suspects(&self, fid: Fid, epoch: u64) -> bool {
        let record = self.record.lock();
        record.suspect & group(fid) != 0 && epoch < record.suspect_epoch
    }

    /// From here on, changes are announced anew. To be followed by the end of all changes that are under way, by
    /// writing everything to disk, and by [`Intent::finish_settling`].
    pub(super) fn begin_settling(&self) {
        let mut record = self.record.lock();
        record.fresh = 0;
        self.durable.store(0, Ordering::Release);
    }

    /// Forgets what was announced before [`Intent::begin_settling`], and what was suspect: the caller has opened, and
    /// thereby recovered, all objects that were.
    pub(super) fn finish_settling(&self) -> io::Result<()> {
        let mut record = self.record.lock();
        record.intent = record.fresh;
        record.suspect = 0;
        self.file.write_all_at(&record.encode(), 0)?;
        syncs::data(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reopen(file: &File, boot: u8) -> Intent {
        Intent::open_under(file.try_clone().unwrap(), [boot; 16]).unwrap()
    }

    #[test]
    fn only_another_boot_makes_suspect_and_only_what_was_announced() {
        let file = tempfile::tempfile().unwrap();
        let fids: Vec<Fid> = (0..100).map(|i| Fid::new(1, i)).collect();
        let first = reopen(&file, 1);
        first.announce(fids[0]).unwrap();
        let second = reopen(&file, 1);
        assert!(!second.suspects(fids[0], first.epoch()), "same boot: the page cache has survived");
        let third = reopen(&file, 2);
        assert!(third.suspects(fids[0], second.epoch()));
        assert!(!third.suspects(fids[0], third.epoch()), "checked since");
        let other = fids.iter().find(|f| group(**f) != group(fids[0])).unwrap();
        assert!(!third.suspects(*other, 0), "never announced");
        assert!(reopen(&file, 2).suspects(fids[0], second.epoch()), "until it is checked");
    }

    #[test]
    fn settled_stores_have_nothing_suspect_and_damaged_records_everything() {
        let file = tempfile::tempfile().unwrap();
        let fid = Fid::new(3, 4);
        let first = reopen(&file, 1);
        first.announce(fid).unwrap();
        first.begin_settling();
        first.finish_settling().unwrap();
        assert!(!reopen(&file, 2).suspects(fid, 0));
        let last = reopen(&file, 2).epoch();
        file.write_all_at(&[0xff], 9).unwrap();
        assert!(reopen(&file, 2).suspects(fid, last));
    }

    #[test]
    fn what_is_announced_while_settling_stays() {
        let file = tempfile::tempfile().unwrap();
        let fid = Fid::new(3, 4);
        let first = reopen(&file, 1);
        first.announce(fid).unwrap();
        first.begin_settling();
        first.announce(fid).unwrap();
        first.finish_settling().unwrap();
        assert!(reopen(&file, 2).suspects(fid, first.epoch()));
    }
}
