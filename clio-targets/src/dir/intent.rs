//! What may have been lost when the machine, not only the process, went down.
//!
//! The page cache outlives a process, so after a kill the marks of `side` are exact. After a crash of the machine the
//! disk may have data without the mark that was written before it. So, before an object is changed, a bit for its group
//! (one of 64) is made durable in the file `state`. If the store is opened under another boot of the machine, the
//! objects of these groups are suspect: their checksums are computed anew at first use instead of being judged.
//!
//! A bit is taken back once all that was changed in its group is on disk: the changed objects are known one by one, and
//! [`Intent::made_durable`] takes them off. [`Intent::settle`] takes back the bits that nothing stands for any more,
//! [`Intent::finish_flush`] those of all that was changed before everything was written to disk.

use super::state::{Record, SIZE};
use crate::syncs;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::units::Fid;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Changed objects that are known by name; of more, only the groups are known.
const KNOWN: usize = 65_536;

/// The open file `state`.
#[derive(Debug)]
pub(super) struct Intent {
    file: File,
    state: RankedMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// As on disk.
    record: Record,
    changed: Changed,
    /// What was changed before the flush that is under way, or that failed last. In the beginning, what earlier sessions
    /// have left.
    before: Changed,
}

/// Objects that were changed and may not be on disk.
#[derive(Debug, Default)]
struct Changed {
    fids: HashSet<Fid>,
    /// Groups in which there may be others.
    groups: u64,
}

impl Changed {
    fn add(&mut self, fid: Fid) {
        if self.groups & group(fid) != 0 {
            return;
        }
        if self.fids.len() >= KNOWN {
            self.groups |= group(fid);
            return;
        }
        self.fids.insert(fid);
    }

    fn append(&mut self, other: Changed) {
        self.groups |= other.groups;
        other.fids.into_iter().for_each(|fid| self.add(fid));
    }

    fn all_groups(&self) -> u64 {
        self.fids.iter().fold(self.groups, |groups, fid| groups | group(*fid))
    }
}

/// One of 64 groups of objects.
pub(super) fn group(fid: Fid) -> u64 {
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
        let old = load(&file)?.map_or_else(Record::default, |bytes| {
            Record::decode(&bytes).unwrap_or_else(|| {
                tracing::warn!("the file 'state' is damaged: checksums of all objects are computed anew");
                Record { intent: u64::MAX, boot: boot.map(|b| !b), ..Record::default() }
            })
        });
        let record = old.next(boot, now_ns());
        let before = Changed { groups: record.intent, ..Changed::default() };
        let state = State { record, before, ..State::default() };
        store(&file, &record)?;
        Ok(Self { file, state: RankedMutex::new(LockRank::Leaf, state) })
    }

    /// The number of the last opening of the store whose file `state` this is; `None` if that can't be told.
    pub(super) fn last_epoch(file: &File) -> Option<u64> {
        Record::decode(&load(file).ok()??).map(|record| record.epoch)
    }

    /// The number of this opening of the store.
    pub(super) fn epoch(&self) -> u64 {
        self.state.lock().record.epoch
    }

    /// Makes it durable that the object is going to change. To be called before each change, with the object's lock held;
    /// costs a disk write the first time for its group.
    pub(super) fn announce(&self, fid: Fid) -> io::Result<()> {
        let mut state = self.state.lock();
        let group = group(fid);
        if state.record.intent & group == 0 {
            let next = Record { intent: state.record.intent | group, ..state.record };
            store(&self.file, &next)?;
            state.record = next;
        }
        state.changed.add(fid);
        Ok(())
    }

    /// Whether something in the object's group may not be on disk.
    pub(super) fn is_announced(&self, fid: Fid) -> bool {
        self.state.lock().record.intent & group(fid) != 0
    }

    /// All that was ever changed of the object is on disk, and nobody is changing it.
    pub(super) fn made_durable(&self, fid: Fid) {
        let mut state = self.state.lock();
        state.changed.fids.remove(&fid);
        state.before.fids.remove(&fid);
    }

    /// Whether the checksums of an object that were last known to be right in `epoch` may not fit its data.
    pub(super) fn suspects(&self, fid: Fid, epoch: u64) -> bool {
        let record = self.state.lock().record;
        record.suspect & group(fid) != 0 && epoch < record.suspect_epoch
    }

    /// Whether there are objects that [`Intent::suspects`].
    pub(super) fn has_suspects(&self) -> bool {
        self.state.lock().record.suspect != 0
    }

    /// The changed objects that may not be on disk; `None` if they are not all known, or more than `limit`.
    pub(super) fn changed(&self, limit: usize) -> Option<Vec<Fid>> {
        let state = self.state.lock();
        let (a, b) = (&state.changed, &state.before);
        let all_known = a.groups | b.groups == 0 && a.fids.len() + b.fids.len() <= limit;
        all_known.then(|| a.fids.union(&b.fids).copied().collect())
    }

    /// Takes back what was announced for objects that are all on disk now.
    pub(super) fn settle(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let intent = state.changed.all_groups() | state.before.all_groups();
        if intent == state.record.intent {
            return Ok(());
        }
        let next = Record { intent, ..state.record };
        store(&self.file, &next)?;
        state.record = next;
        Ok(())
    }

    /// To be followed by the end of all changes that are under way, by writing everything to disk, and by
    /// [`Intent::finish_flush`]; one flush at a time.
    pub(super) fn begin_flush(&self) {
        let mut state = self.state.lock();
        let changed = std::mem::take(&mut state.changed);
        state.before.append(changed);
    }

    /// Takes back what was announced before [`Intent::begin_flush`]. Nothing is suspect any more: the caller has opened,
    /// and thereby recovered, all objects that were.
    pub(super) fn finish_flush(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let next = Record { intent: state.changed.all_groups(), suspect: 0, ..state.record };
        store(&self.file, &next)?;
        state.record = next;
        state.before = Changed::default();
        Ok(())
    }
}

/// The content of the file; `None` if it ends early, as a new one does.
fn load(file: &File) -> io::Result<Option<[u8; SIZE]>> {
    let mut bytes = [0; SIZE];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

fn store(file: &File, record: &Record) -> io::Result<()> {
    file.write_all_at(&record.encode(), 0)?;
    syncs::data(file)
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
        first.begin_flush();
        first.finish_flush().unwrap();
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
        first.begin_flush();
        first.announce(fid).unwrap();
        first.finish_flush().unwrap();
        assert!(reopen(&file, 2).suspects(fid, first.epoch()));
    }

    #[test]
    fn what_is_on_disk_is_taken_back() {
        let file = tempfile::tempfile().unwrap();
        let fids: Vec<Fid> = (0..100).map(|i| Fid::new(1, i)).collect();
        let first = reopen(&file, 1);
        first.announce(fids[0]).unwrap();
        let other = *fids.iter().find(|f| group(**f) != group(fids[0])).unwrap();
        first.announce(other).unwrap();
        first.made_durable(fids[0]);
        first.settle().unwrap();
        let second = reopen(&file, 2);
        assert!(!second.suspects(fids[0], 0) && second.suspects(other, 0));
        // What an earlier session has left is not this one's to take back.
        let file = tempfile::tempfile().unwrap();
        reopen(&file, 1).announce(fids[0]).unwrap();
        let second = reopen(&file, 1);
        second.announce(fids[0]).unwrap();
        second.made_durable(fids[0]);
        second.settle().unwrap();
        assert!(second.changed(9).is_none() && second.is_announced(fids[0]));
        assert!(reopen(&file, 2).suspects(fids[0], 0));
    }

    #[test]
    fn a_flush_that_fails_takes_nothing_back() {
        let file = tempfile::tempfile().unwrap();
        let fid = Fid::new(3, 4);
        let first = reopen(&file, 1);
        first.announce(fid).unwrap();
        first.begin_flush();
        first.settle().unwrap();
        assert_eq!(first.changed(9), Some(vec![fid]));
        assert!(reopen(&file, 2).suspects(fid, 0));
    }

    #[test]
    fn of_too_many_objects_the_groups_are_known() {
        let mut changed = Changed::default();
        (0..KNOWN as u32 + 1).for_each(|i| changed.add(Fid::new(1, i)));
        assert_eq!((changed.fids.len(), changed.groups.count_ones()), (KNOWN, 1));
        assert_eq!(changed.all_groups(), u64::MAX);
    }
}
