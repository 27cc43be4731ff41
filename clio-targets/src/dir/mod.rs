//! Objects in a folder: one sparse file for each, with its checksums in a side file.

mod aside;
mod change;
mod format;
mod intent;
mod layout;
mod object;
mod open;
mod recover;
mod room;
mod seek;
mod side;
mod state;
mod store;
mod table;
mod verify;

pub use format::{SideHeader, StoreHeader, Uuid};
pub use verify::{Damage, DamageKind, Report};

use crate::service::{Service, ServiceConfig};
use crate::store::ObjectStore;
use crate::{syncs, sys};
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::sync::{Mutex, OnceLock};
use clio_core::units::{Fid, TargetIndex};
use clio_core::{Errno, Error, Result};
use intent::Intent;
use object::OpenObject;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::{Slot, Table};

/// A target in a folder. Requests run on two threads of its own, which start with the first request; small reads of
/// what the page cache holds run on the caller's.
pub type DirTarget = Service<DirStore>;

/// How a [`DirTarget`] is opened.
#[derive(Clone, Debug)]
pub struct DirOptions {
    /// Its index in the store; must be the one that it was made with.
    pub index: TargetIndex,
    /// Its UUID if the caller knows it; made up for a new one if not.
    pub uuid: Option<Uuid>,
    /// Make the target if the folder is missing or empty.
    pub create: bool,
    /// Objects kept open at most, with two descriptors each. All targets of a process together keep half of the
    /// descriptors that the process may have.
    pub open_objects: usize,
    /// Threads for requests.
    pub threads: usize,
    /// Requests that may wait for a thread; more are refused with `EAGAIN`.
    pub queue: usize,
    /// Bytes of the disk that data leaves free, so that names on the same disk can still be made and removed when it is
    /// full; `None`: a 32nd of the disk, 16 MiB at most.
    pub keep_free: Option<u64>,
    /// Targets of the store on this disk, this one among them: each has its part of the disk's space.
    pub sharers: u64,
    /// Locks and grants.
    pub service: ServiceConfig,
}

impl Default for DirOptions {
    fn default() -> Self {
        let (open_objects, threads, queue) = (96, 2, 4096);
        let service = ServiceConfig::default();
        let (uuid, create, keep_free) = (None, false, None);
        Self { index: TargetIndex(0), uuid, create, open_objects, threads, queue, keep_free, sharers: 1, service }
    }
}

impl DirTarget {
    /// Opens the target in the folder `path`.
    ///
    /// # Errors
    /// `ENOENT` if there is none and `create` is off, `ENOTEMPTY` if there is something else, `EBUSY` if another
    /// process (or this one) has it open, `EPROTO` if a newer Clio made it, `EBADMSG` if its header is damaged or
    /// foreign, `EINVAL` if it is another target than the one expected; `EROFS`, `EACCES` and others from the system.
    pub fn open(path: impl AsRef<Path>, options: &DirOptions) -> Result<Self> {
        let store = DirStore::open(path.as_ref(), options)?;
        Ok(Service::pooled(options.index, store, options.threads, options.queue, options.service))
    }
}

/// Up to so many objects, a flush makes each durable by itself.
const SYNCED_ONE_BY_ONE: usize = 128;

/// Objects in a folder. One process has it open at a time. Dropping it leaves all objects in order, but makes nothing
/// durable: see [`DirStore::flush`].
#[derive(Debug)]
pub struct DirStore {
    root: PathBuf,
    header: StoreHeader,
    table: Arc<Table>,
    intent: Intent,
    /// Objects at the time of the first count less those made before it, and objects made less those destroyed.
    base: OnceLock<u64>,
    made: AtomicU64,
    keep_free: Option<u64>,
    sharers: u64,
    /// The folder is in memory: no read waits for a disk.
    in_memory: bool,
    /// Held by a flush.
    flushing: Mutex<()>,
    /// Keeps other processes out. Last, so that the objects are closed before.
    lock: File,
}

impl DirStore {
    fn open(path: &Path, options: &DirOptions) -> Result<Self> {
        let open::Opened { header, lock, state } = open::open(path, options)?;
        let at = |e| Error::from_io("open target", e).at(path.display().to_string());
        Ok(Self {
            root: path.to_path_buf(),
            header,
            table: Table::new(options.open_objects),
            intent: Intent::open(state).map_err(at)?,
            base: OnceLock::new(),
            made: AtomicU64::new(0),
            keep_free: options.keep_free,
            sharers: options.sharers.max(1),
            in_memory: sys::is_memory(lock.as_fd()).map_err(at)?,
            flushing: Mutex::new(()),
            lock,
        })
    }

    /// The target's UUID.
    pub fn uuid(&self) -> Uuid {
        self.header.uuid
    }

    /// The number of the last opening of the target in the folder `path`; `None` if that can't be told.
    pub fn last_epoch(path: &Path) -> Option<u64> {
        Intent::last_epoch(&File::open(path.join("state")).ok()?)
    }

    /// The number of this opening, larger than that of any before.
    pub fn epoch(&self) -> u64 {
        self.intent.epoch()
    }

    /// All objects, in no order. What is made or destroyed meanwhile may or may not be among them. A file that is
    /// none of Clio's, or not where it should be, is an error `EBADMSG` with its path; the iteration can go on after it.
    pub fn objects(&self) -> impl Iterator<Item = Result<Fid>> + '_ {
        self.named_in(layout::folder).filter_map(|name| match name {
            Ok(layout::Name::Data(fid)) => Some(Ok(fid)),
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        })
    }

    /// The objects of which only what tells that they were there is left: that their data is gone is `EBADMSG` to whoever
    /// uses them. In no order, and some more than once.
    pub fn lost(&self) -> impl Iterator<Item = Fid> + '_ {
        let told = self.named_in(layout::folder).chain(self.named_in(layout::trace_folder)).filter_map(Result::ok);
        let fids = told.filter_map(|name| match name {
            layout::Name::Side(fid) | layout::Name::Data(fid) => Some(fid),
            layout::Name::Foreign => None,
        });
        let has_data = |fid: &Fid| layout::data(&self.root, *fid).try_exists().unwrap_or(true);
        fids.filter(move |fid| !has_data(fid)).filter(|fid| self.with_read(*fid, |_| ()).is_err_and(|e| is_damage(&e)))
    }

    /// What the files in the folders `folder` are.
    fn named_in(&self, folder: fn(&Path, u64) -> PathBuf) -> impl Iterator<Item = Result<layout::Name>> + '_ {
        (0..layout::FOLDERS).flat_map(move |n| {
            let folder = folder(&self.root, n);
            let fail = |folder: &Path, e| Error::from_io("list", e).at(folder.display().to_string());
            let (entries, error) = match fs::read_dir(&folder) {
                Ok(entries) => (Some(entries), None),
                Err(e) => (None, Some(Err(fail(&folder, e)))),
            };
            let refuse =
                |path: &Path, why: String| Err(Error::new(Errno::EBADMSG, "list", why).at(path.display().to_string()));
            let names = entries.into_iter().flatten().map(move |entry| {
                let entry = entry.map_err(|e| fail(&folder, e))?;
                match layout::parse(&entry.file_name()) {
                    layout::Name::Foreign => refuse(&entry.path(), "this file is none of Clio's; move it away".into()),
                    layout::Name::Data(fid) | layout::Name::Side(fid) if layout::number(fid) != n => {
                        let right = layout::number(fid);
                        refuse(
                            &entry.path(),
                            format!("this file of object {fid} belongs in the folder '{right:02x}'; move it there"),
                        )
                    }
                    name => Ok(name),
                }
            });
            names.chain(error)
        })
    }

    /// Compares all of an object with its checksums.
    ///
    /// # Errors
    /// `ENOENT` if there is no such object, errors of the disk. Damage is no error: the report tells it.
    pub fn verify(&self, fid: Fid) -> Result<Report> {
        match self.with_read(fid, verify::object) {
            Ok(Some(report)) => report,
            Ok(None) => Err(Error::new(Errno::ENOENT, "check", "no such object").on(fid)),
            Err(e) if is_damage(&e) => {
                let mut report = Report::new(fid);
                report.add(0, DamageKind::Object, e.detail().to_string());
                Ok(report)
            }
            Err(e) => Err(e),
        }
    }

    /// Makes all objects durable, and notes that a crash of the machine from here on can't have harmed them. Where many
    /// were changed, writes out the whole file system that the folder is on. After a crash of the machine, reads all
    /// objects that may have been harmed by it, so that from then on everything is judged again.
    ///
    /// # Errors
    /// Those of the disk. Damage is no error here: [`DirStore::verify`] tells it.
    pub fn flush(&self) -> Result<()> {
        let fail = |e| Error::from_io("flush", e).at(self.root.display().to_string());
        let _one_at_a_time = self.flushing.lock();
        if let Some(changed) = self.intent.changed(SYNCED_ONE_BY_ONE).filter(|_| !self.intent.has_suspects()) {
            for fid in changed {
                match self.with_read(fid, |_| ()) {
                    Ok(Some(())) => self.sync(fid)?,
                    // Destroyed since.
                    Ok(None) => {
                        self.sync_folder(fid, "flush")?;
                        self.intent.made_durable(fid);
                    }
                    Err(e) if is_damage(&e) => {}
                    Err(e) => return Err(e),
                }
            }
            return self.intent.settle().map_err(fail);
        }
        // Of those that a crash took whole, the traces go.
        let traces = self.named_in(layout::trace_folder).filter_map(|name| match name {
            Ok(layout::Name::Data(fid)) => Some(fid),
            _ => None,
        });
        let all = self.objects().filter_map(Result::ok).chain(traces).take_while(|_| self.intent.has_suspects());
        for fid in all.filter(|fid| self.intent.suspects(*fid, 0)) {
            match self.with_read(fid, |_| ()) {
                Err(e) if !is_damage(&e) => return Err(e),
                _ => {}
            }
        }
        self.intent.begin_flush();
        // What began before has to end before.
        for place in self.table.all() {
            drop(place.slot.write());
        }
        syncs::file_system(self.lock.as_fd()).map_err(fail)?;
        self.intent.finish_flush().map_err(fail)
    }

    /// Opens an object into its slot, if nothing is known of it yet.
    fn fill(&self, fid: Fid, slot: &mut Slot) -> Result<()> {
        if !matches!(slot, Slot::Unknown) {
            return Ok(());
        }
        let found = Self::retry_with_fewer_files(|| recover::open(&self.root, fid, &self.intent))?;
        *slot = found.map_or(Slot::Missing, |o| Slot::Open(Box::new(o)));
        Ok(())
    }

    /// Runs `f`, which opens files; once more if there are too many, with those closed that nobody uses.
    fn retry_with_fewer_files<R>(f: impl Fn() -> Result<R>) -> Result<R> {
        match f() {
            Err(e) if matches!(e.errno(), Errno::EMFILE | Errno::ENFILE) => {
                Table::shrink_all();
                f()
            }
            other => other,
        }
    }

    /// Makes the name of an object durable, or that it has none.
    fn sync_folder(&self, fid: Fid, op: &'static str) -> Result<()> {
        let folder = layout::folder_of(&self.root, fid);
        Self::retry_with_fewer_files(|| syncs::folder(&folder).map_err(|e| Error::from_io(op, e).on(fid)))
    }

    /// Runs `f` on an object, shared with others; `None` if there is none.
    fn with_read<R>(&self, fid: Fid, f: impl FnOnce(&OpenObject) -> R) -> Result<Option<R>> {
        let place = self.table.place(fid);
        loop {
            match &*place.slot.read() {
                Slot::Open(object) => return Ok(Some(f(object))),
                Slot::Missing => return Ok(None),
                Slot::Unknown => {}
            }
            self.fill(fid, &mut place.slot.write())?;
        }
    }

    /// Runs `f` on an object, alone; `None` if there is none.
    fn with_write<R>(&self, fid: Fid, f: impl FnOnce(&mut OpenObject) -> Result<R>) -> Result<Option<R>> {
        let place = self.table.place(fid);
        let mut slot = place.slot.write();
        self.fill(fid, &mut slot)?;
        match &mut *slot {
            Slot::Open(object) => f(object).map(Some),
            _ => Ok(None),
        }
    }

    /// Runs `f` on an object, alone; makes it if need be.
    fn with_made<R>(&self, fid: Fid, f: impl FnOnce(&mut OpenObject) -> Result<R>) -> Result<R> {
        let place = self.table.place(fid);
        let mut slot = place.slot.write();
        self.fill(fid, &mut slot)?;
        self.intent.announce(fid).map_err(|e| Error::from_io("write", e).on(fid))?;
        if let Slot::Open(object) = &mut *slot {
            return f(object);
        }
        let mut object = Box::new(self.make(fid)?);
        let result = f(&mut object);
        *slot = Slot::Open(object);
        result
    }

    fn make(&self, fid: Fid) -> Result<OpenObject> {
        let made = Self::retry_with_fewer_files(|| recover::create(&self.root, fid, &self.intent));
        match made {
            Ok(object) => {
                self.made.fetch_add(1, Ordering::Relaxed);
                Ok(object)
            }
            Err(e) => {
                // Of half an object, nothing stays; if it can't be removed, it is overwritten or reported later.
                for path in [layout::data, layout::side, layout::trace] {
                    let _ = fs::remove_file(path(&self.root, fid));
                }
                Err(e)
            }
        }
    }

    fn remove(&self, path: PathBuf, fid: Fid) -> Result<()> {
        match fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::from_io("destroy", e).on(fid)),
            _ => Ok(()),
        }
    }
}

/// Whether an object can't be opened because of what it holds.
fn is_damage(e: &Error) -> bool {
    matches!(e.errno(), Errno::EBADMSG | Errno::EPROTO)
}

impl Drop for DirStore {
    fn drop(&mut self) {
        self.table.close();
        if let Err(e) = self.intent.settle() {
            tracing::warn!(error = %e, "a crash of the machine will cast doubt on what is on disk by now");
        }
    }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod sync_tests;
