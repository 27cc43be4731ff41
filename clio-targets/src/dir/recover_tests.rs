//! States that a kill can leave between two system calls, made by hand.

use super::super::format::SideHeader;
use super::super::intent::Intent;
use super::super::object::OpenObject;
use super::super::side::Sum;
use super::super::{layout, verify};
use crate::conformance::{Buffer, pattern};
use clio_core::Errno;
use clio_core::units::{BLOCK_SIZE, Extent, Fid};
use std::os::unix::fs::FileExt;

const FID: Fid = Fid { seq: 9, oid: 8, ver: 7 };
const SIZE: u64 = 5 * BLOCK_SIZE;

struct Rig {
    root: tempfile::TempDir,
    intent: Intent,
}

impl Rig {
    /// A store with one object of five blocks, in order and closed.
    fn new() -> (Self, OpenObject) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(layout::folder_of(root.path(), FID)).unwrap();
        let intent = Intent::open(tempfile::tempfile().unwrap()).unwrap();
        let mut object = super::create(root.path(), FID, &intent).unwrap();
        let buffer = Buffer::new(&pattern(1, SIZE as usize));
        object.write(&[buffer.segment(0, SIZE as usize, 0)], None, 1).unwrap();
        object.set_clean().unwrap();
        (Self { root, intent }, object)
    }

    fn open(&self) -> clio_core::Result<OpenObject> {
        super::open(self.root.path(), FID, &self.intent).map(Option::unwrap)
    }

    fn header_on_disk(&self) -> SideHeader {
        SideHeader::decode(&std::fs::read(layout::side(self.root.path(), FID)).unwrap()).unwrap()
    }
}

fn set_dirty(object: &mut OpenObject) {
    object.dirty = true;
    object.write_header().unwrap();
}

#[test]
fn changes_are_marked_until_they_are_clean() {
    let (rig, mut object) = Rig::new();
    assert!(!rig.header_on_disk().dirty);
    let buffer = Buffer::new(b"new");
    object.write(&[buffer.segment(0, 3, BLOCK_SIZE)], None, 1).unwrap();
    object.punch(Extent::new(3 * BLOCK_SIZE, 4 * BLOCK_SIZE), 1).unwrap();
    assert!(rig.header_on_disk().dirty);
    assert_eq!(object.side.marked_blocks(0, 100).unwrap(), [1, 3]);
    object.set_clean().unwrap();
    assert_eq!(object.side.marked_blocks(0, 100).unwrap(), []);
    let header = rig.header_on_disk();
    assert_eq!((header.dirty, header.attr.size), (false, SIZE));
}

#[test]
fn killed_between_checksum_and_data() {
    let (rig, mut object) = Rig::new();
    set_dirty(&mut object);
    object.side.update(&[(1, Sum::of(b"never written"))]).unwrap();
    drop(object);
    let object = rig.open().unwrap();
    let report = verify::object(&object).unwrap();
    assert!(report.is_clean() && report.unjudged == 1, "{report:?}");
}

#[test]
fn killed_in_the_middle_of_the_data() {
    let (rig, mut object) = Rig::new();
    set_dirty(&mut object);
    object.side.update(&[(4, Sum::of(&[7; 4096])), (5, Sum::of(&[7; 4096]))]).unwrap();
    object.data.write_all_at(&[7; 100], 4 * BLOCK_SIZE).unwrap();
    drop(object);
    let object = rig.open().unwrap();
    assert_eq!(object.attr.size, SIZE);
    assert!(verify::object(&object).unwrap().is_clean());
}

#[test]
fn damage_outside_of_what_was_being_written_is_found_after_a_kill_too() {
    let (rig, mut object) = Rig::new();
    set_dirty(&mut object);
    object.side.update(&[(1, Sum::of(b"never written"))]).unwrap();
    object.data.write_all_at(b"?", 2 * BLOCK_SIZE + 5).unwrap();
    drop(object);
    let report = verify::object(&rig.open().unwrap()).unwrap();
    assert_eq!(report.damage.iter().map(|d| d.offset).collect::<Vec<_>>(), [2 * BLOCK_SIZE]);
}

/// A truncate to 5000 bytes, killed before and after the data was cut.
#[test]
fn killed_in_a_truncate() {
    for cut_data in [false, true] {
        let (rig, mut object) = Rig::new();
        set_dirty(&mut object);
        object.side.write_header(&SideHeader { cut: Some(5000), ..object.header() }).unwrap();
        let mut rest = pattern(1, 5000).split_off(4096);
        rest.resize(4096, 0);
        object.side.update(&[(1, Sum::of(&rest))]).unwrap();
        if cut_data {
            object.data.set_len(5000).unwrap();
        }
        drop(object);
        let object = rig.open().unwrap();
        assert_eq!(object.attr.size, 5000);
        assert!(verify::object(&object).unwrap().is_clean());
        assert_eq!(rig.header_on_disk().cut, None);
    }
}

#[test]
fn a_file_cut_by_somebody_else_is_found_after_a_kill_too() {
    let (rig, mut object) = Rig::new();
    set_dirty(&mut object);
    object.data.set_len(5000).unwrap();
    drop(object);
    assert_eq!(rig.open().unwrap_err().errno(), Errno::EBADMSG);
}

#[test]
fn no_data_changes_before_the_side_file_says_so() {
    let (rig, mut object) = Rig::new();
    // The side file can't be changed any more: the truncate has to fail before it has touched the data.
    let read_only = std::fs::File::open(layout::side(rig.root.path(), FID)).unwrap();
    object.side = super::SideFile::new(read_only);
    object.dirty = true;
    assert!(object.punch(Extent::new(5000, Extent::EOF), 1).is_err());
    let buffer = Buffer::new(b"new");
    assert!(object.write(&[buffer.segment(0, 3, 0)], None, 1).is_err());
    assert_eq!(object.data.metadata().unwrap().len(), SIZE);
    let mut start = [0; 3];
    object.data.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(start, pattern(1, 3)[..], "no data before its checksum");
}
