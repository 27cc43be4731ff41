//! What is made durable, when, and in which order: an operation that says so has had the disk say so.

use super::format::SideHeader;
use super::{DirOptions, DirStore, SYNCED_ONE_BY_ONE, intent, layout};
use crate::conformance::{Buffer, pattern};
use crate::store::ObjectStore;
use crate::syncs::watch;
use clio_core::units::{BLOCK_SIZE, Extent, Fid};
use clio_core::{Errno, Result};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const FID: Fid = Fid { seq: 9, oid: 8, ver: 7 };

fn open(root: &Path) -> DirStore {
    DirStore::open(root, &DirOptions { create: true, ..DirOptions::default() }).unwrap()
}

fn write(store: &DirStore, fid: Fid, offset: u64, len: usize, sync: bool) -> Result<()> {
    let buffer = Buffer::new(&pattern(offset, len));
    store.write(fid, &[buffer.segment(0, len, offset)], None, 1, sync).map(drop)
}

/// The syncs from here on, by the last part of their paths: an object's as `data` and `sums`.
fn log(root: &Path) -> Rc<RefCell<Vec<String>>> {
    let (log, root) = (Rc::new(RefCell::new(Vec::new())), root.to_owned());
    let seen = log.clone();
    watch(move |path| {
        let name = if path == root {
            "root".into()
        } else if path == layout::data(&root, FID) {
            "data".into()
        } else if path == layout::side(&root, FID) {
            "sums".into()
        } else if path == layout::folder_of(&root, FID) {
            "folder".into()
        } else {
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        seen.borrow_mut().push(name);
        Ok(())
    });
    log
}

fn header(root: &Path) -> SideHeader {
    SideHeader::decode(&fs::read(layout::side(root, FID)).unwrap()).unwrap()
}

#[test]
fn a_new_target_is_there_before_its_header_says_so() {
    let tmp = tempfile::tempdir().unwrap();
    let log = log(tmp.path());
    open(tmp.path());
    assert_eq!(log.take(), ["objects", "target.new", "root", "state"]);
    open(tmp.path());
    assert_eq!(log.take(), ["state"]);
}

#[test]
fn an_object_is_announced_before_it_is_made_and_synced_with_its_name() {
    let tmp = tempfile::tempdir().unwrap();
    let store = open(tmp.path());
    let log = log(tmp.path());
    write(&store, FID, 0, 10_000, false).unwrap();
    assert_eq!(log.take(), ["state"], "a write makes nothing else durable");
    write(&store, FID, 0, 10_000, false).unwrap();
    assert_eq!(log.take(), [""; 0]);
    store.sync(FID).unwrap();
    assert_eq!(log.take(), ["data", "sums", "folder"]);
    write(&store, FID, 5000, 10, true).unwrap();
    assert_eq!(log.take(), ["data", "sums"], "its name is durable");
    for extent in [Extent::new(0, 4096), Extent::new(100, Extent::EOF)] {
        store.punch(FID, extent, 1).unwrap();
        store.sync(FID).unwrap();
        assert_eq!(log.take(), ["data", "sums"]);
    }
}

#[test]
fn nothing_is_on_disk_before_it_is_announced() {
    let tmp = tempfile::tempdir().unwrap();
    let store = open(tmp.path());
    let root = tmp.path().to_owned();
    watch(move |path| {
        assert!(path.ends_with("state") && !layout::data(&root, FID).exists() && !layout::side(&root, FID).exists());
        Err(io::Error::from_raw_os_error(libc::EIO))
    });
    assert_eq!(write(&store, FID, 0, 10, false).unwrap_err().errno(), Errno::EIO);
    assert!(!layout::data(tmp.path(), FID).exists(), "what can't be announced isn't done");
}

/// Only once the data is durable may the checksum file say that the object is in order.
#[test]
fn data_comes_before_the_word_that_it_is_there() {
    let tmp = tempfile::tempdir().unwrap();
    let store = open(tmp.path());
    write(&store, FID, 0, 10_000, false).unwrap();
    let (root, seen) = (tmp.path().to_owned(), Rc::new(RefCell::new(Vec::new())));
    let log = seen.clone();
    watch(move |path| {
        log.borrow_mut().push((path == layout::data(&root, FID), header(&root).dirty));
        Ok(())
    });
    store.sync(FID).unwrap();
    assert_eq!(*seen.borrow(), [(true, true), (false, false), (false, false)]);
}

/// A sync that fails at any step is an error, and the next one does that step again.
#[test]
fn a_sync_that_fails_is_told_and_done_again() {
    for failing in ["data", "sums", "folder"] {
        let tmp = tempfile::tempdir().unwrap();
        let store = open(tmp.path());
        write(&store, FID, 0, 10_000, false).unwrap();
        let path: PathBuf = match failing {
            "data" => layout::data(tmp.path(), FID),
            "sums" => layout::side(tmp.path(), FID),
            _ => layout::folder_of(tmp.path(), FID),
        };
        watch(move |at| if at == path { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) });
        assert_eq!(store.sync(FID).unwrap_err().errno(), Errno::EIO, "{failing}");
        assert_eq!(write(&store, FID, 0, 10, true).unwrap_err().errno(), Errno::EIO, "{failing}");
        if failing == "data" {
            assert!(header(tmp.path()).dirty);
        }
        let log = log(tmp.path());
        store.sync(FID).unwrap();
        assert_eq!(log.take(), ["data", "sums", "folder"], "after {failing}");
    }
}

#[test]
fn a_flush_writes_all_before_it_takes_the_announcements_back() {
    let tmp = tempfile::tempdir().unwrap();
    let store = open(tmp.path());
    write(&store, FID, 0, 3 * BLOCK_SIZE as usize, false).unwrap();
    let log = log(tmp.path());
    store.flush().unwrap();
    assert_eq!(log.take(), ["data", "sums", "folder", "state"], "one object by itself, then the announcements");
    store.flush().unwrap();
    assert_eq!(log.take(), [""; 0]);
    write(&store, FID, 0, 10, false).unwrap();
    assert_eq!(log.take(), ["state"], "announced anew");
    for oid in 0..=SYNCED_ONE_BY_ONE as u32 {
        write(&store, Fid { oid, ..FID }, 0, 10, false).unwrap();
    }
    log.take();
    store.flush().unwrap();
    assert_eq!(log.take(), ["lock", "state"], "of many, the whole file system that the lock file is on");
}

#[test]
fn a_flush_makes_the_end_of_an_object_durable() {
    let tmp = tempfile::tempdir().unwrap();
    let store = open(tmp.path());
    write(&store, FID, 0, 10, false).unwrap();
    store.destroy(FID).unwrap();
    let log = log(tmp.path());
    store.flush().unwrap();
    assert_eq!(log.take(), ["folder", "state"]);
}

/// It is announced with the object's lock held, so there has to be an object.
#[test]
fn a_hole_in_nothing_is_not_announced() {
    let tmp = tempfile::tempdir().unwrap();
    let store = open(tmp.path());
    let log = log(tmp.path());
    store.punch(FID, Extent::new(0, 4096), 1).unwrap();
    assert_eq!(log.take(), [""; 0]);
}

/// What a boot of the machine would cast doubt on.
fn announced(root: &Path) -> u64 {
    u64::from_le_bytes(fs::read(root.join("state")).unwrap()[8..16].try_into().unwrap())
}

#[test]
fn a_close_takes_the_announcements_of_what_is_durable_back() {
    let tmp = tempfile::tempdir().unwrap();
    let other = (0..).map(|oid| Fid { oid, ..FID }).find(|f| intent::group(*f) != intent::group(FID)).unwrap();
    {
        let store = open(tmp.path());
        write(&store, FID, 0, 10, false).unwrap();
        write(&store, other, 0, 10, true).unwrap();
    }
    assert_eq!(announced(tmp.path()), intent::group(FID));
    {
        let store = open(tmp.path());
        store.sync(FID).unwrap();
        write(&store, other, 0, 10, false).unwrap();
        store.sync(other).unwrap();
        store.write(other, &[Buffer::new(b"x").segment(0, 1, 9)], None, 1, false).unwrap();
    }
    let both = intent::group(FID) | intent::group(other);
    assert_eq!(announced(tmp.path()), both, "other objects of its group may not be durable");
    open(tmp.path()).flush().unwrap();
    assert_eq!(announced(tmp.path()), 0);
}

/// An object that was closed and opened again before it was made durable has a name that may not be.
#[test]
fn the_name_of_an_object_is_made_durable_though_it_was_closed() {
    let tmp = tempfile::tempdir().unwrap();
    write(&open(tmp.path()), FID, 0, 10, false).unwrap();
    let store = open(tmp.path());
    let log = log(tmp.path());
    store.sync(FID).unwrap();
    assert_eq!(log.take(), ["data", "sums", "folder"]);
}
