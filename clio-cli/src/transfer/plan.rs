//! What a transfer is going to do.

use super::place::{Info, Kind, Place};
use crate::app::Failures;
use crate::paths::wants_folder;
use crate::report::Stop;
use clio::{Errno, Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// One file of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    pub(super) info: Info,
}

/// What a transfer is going to do.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Folders, each after the one that it is in.
    pub(super) dirs: Vec<Item>,
    pub(super) files: Vec<Item>,
    pub(super) links: Vec<Item>,
    /// Bytes of all files.
    pub(super) bytes: u64,
    /// Where files and links go.
    taken: HashSet<PathBuf>,
}

impl Plan {
    /// Adds `from`, which is to become `to`; a folder with all that is below it, if `recursive`. A symbolic link is
    /// followed here, and kept as a link below. What can't be taken is reported and left out.
    pub(crate) fn add(&mut self, place: &dyn Place, from: &Path, to: &Path, recursive: bool, failures: &Failures) {
        let mut todo = vec![(from.to_path_buf(), to.to_path_buf())];
        let mut top = true;
        while let Some((from, to)) = todo.pop() {
            let below = place.info(&from, top).and_then(|info| self.take(place, &from, &to, info, recursive));
            top = false;
            match below {
                Ok(names) => todo.extend(names.into_iter().rev().map(|n| (from.join(&n), to.join(&n)))),
                Err(e) => failures.add(&from, &e),
            }
        }
    }

    /// Adds one file; returns the names in it, if it is a folder.
    fn take(
        &mut self,
        place: &dyn Place,
        from: &Path,
        to: &Path,
        info: Info,
        recursive: bool,
    ) -> Result<Vec<std::ffi::OsString>> {
        let refuse = |errno, why: &'static str| Err(Error::new(errno, "copy", why));
        let item = Item { from: from.to_path_buf(), to: to.to_path_buf(), info };
        match info.kind {
            Kind::Dir if !recursive => {
                refuse(Errno::EISDIR, "it is a folder; give -r to take it with all that is in it")
            }
            Kind::Dir => {
                let names = place.list(from)?;
                self.dirs.push(item);
                Ok(names)
            }
            Kind::File | Kind::Symlink if !self.taken.insert(item.to.clone()) => {
                refuse(Errno::EEXIST, "an earlier source goes to the same place; copy it to another one")
            }
            Kind::File => {
                self.bytes += info.size;
                self.files.push(item);
                Ok(Vec::new())
            }
            Kind::Symlink => {
                self.links.push(item);
                Ok(Vec::new())
            }
            Kind::Special => refuse(Errno::EINVAL, "it is a device, socket or pipe; to store what comes out, use '-'"),
        }
    }
}

/// Where each source goes: into `dest` if that is a folder, else there is one source only and it becomes `dest`.
///
/// # Errors
/// `ENOTDIR` if several sources, or a file and a path with a slash at its end, need a folder that isn't there.
pub(crate) fn destinations(
    place: &dyn Place,
    sources: &[PathBuf],
    dest: &Path,
) -> Result<Vec<(PathBuf, PathBuf)>, Stop> {
    let is_dir = place.info(dest, true).is_ok_and(|i| i.kind == Kind::Dir);
    if !is_dir && sources.len() > 1 {
        let why = "several sources need a folder, and this is none; make it first";
        return Err(Stop::on(dest, Error::new(Errno::ENOTDIR, "copy", why)));
    }
    let into = |from: &PathBuf| match from.file_name() {
        Some(name) if is_dir => (from.clone(), dest.join(name)),
        // Of '/', '.' and '..' the contents are taken.
        _ => (from.clone(), dest.to_path_buf()),
    };
    Ok(sources.iter().map(into).collect())
}

/// That a file's destination doesn't end in a slash.
pub(super) fn check_name(to: &Path) -> Result<()> {
    match wants_folder(to) {
        true => {
            Err(Error::new(Errno::ENOENT, "copy", "there is no such folder; make it first, or leave the slash out"))
        }
        false => Ok(()),
    }
}
