//! Records in a fjall database: one database, one keyspace for each [`Space`].

use super::{Batch, Kv, Space, Value, View, Visit};
use clio_core::{Errno, Error, Result};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use std::fmt;
use std::fs::{File, TryLockError};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Memory for cached blocks of tables, in bytes.
const CACHE_BYTES: u64 = 64 << 20;
/// Changes held in memory for each keyspace before they become a table, in bytes.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// Journals kept, in bytes: bounds the work of opening a store after a crash.
const JOURNAL_BYTES: u64 = 128 << 20;
/// Threads that turn memtables into tables and merge tables.
const WORKERS: usize = 2;

/// File names of fjall's that tell its folders from others.
const MARKER: &str = "version";
const LOCK: &str = "lock";
const FIRST_JOURNAL: &str = "0.jnl";
const JOURNAL_EXTENSION: &str = "jnl";
/// Folders of fjall's own records, `0`, and of the key spaces in the order that they were made in.
const PARTS: &str = "keyspaces";
/// Tells what belongs to a part: without it, there is none.
const PART_MARKER: &str = "current";

/// What to do when the database is damaged.
const RESTORE: &str = "restore the folder from a copy";

/// See the module.
pub(crate) struct DiskKv {
    db: Database,
    spaces: [Keyspace; Space::ALL.len()],
}

impl fmt::Debug for DiskKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskKv").finish_non_exhaustive()
    }
}

impl DiskKv {
    /// Opens the database in folder `path`, or makes one where the folder is empty or missing.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        prepare_folder(path).map_err(|e| e.at(path.to_string_lossy()))?;
        Self::in_folder(path)
    }

    /// Opens the database in folder `path`, which was made before.
    pub(crate) fn open_existing(path: &Path) -> Result<Self> {
        check_complete(path).map_err(|e| e.at(path.to_string_lossy()))?;
        Self::in_folder(path)
    }

    fn in_folder(path: &Path) -> Result<Self> {
        let open = || -> fjall::Result<Self> {
            let db = Database::builder(path)
                .cache_size(CACHE_BYTES)
                .max_journaling_size(JOURNAL_BYTES)
                .worker_threads(WORKERS)
                .open()?;
            let space =
                |s: Space| db.keyspace(s.name(), || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES));
            let spaces = [
                space(Space::Meta)?,
                space(Space::Inodes)?,
                space(Space::Entries)?,
                space(Space::Unlinked)?,
                space(Space::Replies)?,
            ];
            Ok(Self { db, spaces })
        };
        // fjall asserts that a journal says what it can say, which is not so of a damaged one.
        let opened = catch_unwind(AssertUnwindSafe(open)).map_err(|panic| {
            let said = panic.downcast_ref::<String>().map_or("it is not what it should be", String::as_str);
            let said = said.replace('\n', " ");
            Error::new(Errno::EBADMSG, "open", format!("the database of names is damaged: {said}; {RESTORE}"))
        });
        opened.and_then(|opened| opened.map_err(|e| error("open", e))).map_err(|e| e.at(path.to_string_lossy()))
    }
}

/// Refuses a folder that lacks a part of the database. fjall makes a new part in place of one that is missing, since a
/// process may have been killed while it made the database; of one that was finished, that would lose what it held.
fn check_complete(path: &Path) -> Result<()> {
    let io = |e| Error::from_io("open", e);
    let lost = |what: String| {
        let why = format!("the database of names is damaged: {what}; {RESTORE}");
        Err(Error::new(Errno::EBADMSG, "open", why))
    };
    match std::fs::metadata(path.join(MARKER)) {
        Ok(meta) if meta.len() > 0 => {}
        Ok(_) => return lost(format!("the file '{MARKER}' is empty")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return lost(format!("the file '{MARKER}' is missing")),
        Err(e) => return Err(io(e)),
    }
    for part in 0..=Space::ALL.len() {
        let current = format!("{PARTS}/{part}/{PART_MARKER}");
        if !path.join(&current).try_exists().map_err(io)? {
            return lost(format!("the file '{current}' is missing"));
        }
    }
    for entry in std::fs::read_dir(path).map_err(io)? {
        if entry.map_err(io)?.path().extension().is_some_and(|e| e == JOURNAL_EXTENSION) {
            return Ok(());
        }
    }
    lost("its journal is missing".into())
}

/// Refuses a folder that holds something else, and clears what a process killed while making the database left:
/// fjall takes a folder for a database only once its marker is written, and would fail on the journal before it.
fn prepare_folder(path: &Path) -> Result<()> {
    let io = |e| Error::from_io("open", e);
    std::fs::create_dir_all(path).map_err(io)?;
    let unfinished = || std::fs::metadata(path.join(MARKER)).map_or(true, |m| m.len() == 0);
    if !unfinished() {
        return Ok(());
    }
    let lock = match File::options().read(true).write(true).open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return match std::fs::read_dir(path).map_err(io)?.next() {
                None => Ok(()),
                Some(_) => Err(Error::new(
                    Errno::EINVAL,
                    "open",
                    "the folder holds files that are not a Clio namespace; name an empty folder, or the right one",
                )),
            };
        }
        Err(e) => return Err(io(e)),
    };
    match lock.try_lock() {
        Ok(()) if unfinished() => {
            for left_over in [FIRST_JOURNAL, MARKER] {
                match std::fs::remove_file(path.join(left_over)) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(e)),
                    _ => {}
                }
            }
            Ok(())
        }
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(locked()),
        Err(TryLockError::Error(e)) => Err(io(e)),
    }
}

fn locked() -> Error {
    Error::new(
        Errno::EBUSY,
        "open",
        "another process has this store open; close it there, or let `cliod` serve the store to both",
    )
}

/// Every fjall error as ours, with a sentence that says what to do.
fn error(op: &'static str, e: fjall::Error) -> Error {
    use fjall::Error as E;
    use fjall::LsmError as L;
    match e {
        E::Locked => locked(),
        E::Io(ref io) | E::Storage(L::Io(ref io)) if tells_damage(io) => damaged(op, e),
        E::Storage(
            L::Decompress(_)
            | L::InvalidVersion(_)
            | L::Unrecoverable
            | L::ChecksumMismatch { .. }
            | L::InvalidTag(_)
            | L::InvalidTrailer
            | L::InvalidHeader(_)
            | L::Utf8(_),
        )
        | E::JournalRecovery(_)
        | E::Decompress(_)
        | E::InvalidTrailer
        | E::InvalidTag(_)
        | E::Unrecoverable => damaged(op, e),
        E::Io(e) | E::Storage(L::Io(e)) => Error::from_io(op, e),
        E::InvalidVersion(Some(_)) => Error::new(
            Errno::EOPNOTSUPP,
            op,
            "the namespace's database has another format version; open it with the Clio release that wrote it",
        ),
        E::InvalidVersion(None) => Error::new(
            Errno::EINVAL,
            op,
            "the namespace's database is not one that this release knows: foreign, damaged, or made by a newer one",
        ),
        E::Poisoned => Error::new(
            Errno::EIO,
            op,
            "an earlier write to the namespace's journal failed; check the disk, then reopen the store",
        ),
        e => Error::new(Errno::EIO, op, format!("the namespace's database failed: {e}; check the disk")).with_cause(e),
    }
}

/// Whether an I/O error is one of content, not of the disk: something is missing, or can't be decoded.
fn tells_damage(e: &std::io::Error) -> bool {
    use std::io::ErrorKind as K;
    e.kind() == K::NotFound
        || (e.raw_os_error().is_none() && matches!(e.kind(), K::InvalidData | K::UnexpectedEof | K::Other))
}

fn damaged(op: &'static str, e: fjall::Error) -> Error {
    let why = format!("the database of names is damaged: {e}; {RESTORE}");
    Error::new(Errno::EBADMSG, op, why).with_cause(e)
}

struct DiskView<'a> {
    snapshot: Snapshot,
    spaces: &'a [Keyspace; Space::ALL.len()],
}

impl View for DiskView<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>> {
        self.snapshot.get(&self.spaces[space as usize], key).map_err(|e| error("read", e))
    }

    fn scan(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        for record in self.snapshot.range::<&[u8], _>(&self.spaces[space as usize], (Bound::Included(from), to)) {
            let (key, value) = record.into_inner().map_err(|e| error("read", e))?;
            if visit(&key, &value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Kv for DiskKv {
    fn view(&self) -> Box<dyn View + '_> {
        Box::new(DiskView { snapshot: self.db.snapshot(), spaces: &self.spaces })
    }

    fn commit(&self, batch: Batch) -> Result<()> {
        let mut out = self.db.batch().durability(Some(PersistMode::Buffer));
        for change in batch.into_changes() {
            let space = &self.spaces[change.space as usize];
            match change.value {
                Some(value) => out.insert(space, change.key, value),
                None => out.remove(space, change.key),
            }
        }
        out.commit().map_err(|e| error("commit", e))
    }

    fn sync(&self) -> Result<()> {
        self.db.persist(PersistMode::SyncAll).map_err(|e| error("sync", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno(path: &Path) -> Errno {
        DiskKv::open(path).unwrap_err().errno()
    }

    #[test]
    fn foreign_folders_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        assert_eq!(errno(dir.path()), Errno::EINVAL);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(MARKER), "not fjall").unwrap();
        assert_eq!(errno(dir.path()), Errno::EINVAL);
        std::fs::write(dir.path().join(MARKER), b"FJL\x02").unwrap();
        assert_eq!(errno(dir.path()), Errno::EOPNOTSUPP);
    }

    #[test]
    fn a_database_that_lacks_a_part_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        drop(DiskKv::open(dir.path()).unwrap());
        let parts = (0..=Space::ALL.len()).map(|n| format!("{PARTS}/{n}/{PART_MARKER}"));
        for lost in parts.chain([MARKER.into(), FIRST_JOURNAL.into()]) {
            let aside = tempfile::tempdir().unwrap();
            std::fs::rename(dir.path().join(&lost), aside.path().join("part")).unwrap();
            let e = DiskKv::open_existing(dir.path()).unwrap_err();
            assert_eq!(e.errno(), Errno::EBADMSG, "{lost}");
            assert!(e.to_string().contains("restore the folder"), "{e}");
            assert!(!dir.path().join(&lost).exists(), "{lost} is not made anew");
            std::fs::rename(aside.path().join("part"), dir.path().join(&lost)).unwrap();
            drop(DiskKv::open_existing(dir.path()).unwrap());
        }
    }

    fn files(path: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path, found) } else { found.push(path) }
        }
    }

    /// Opens the database, and counts its records.
    fn count(path: &Path) -> Result<usize> {
        let kv = DiskKv::open_existing(path)?;
        let mut n = 0;
        for space in Space::ALL {
            kv.view().scan(space, &[], None, &mut |_, _| {
                n += 1;
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
        }
        Ok(n)
    }

    #[test]
    fn damage_anywhere_is_told_as_such() {
        let dir = tempfile::tempdir().unwrap();
        {
            let kv = DiskKv::open(dir.path()).unwrap();
            for i in 0..2000u32 {
                let mut batch = Batch::default();
                batch.put(Space::Inodes, i.to_be_bytes(), vec![i as u8; 100]);
                kv.commit(batch).unwrap();
                if i == 1500 {
                    kv.spaces[Space::Inodes as usize].rotate_memtable_and_wait().unwrap();
                }
            }
            kv.sync().unwrap();
        }
        assert_eq!(count(dir.path()).unwrap(), 2000);
        let mut all = Vec::new();
        files(dir.path(), &mut all);
        let mut told = 0;
        for path in all.iter().filter(|p| p.file_name().is_none_or(|n| n != LOCK)) {
            let good = std::fs::read(path).unwrap();
            for at in (0..8).map(|n| good.len() * n / 8).filter(|at| *at < good.len()) {
                let mut bad = good.clone();
                bad[at] ^= 0x55;
                std::fs::write(path, &bad).unwrap();
                let copy = tempfile::tempdir().unwrap();
                let to = copy.path().join("db");
                assert!(std::process::Command::new("cp").arg("-a").args([dir.path(), &to]).status().unwrap().success());
                let marker = path.file_name().is_some_and(|n| n == MARKER);
                match count(&to) {
                    // fjall takes damage in a journal for the end of what was written; who opens the store sees by the
                    // epoch that something is missing.
                    Ok(n) => {
                        assert!(n == 2000 || path.extension().is_some_and(|e| e == JOURNAL_EXTENSION), "{path:?} {at}")
                    }
                    Err(e) if marker => assert!(matches!(e.errno(), Errno::EINVAL | Errno::EOPNOTSUPP), "{e}"),
                    Err(e) => {
                        told += 1;
                        assert_eq!(e.errno(), Errno::EBADMSG, "{path:?} {at}: {e}");
                        assert!(e.to_string().contains("restore the folder from a copy"), "{e}");
                    }
                }
            }
            std::fs::write(path, &good).unwrap();
        }
        assert!(told > 30, "{told}");
    }

    #[test]
    fn second_opener_is_told_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = DiskKv::open(dir.path()).unwrap();
        let e = DiskKv::open(dir.path()).unwrap_err();
        assert_eq!(e.errno(), Errno::EBUSY);
        assert!(e.to_string().contains("cliod"), "{e}");
        drop(first);
        DiskKv::open(dir.path()).unwrap();
    }

    #[test]
    fn a_database_half_made_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        drop(DiskKv::open(dir.path()).unwrap());
        for marker in [None, Some("")] {
            std::fs::remove_dir_all(dir.path()).unwrap();
            std::fs::create_dir_all(dir.path().join("keyspaces")).unwrap();
            std::fs::write(dir.path().join(LOCK), "").unwrap();
            std::fs::write(dir.path().join(FIRST_JOURNAL), "").unwrap();
            if let Some(text) = marker {
                std::fs::write(dir.path().join(MARKER), text).unwrap();
            }
            drop(DiskKv::open(dir.path()).unwrap());
        }
    }
}
