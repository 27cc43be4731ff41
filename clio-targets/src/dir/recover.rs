//! Opening an object, and what a crash has left of it.
//!
//! A clean object is exactly as its header says; anything else is damage. A dirty one was being changed when the
//! process ended: its size is the file's, a truncate under way is finished, and the checksums of marked blocks are
//! computed from the data, whatever that is: it was never promised. A suspect one (`intent`) gets all its checksums
//! computed.

use super::format::SideHeader;
use super::intent::Intent;
use super::layout;
use super::object::{OpenObject, first_change};
use super::side::{SideFile, Sum};
use crate::sys;
use clio_core::attr::Attr;
use clio_core::units::{BLOCK_SIZE, Fid};
use clio_core::{Errno, Error, Result};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

fn read_write() -> OpenOptions {
    let mut o = OpenOptions::new();
    o.read(true).write(true);
    o
}

/// Opens an object that exists; `None` if there is none.
pub(super) fn open(root: &Path, fid: Fid, intent: &Intent) -> Result<Option<OpenObject>> {
    let fail = |e| Error::from_io("open", e).on(fid);
    let data = match read_write().open(layout::data(root, fid)) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return without_data(root, fid, intent).map(|()| None),
        Err(e) => return Err(fail(e)),
    };
    let side = match read_write().open(layout::side(root, fid)) {
        Ok(file) => SideFile::new(file),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let text = "the object's checksum file is missing; restore both from a copy";
            return Err(Error::new(Errno::EBADMSG, "open", text).on(fid));
        }
        Err(e) => return Err(fail(e)),
    };
    let len = data.metadata().map_err(fail)?.len();
    let header = SideHeader::decode(&side.read_header().map_err(fail)?);
    let header = match header {
        Ok(header) if header.fid == fid => header,
        Ok(header) => {
            let text = format!("the checksum file is that of object {}; restore both from a copy", header.fid);
            return Err(Error::new(Errno::EBADMSG, "open", text).on(fid));
        }
        // A header that never reached the disk: the object was made shortly before the machine went down.
        Err(_) if intent.suspects(fid, 0) => new_header(fid, 0, len),
        Err(e) => return Err(e.on(fid)),
    };
    let suspect = intent.suspects(fid, header.epoch);
    let mut object = OpenObject {
        fid,
        data: Arc::new(data),
        side,
        attr: header.attr,
        dirty: header.dirty,
        // Or not known to be.
        created: intent.is_announced(fid),
        epoch: intent.epoch(),
        changes: first_change(),
        unjudged: 0,
    };
    if header.dirty || suspect {
        intent.announce(fid).map_err(fail)?;
        recover(&mut object, len, header.cut, suspect)?;
    } else if len > header.attr.size {
        return Err(object.damaged("open", header.attr.size, "the file is longer than it should be"));
    }
    Ok(Some(object))
}

/// There is no data file. Nor is there an object, unless a checksum file says that there was one, whole: half of a new
/// one, or of one that is being removed, says nothing of the kind. If that is missing too, a trace tells whether there
/// was an object.
///
/// # Errors
/// `EBADMSG` if the data has been lost.
fn without_data(root: &Path, fid: Fid, intent: &Intent) -> Result<()> {
    let fail = |e| Error::from_io("open", e).on(fid);
    let file = match read_write().open(layout::side(root, fid)) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return without_both(root, fid, intent),
        Err(e) => return Err(fail(e)),
    };
    let bytes = SideFile::new(file).read_header().map_err(|e| Error::from_io("open", e).on(fid))?;
    match SideHeader::decode(&bytes) {
        Ok(h) if h.fid == fid && !h.dirty && h.attr.size > 0 && !intent.suspects(fid, h.epoch) => {
            let text = "the object's data file is missing; restore both from a copy";
            Err(Error::new(Errno::EBADMSG, "open", text).on(fid))
        }
        _ => Ok(()),
    }
}

/// Neither data nor checksums are there. If the object was made, both have been lost, unless the machine went down before
/// they reached the disk.
///
/// # Errors
/// `EBADMSG` if they have been lost.
fn without_both(root: &Path, fid: Fid, intent: &Intent) -> Result<()> {
    let fail = |e| Error::from_io("open", e).on(fid);
    let trace = layout::trace(root, fid);
    let file = match File::open(&trace) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(fail(e)),
    };
    let header = SideHeader::decode(&SideFile::new(file).read_header().map_err(fail)?);
    let epoch = header.map_or(0, |h| h.epoch);
    if intent.suspects(fid, epoch) {
        return std::fs::remove_file(&trace).map_err(fail);
    }
    let text = "the object's data and checksums are missing, though it was made; restore both from a copy";
    Err(Error::new(Errno::EBADMSG, "open", text).on(fid))
}

/// Leaves a trace of an object: a second name of its side file, in another folder.
fn leave_trace(root: &Path, fid: Fid) -> std::io::Result<()> {
    let (side, trace) = (layout::side(root, fid), layout::trace(root, fid));
    match std::fs::hard_link(&side, &trace) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(layout::trace_folder_of(root, fid))?;
            std::fs::hard_link(&side, &trace)
        }
        // Of an attempt that failed.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(&trace)?;
            std::fs::hard_link(&side, &trace)
        }
        // A file system without second names: there, the loss of a whole object can't be told.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS | libc::EMLINK)) => {
            Ok(())
        }
        linked => linked,
    }
}

/// Makes an object, which must not exist.
pub(super) fn create(root: &Path, fid: Fid, intent: &Intent) -> Result<OpenObject> {
    let fail = |e| Error::from_io("create", e).on(fid);
    intent.announce(fid).map_err(fail)?;
    // The side file comes first: without data it means nothing, and is overwritten by the next attempt.
    let side = read_write().create(true).truncate(true).open(layout::side(root, fid)).map_err(fail)?;
    let side = SideFile::new(side);
    let header = new_header(fid, intent.epoch(), 0);
    side.write_header(&header).map_err(fail)?;
    let data = read_write().create_new(true).open(layout::data(root, fid)).map_err(fail)?;
    leave_trace(root, fid).map_err(fail)?;
    Ok(OpenObject {
        fid,
        data: Arc::new(data),
        side,
        attr: header.attr,
        dirty: true,
        created: true,
        epoch: header.epoch,
        changes: first_change(),
        unjudged: 0,
    })
}

fn new_header(fid: Fid, epoch: u64, size: u64) -> SideHeader {
    SideHeader { fid, dirty: true, cut: None, attr: Attr { size, kms: size, ..Attr::default() }, epoch }
}

fn recover(object: &mut OpenObject, len: u64, cut: Option<u64>, suspect: bool) -> Result<()> {
    let fid = object.fid;
    let fail = |e| Error::from_io("open after a crash", e).on(fid);
    let mut len = len;
    if let Some(size) = cut {
        if len > size {
            object.data.set_len(size).map_err(fail)?;
            len = size;
        }
        object.side.cut(size.div_ceil(BLOCK_SIZE)).map_err(fail)?;
    }
    object.attr.size = len;
    object.attr.mtime = object.attr.mtime.max(modified(&object.data).map_err(fail)?);
    object.side.find_marks().map_err(fail)?;
    let pages = object.side.pages_on_disk(0, u64::MAX).map_err(fail)?;
    let end = len.div_ceil(BLOCK_SIZE);
    for page in pages {
        let entries = object.side.entries(page).map_err(fail)?;
        let lost = entries.iter().find(|e| e.block >= end && e.sum != Sum::HOLE && !e.marked && !suspect);
        if let Some(entry) = lost {
            return Err(object.damaged("open", entry.block * BLOCK_SIZE, "the file has been cut short"));
        }
        let unsure = |e: &&super::side::Entry| e.marked || (suspect && e.sum != Sum::HOLE);
        let blocks: Vec<u64> = entries.iter().filter(unsure).map(|e| e.block).collect();
        object.unjudged += blocks.len() as u64;
        object.take_as_is(&blocks).map_err(fail)?;
    }
    if suspect {
        take_unknown(object, end).map_err(fail)?;
    }
    object.dirty = true;
    object.write_header()
}

/// Computes checksums for data that has none: those of a suspect object may not have reached the disk.
fn take_unknown(object: &mut OpenObject, end: u64) -> std::io::Result<()> {
    let mut at = 0;
    while at < end * BLOCK_SIZE {
        let data = match sys::seek(object.data.as_fd(), at, false) {
            Ok(data) => data / BLOCK_SIZE,
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Ok(()),
            Err(e) => return Err(e),
        };
        let hole = sys::seek(object.data.as_fd(), data * BLOCK_SIZE, true)?.div_ceil(BLOCK_SIZE).min(end);
        // In portions, since a file can be large.
        let stop = hole.min(data + 256).max(data + 1);
        let without = |block: &u64| object.side.sum(*block).map(|sum| sum == Sum::HOLE);
        let mut blocks = Vec::new();
        for block in data..stop {
            if without(&block)? {
                blocks.push(block);
            }
        }
        object.unjudged += blocks.len() as u64;
        object.take_as_is(&blocks)?;
        at = stop * BLOCK_SIZE;
    }
    Ok(())
}

/// When the file system saw the last change, in nanoseconds since 1970.
fn modified(file: &File) -> std::io::Result<u64> {
    let meta = file.metadata()?;
    let ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
    Ok(u64::try_from(ns).unwrap_or(0))
}

#[cfg(test)]
#[path = "recover_tests.rs"]
mod tests;
