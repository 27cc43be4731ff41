//! A store in a folder: made where there is none yet, opened where there is one, refused where parts of one are missing.
//!
//! The header is the last thing that is made. With it, everything else has to be there; without it, there may be what an
//! interrupted creation leaves, but nothing that anybody has stored.

use super::header::{HEADER_FILE, StoreHeader};
use super::lock::{LOCK, StoreLock};
use super::parts::{PARTS_FILE, Parts};
use super::settings::service;
use super::{Store, check_targets, root};
use crate::config::Config;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::units::TargetIndex;
use clio_core::{Errno, Error, Result};
use clio_namespace::Namespace;
use clio_targets::{DirOptions, DirTarget};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TARGET: &str = "target-";
const NAMES: &str = "namespace";

impl Store {
    /// The store in the folder `path`; made there if there is none, with `targets` targets or one.
    pub(super) fn in_folder(path: &Path, targets: Option<u16>, config: &Config) -> Result<Store> {
        match fs::metadata(path) {
            Ok(meta) if !meta.is_dir() => {
                let why = "this is a file, and a store is a folder; give the path of a folder, or of none yet";
                return Err(Error::new(Errno::ENOTDIR, "open", why));
            }
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::from_io("open", e)),
            _ => {}
        }
        let mut header = StoreHeader::read(path)?;
        if header.is_none() {
            let fresh = check_is_fresh(path);
            // Another process may be making the store: then there is a header before there is an object.
            header = StoreHeader::read(path)?;
            if header.is_none() {
                fresh?;
            }
            fs::create_dir_all(path).map_err(|e| Error::from_io("open", e))?;
        }
        let lock = StoreLock::take(path)?;
        // Or it made it before we had the lock.
        if header.is_none() {
            header = StoreHeader::read(path)?;
        }
        if let (Some(h), Some(n)) = (&header, targets) {
            check_targets(h.targets, n)?;
        }
        let count = header.as_ref().map_or(targets.unwrap_or(1), |h| h.targets);
        check_count(path, count)?;
        let mut parts = header.as_ref().map_or_else(|| Parts::unknown(path), |_| Parts::read(path));
        let dirs = open_targets(path, count, header.is_none(), &parts, config)?;
        let namespace = open_names(&path.join(NAMES), header.is_none())?;
        parts.check_names(&namespace)?;
        if header.is_none() {
            namespace.sync()?;
            StoreHeader::new(count).write(path)?;
        }
        parts.targets_are(&dirs);
        let targets = dirs.iter().map(|d| d.clone() as _).collect();
        namespace.renew(clio_core::clock::now_ns());
        let mut store = Self::assemble(targets, dirs, namespace, Some(lock));
        if let Some(local) = &mut store.local {
            local.parts = Some(RankedMutex::new(LockRank::Leaf, parts));
        }
        Ok(store)
    }
}

fn open_targets(path: &Path, count: u16, create: bool, parts: &Parts, config: &Config) -> Result<Vec<Arc<DirTarget>>> {
    let disks: Vec<u64> = (0..count).map(|i| disk_of(&target_path(path, i))).collect();
    let open = |i: u16| {
        let disk = disks[usize::from(i)];
        let options = DirOptions {
            index: TargetIndex(i),
            sharers: disks.iter().filter(|d| **d == disk).count() as u64,
            create,
            service: service(config),
            ..DirOptions::default()
        };
        parts.check_age(i, &target_path(path, i))?;
        let target = DirTarget::open(target_path(path, i), &options)?;
        parts.check_target(i, target.store().uuid())?;
        Ok(Arc::new(target))
    };
    (0..count).map(open).collect()
}

fn open_names(path: &Path, create: bool) -> Result<Namespace> {
    if !create {
        return match path.try_exists().map_err(|e| Error::from_io("open", e))? {
            true => Namespace::open_existing(path),
            false => {
                let why = "the store's names are gone: its folder 'namespace' is missing; restore that from a copy";
                Err(Error::new(Errno::ENOENT, "open", why))
            }
        };
    }
    let names = Namespace::open(path, &root(), clio_core::clock::now_ns())?;
    if names.is_unused() { Ok(names) } else { Err(header_lost("its names")) }
}

/// The store's header is missing, and somebody has stored something: `what` is there.
fn header_lost(what: &str) -> Error {
    let why = format!(
        "the store has {what}, but its header '{HEADER_FILE}' is missing; restore that file from a copy, or from that of \
         any store with as many targets"
    );
    Error::new(Errno::EBADMSG, "open", why)
}

/// Target number `name` names, if it does.
fn target_number(name: &OsStr) -> Option<u16> {
    name.to_str()?.strip_prefix(TARGET)?.parse().ok()
}

/// Refuses a store that has folders of more targets than `count`.
fn check_count(path: &Path, count: u16) -> Result<()> {
    for entry in fs::read_dir(path).map_err(|e| Error::from_io("open", e))? {
        let name = entry.map_err(|e| Error::from_io("open", e))?.file_name();
        if target_number(&name).is_some_and(|n| n >= count) {
            let why = format!(
                "the store has {count} targets, but '{}' is there; if its making was interrupted, remove that folder; \
                 if not, '{HEADER_FILE}' is another store's: restore it from a copy",
                name.display()
            );
            return Err(Error::new(Errno::EBADMSG, "open", why));
        }
    }
    Ok(())
}

/// The file system that `path` is on, or will be.
fn disk_of(path: &Path) -> u64 {
    path.ancestors().find_map(|p| fs::metadata(p).ok()).map_or(0, |meta| meta.dev())
}

fn target_path(path: &Path, i: u16) -> PathBuf {
    path.join(format!("{TARGET}{i:04}"))
}

/// A folder without a header can become a store only if there is nothing in it but what an interrupted creation leaves.
fn check_is_fresh(path: &Path) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::from_io("open", e)),
    };
    for entry in entries {
        let entry = entry.map_err(|e| Error::from_io("open", e))?;
        let name = entry.file_name();
        if target_number(&name).is_some() {
            if has_objects(&entry.path())? {
                return Err(header_lost(&format!("objects in '{}'", name.display())));
            }
        } else if name != LOCK
            && name != NAMES
            && name != PARTS_FILE
            && !name.to_string_lossy().starts_with(HEADER_FILE)
        {
            let name = name.display();
            let why = format!("the folder is no Clio store and not empty ('{name}' is in it); name an empty one");
            return Err(Error::new(Errno::ENOTEMPTY, "open", why));
        }
    }
    Ok(())
}

/// Whether the target's folder `path` holds an object.
fn has_objects(path: &Path) -> Result<bool> {
    let list = |path: &Path| match fs::read_dir(path) {
        Ok(entries) => Ok(Some(entries)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Error::from_io("open", e).at(path.display().to_string())),
    };
    for folder in list(&path.join("objects"))?.into_iter().flatten() {
        let folder = folder.map_err(|e| Error::from_io("open", e))?;
        if list(&folder.path())?.is_some_and(|mut objects| objects.next().is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}
