//! Opening and making a target's folder: header, lock file, folders for objects.

use super::format::{HEADER_SIZE, StoreHeader, Uuid};
use super::{DirOptions, layout};
use crate::syncs;
use clio_core::{Errno, Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A folder that is open, and locked against other processes as long as `lock` is.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) header: StoreHeader,
    pub(super) lock: File,
    pub(super) state: File,
}

fn fail(path: &Path, e: std::io::Error) -> Error {
    let hint = match e.kind() {
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only; remount it, or give another path",
        ErrorKind::PermissionDenied => "no permission to write there; change the folder's mode or owner",
        ErrorKind::NotADirectory => "a part of the path is not a folder",
        ErrorKind::StorageFull => "the file system is full; free space, or give another path",
        _ => return Error::from_io("open target", e).at(path.display().to_string()),
    };
    let errno = e.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    Error::new(errno, "open target", hint).at(path.display().to_string()).with_cause(e)
}

fn refuse(path: &Path, errno: Errno, text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(errno, "open target", text).at(path.display().to_string())
}

/// Opens the folder, making it first if that is asked for and it holds no target yet.
pub(super) fn open(path: &Path, options: &DirOptions) -> Result<Opened> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_dir() => return Err(refuse(path, Errno::ENOTDIR, "a target is a folder, this is none")),
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {
            if !options.create {
                let text = "there is no such folder; check the path, or make a store there with `clio format`";
                return Err(refuse(path, Errno::ENOENT, text));
            }
            fs::create_dir_all(path).map_err(|e| fail(path, e))?;
        }
        Err(e) => return Err(fail(path, e)),
    }
    if !options.create && !path.join("target").try_exists().map_err(|e| fail(path, e))? {
        let text = "there is no Clio target in this folder; check the path, or make one with `clio format`";
        return Err(refuse(path, Errno::ENOENT, text));
    }
    let lock = lock(path)?;
    let header = match File::open(path.join("target")) {
        Ok(file) => read_header(path, file, options)?,
        Err(e) if e.kind() == ErrorKind::NotFound => make(path, options)?,
        Err(e) => return Err(fail(path, e)),
    };
    let state = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join("state"));
    Ok(Opened { header, lock, state: state.map_err(|e| fail(path, e))? })
}

fn lock(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join("lock"));
    let mut file = file.map_err(|e| fail(path, e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let known = file.read_to_string(&mut holder).is_ok() && holder.trim().parse::<u32>().is_ok();
            let who = if known { format!("process {}", holder.trim()) } else { "another process".into() };
            let text = format!("the store is in use by {who}; to share it between processes, serve it with `cliod`");
            return Err(refuse(path, Errno::EBUSY, text));
        }
        Err(TryLockError::Error(e)) => return Err(fail(path, e)),
    }
    // Only a help for people: the lock itself is what counts.
    let pid = format!("{}\n", std::process::id());
    file.set_len(0).and_then(|()| file.write_all_at(pid.as_bytes(), 0)).map_err(|e| fail(path, e))?;
    Ok(file)
}

fn read_header(path: &Path, file: File, options: &DirOptions) -> Result<StoreHeader> {
    let mut bytes = Vec::new();
    file.take(HEADER_SIZE as u64 + 1).read_to_end(&mut bytes).map_err(|e| fail(path, e))?;
    let header = StoreHeader::decode(&bytes).map_err(|e| e.at(path.display().to_string()))?;
    if header.index != options.index {
        let (found, wanted) = (header.index.0, options.index.0);
        let text = format!("this folder is target {found} of its store, not {wanted}; give the folders in their order");
        return Err(refuse(path, Errno::EINVAL, text));
    }
    if let Some(wanted) = options.uuid.filter(|u| *u != header.uuid) {
        let text = format!("this is target {}, but {wanted} is expected here: a folder of another store", header.uuid);
        return Err(refuse(path, Errno::EINVAL, text));
    }
    Ok(header)
}

/// Makes a target in a folder that holds nothing else. The header comes last: without it there is no target, and the
/// next attempt starts anew.
fn make(path: &Path, options: &DirOptions) -> Result<StoreHeader> {
    let fail = |e| fail(path, e);
    let ours = ["lock", "objects", "made", "aside", "target.new", "state"];
    for entry in fs::read_dir(path).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        if !ours.iter().any(|o| name == *o) {
            let text = "the folder holds other files and no Clio target; give an empty folder";
            return Err(refuse(path, Errno::ENOTEMPTY, text));
        }
    }
    for n in 0..layout::FOLDERS {
        let folder = layout::folder(path, n);
        fs::create_dir_all(&folder).map_err(fail)?;
        if fs::read_dir(&folder).map_err(fail)?.next().is_some() {
            let text = "the folder holds objects, but its header, the file 'target', is gone; restore that from a copy";
            return Err(refuse(path, Errno::EBADMSG, text));
        }
    }
    syncs::folder(&path.join("objects")).map_err(fail)?;
    let header = StoreHeader { uuid: options.uuid.map_or_else(new_uuid, Ok).map_err(fail)?, index: options.index };
    let mut file = File::create(path.join("target.new")).map_err(fail)?;
    file.write_all(&header.encode()).and_then(|()| syncs::all(&file)).map_err(fail)?;
    fs::rename(path.join("target.new"), path.join("target")).map_err(fail)?;
    syncs::folder(path).map_err(fail)?;
    Ok(header)
}

/// A random UUID (version 4).
fn new_uuid() -> std::io::Result<Uuid> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Uuid(bytes))
}
