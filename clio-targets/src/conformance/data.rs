//! Objects and their bytes.

use super::client::fails;
use super::{Buffer, Fixture, pattern};
use clio_core::Errno;
use clio_core::attr::{Attr, AttrMask};
use clio_core::target::{Bulk, BulkSegment, Op, Reply};
use clio_core::units::{Extent, Fid, MAX_FILE_SIZE};
use std::sync::Arc;

const FID: Fid = Fid { seq: 0x200, oid: 7, ver: 1 };
const K: u64 = 1024;

/// An object is made once, and gone once.
pub fn create_and_destroy(f: &Fixture) {
    let c = f.client();
    c.create(FID).unwrap();
    fails(c.create(FID), Errno::EEXIST);
    c.write(FID, 0, b"x").unwrap();
    assert_eq!(c.call(Op::Destroy(FID)).unwrap(), Reply::Done);
    fails(c.call(Op::Destroy(FID)), Errno::ENOENT);
    assert_eq!(c.read(FID, 0, 2).unwrap(), (vec![0, 0], 0), "nothing of a destroyed object comes back");
    c.create(FID).unwrap();
    assert_eq!(c.getattr(FID).unwrap().size, 0);
}

/// What was never made reads as empty, and only destroy and seek mind.
pub fn missing_objects_read_as_empty(f: &Fixture) {
    let c = f.client();
    assert_eq!(c.read(FID, 5, 3).unwrap(), (vec![0; 3], 0));
    assert_eq!(c.getattr(FID).unwrap(), Attr::default());
    assert_eq!(c.call(Op::Sync(FID)).unwrap(), Reply::Done);
    c.punch(FID, Extent::new(0, 4096), 1).unwrap();
    fails(c.call(Op::Destroy(FID)), Errno::ENOENT);
    fails(c.seek(FID, 0, false), Errno::ENXIO);
    c.truncate(FID, 10).unwrap();
    assert_eq!(c.getattr(FID).unwrap().size, 10);
}

/// Holes read as zeros, and so does what is beyond the end.
pub fn sparse_objects_read_as_zeros(f: &Fixture) {
    let c = f.client();
    let data = pattern(1, 100);
    c.write(FID, 10_000_000, &data).unwrap();
    let (got, size) = c.read(FID, 9_999_990, 200).unwrap();
    assert_eq!(size, 10_000_100);
    assert_eq!(got[..10], [0; 10]);
    assert_eq!(got[10..110], data);
    assert_eq!(got[110..], [0; 90]);
    assert!(c.getattr(FID).unwrap().blocks < 1000, "a hole takes no space");
}

/// Many segments, with gaps and without, of any length.
pub fn vectored_round_trip(f: &Fixture) {
    let c = f.client();
    let lens = [1usize, 4096, 4095, 17, 8192, 70_000, 1, 4097];
    let gaps = [3u64, 0, 0, 4096, 1, 0, 100_000, 0];
    let all: usize = lens.iter().sum();
    let (source, target) = (Arc::new(Buffer::new(&pattern(2, all))), Arc::new(Buffer::new(&vec![0xee; all])));
    let place = |buffer: &Buffer| {
        let (mut at, mut offset) = (0, 0);
        let segments = lens.iter().zip(gaps).map(|(len, gap)| {
            offset += gap;
            let segment = buffer.segment(at, at + len, offset);
            at += len;
            offset += *len as u64;
            segment
        });
        segments.collect::<Bulk>()
    };
    let op = Op::Write { fid: FID, bulk: place(&source), checksum: None, lock: None, grant: 0, mtime: 9, sync: false };
    let Reply::Written { lvb, .. } = c.start(op, vec![source.clone()]).wait().unwrap() else { panic!() };
    assert_eq!(lvb.size, all as u64 + gaps.iter().sum::<u64>());
    let op = Op::Read { fid: FID, bulk: place(&target), checksum: false };
    c.start(op, vec![target.clone()]).wait().unwrap();
    assert!(source.content() == target.content());
    // More segments than one system call takes.
    let many: Bulk = (0..3000).map(|i| source.segment(i, i + 1, 1_000_000 + 2 * i as u64)).collect();
    let op = Op::Write { fid: FID, bulk: many, checksum: None, lock: None, grant: 0, mtime: 9, sync: false };
    c.start(op, vec![source.clone()]).wait().unwrap();
    let next_to_each_other: Bulk = (0..3000).map(|i| target.segment(i, i + 1, 1_000_000 + i as u64)).collect();
    c.start(Op::Read { fid: FID, bulk: next_to_each_other, checksum: false }, vec![target.clone()]).wait().unwrap();
    let (source, target) = (source.content(), target.content());
    assert!((0..1500).all(|i| target[2 * i] == source[i] && target[2 * i + 1] == 0));
}

/// Writes within a block leave the rest of it alone, at the end of the object too.
pub fn partial_blocks_keep_their_neighbours(f: &Fixture) {
    let c = f.client();
    let mut model = pattern(3, 9000);
    c.write(FID, 0, &model).unwrap();
    for (at, len) in [(1usize, 1usize), (4000, 200), (8990, 10), (4096, 4096), (8191, 2), (100, 5000)] {
        let data = pattern(at as u64, len);
        model[at..at + len].copy_from_slice(&data);
        c.write(FID, at as u64, &data).unwrap();
    }
    assert!(c.read(FID, 0, 9000).unwrap().0 == model);
    assert_eq!(c.read(FID, 4097, 10).unwrap().0, model[4097..4107]);
    c.write(FID, 12_000, b"end").unwrap();
    let (got, _) = c.read(FID, 8999, 3004).unwrap();
    assert_eq!(got[0], model[8999]);
    assert!(got[1..3001].iter().all(|b| *b == 0) && got[3001..] == *b"end");
}

/// A hole in the middle, aligned and not.
pub fn punch_frees_the_middle(f: &Fixture) {
    let c = f.client();
    let mut model = pattern(4, 300_000);
    c.write(FID, 0, &model).unwrap();
    let before = c.getattr(FID).unwrap();
    for (start, end) in [(65_536usize, 200_000usize), (1, 2), (4095, 4097), (8192, 12_288), (250_000, 250_001)] {
        model[start..end].fill(0);
        c.punch(FID, Extent::new(start as u64, end as u64), 1).unwrap();
    }
    assert!(c.read(FID, 0, 300_000).unwrap().0 == model);
    let after = c.getattr(FID).unwrap();
    assert_eq!(after.size, before.size, "a hole changes no size");
    assert!(after.blocks < before.blocks, "a hole frees space: {} of {}", after.blocks, before.blocks);
    c.punch(FID, Extent::new(299_000, 400_000), 1).unwrap();
    assert_eq!(c.getattr(FID).unwrap().size, before.size);
    c.punch(FID, Extent::new(400_000, 500_000), 1).unwrap();
    assert_eq!(c.getattr(FID).unwrap().size, before.size);
}

/// What was cut off never comes back.
pub fn truncate_down_and_up(f: &Fixture) {
    let c = f.client();
    let data = pattern(5, 20_000);
    for size in [10_000u64, 4096, 4095, 1, 0] {
        c.write(FID, 0, &data).unwrap();
        c.truncate(FID, size).unwrap();
        assert_eq!(c.getattr(FID).unwrap().size, size);
        c.truncate(FID, 20_000).unwrap();
        let (got, found) = c.read(FID, 0, 20_000).unwrap();
        assert_eq!(found, 20_000);
        assert!(got[..size as usize] == data[..size as usize]);
        assert!(got[size as usize..].iter().all(|b| *b == 0), "old data after a cut to {size}");
    }
}

/// Only what the mask names is set.
pub fn attributes_by_mask(f: &Fixture) {
    let c = f.client();
    c.write(FID, 0, b"abc").unwrap();
    let set = |attr, mask| c.call(Op::SetAttr { fid: FID, attr, mask });
    let attr = Attr { size: 99, atime: 5, mtime: 6, ctime: 7, uid: 8, gid: 9, ..Attr::default() };
    set(attr, AttrMask::TIMES | AttrMask::UID | AttrMask::GID).unwrap();
    let got = c.getattr(FID).unwrap();
    assert_eq!((got.size, got.kms, got.atime, got.mtime, got.ctime), (3, 3, 5, 6, 7));
    assert_eq!((got.uid, got.gid), (8, 9));
    set(Attr { atime: 50, mtime: 2, uid: 80, gid: 90, ..Attr::default() }, AttrMask::ATIME | AttrMask::GID).unwrap();
    let got = c.getattr(FID).unwrap();
    assert_eq!((got.atime, got.mtime, got.uid, got.gid), (50, 6, 8, 90));
    set(Attr { mtime: 2, ..Attr::default() }, AttrMask::MTIME).unwrap();
    assert_eq!(c.getattr(FID).unwrap().mtime, 2, "utimes may go back");
    fails(set(attr, AttrMask::SIZE), Errno::EINVAL);
}

/// Late writes and punches don't turn the clock back.
pub fn mtime_is_never_lowered(f: &Fixture) {
    let c = f.client();
    let write = |mtime| {
        let buffer = Arc::new(Buffer::new(b"x"));
        let bulk = Bulk::from_elem(buffer.segment(0, 1, 0), 1);
        let op = Op::Write { fid: FID, bulk, checksum: None, lock: None, grant: 0, mtime, sync: false };
        match c.start(op, vec![buffer]).wait().unwrap() {
            Reply::Written { lvb, .. } => lvb.mtime,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(write(100), 100);
    assert_eq!(write(50), 100);
    c.punch(FID, Extent::new(0, 1), 70).unwrap();
    assert_eq!(c.getattr(FID).unwrap().mtime, 100);
    c.truncate(FID, 0).unwrap();
    assert_eq!(c.getattr(FID).unwrap().mtime, 100);
    assert_eq!(write(200), 200);
}

/// Data and holes are found; the end counts as a hole.
pub fn seek_finds_data_and_holes(f: &Fixture) {
    let c = f.client();
    let block = pattern(6, 64 * K as usize);
    c.write(FID, 128 * K, &block).unwrap();
    c.write(FID, 512 * K, &block).unwrap();
    c.truncate(FID, 1024 * K).unwrap();
    assert_eq!(c.seek(FID, 0, false).unwrap(), 128 * K);
    assert_eq!(c.seek(FID, 0, true).unwrap(), 0);
    assert_eq!(c.seek(FID, 130 * K, false).unwrap(), 130 * K);
    assert_eq!(c.seek(FID, 130 * K, true).unwrap(), 192 * K);
    assert_eq!(c.seek(FID, 200 * K, false).unwrap(), 512 * K);
    fails(c.seek(FID, 600 * K, false), Errno::ENXIO);
    assert_eq!(c.seek(FID, 600 * K, true).unwrap(), 600 * K);
    fails(c.seek(FID, 1024 * K, true), Errno::ENXIO);
    fails(c.seek(FID, 1024 * K, false), Errno::ENXIO);
    c.truncate(FID, 530 * K).unwrap();
    assert_eq!(c.seek(FID, 520 * K, true).unwrap(), 530 * K);
}

/// Space and objects.
pub fn statfs_counts(f: &Fixture) {
    let c = f.client();
    let statfs = || match c.call(Op::StatFs).unwrap() {
        Reply::StatFs { total, free, objects } => (total, free, objects),
        other => panic!("{other:?}"),
    };
    let (total, free, before) = statfs();
    assert!(free <= total && total > 0);
    c.create(FID).unwrap();
    c.write(Fid::new(3, 3), 0, b"made by a write").unwrap();
    assert_eq!(statfs().2, before + 2);
    c.call(Op::Destroy(FID)).unwrap();
    assert_eq!(statfs().2, before + 1);
}

/// A request whose data was altered on the way is refused, and changes nothing.
pub fn checksum_of_a_request_is_checked(f: &Fixture) {
    let c = f.client();
    c.write(FID, 0, &[7; 5000]).unwrap();
    let data = pattern(8, 5000);
    let right = crc32c::crc32c(&data);
    let write = |checksum| {
        let buffer = Arc::new(Buffer::new(&data));
        let bulk: Bulk = [buffer.segment(0, 1000, 0), buffer.segment(1000, 5000, 2000)].into_iter().collect();
        let op = Op::Write { fid: FID, bulk, checksum, lock: None, grant: 0, mtime: 1, sync: false };
        c.start(op, vec![buffer]).wait()
    };
    fails(write(Some(right ^ 1)), Errno::EBADMSG);
    assert!(c.read(FID, 0, 5000).unwrap().0 == [7; 5000]);
    write(Some(right)).unwrap();
    assert!(c.read(FID, 2000, 4000).unwrap().0 == data[1000..]);
}

/// The reply's checksum is that of the data, zeros included.
pub fn checksum_of_a_reply_fits(f: &Fixture) {
    let c = f.client();
    c.write(FID, 100, &pattern(9, 10_000)).unwrap();
    let buffer = Arc::new(Buffer::new(&[0xee; 12_000]));
    let bulk: Bulk = [buffer.segment(0, 5000, 0), buffer.segment(5000, 12_000, 6000)].into_iter().collect();
    let op = Op::Read { fid: FID, bulk, checksum: true };
    let Reply::Read { checksum, size } = c.start(op, vec![buffer.clone()]).wait().unwrap() else { panic!() };
    assert_eq!(size, 10_100);
    assert_eq!(checksum, Some(crc32c::crc32c(&buffer.content())));
}

/// Up to 2^63 - 1 and no further.
pub fn largest_offsets(f: &Fixture) {
    let c = f.client();
    let last = MAX_FILE_SIZE - 3;
    match c.write(FID, last, b"end") {
        Ok(lvb) => {
            assert_eq!(lvb.size, MAX_FILE_SIZE);
            assert_eq!(c.read(FID, last - 1, 4).unwrap(), (b"\0end".to_vec(), MAX_FILE_SIZE));
            assert_eq!(c.seek(FID, 10, false).unwrap() / 65_536, last / 65_536);
        }
        // A file system may have a lower limit, but has to say so.
        Err(e) => assert_eq!(e.errno(), Errno::EFBIG, "{e}"),
    }
    fails(c.write(FID, last + 1, b"end"), Errno::EFBIG);
    fails(c.write(FID, u64::MAX - 1, b"end"), Errno::EFBIG);
    fails(c.truncate(FID, MAX_FILE_SIZE + 1), Errno::EFBIG);
    fails(c.punch(FID, Extent::new(5, MAX_FILE_SIZE + 2), 1), Errno::EFBIG);
    assert_eq!(c.write(Fid::new(1, 1), 0, b"ok").unwrap().size, 2, "the target still works");
}

/// Segments that overlap or go back.
pub fn bad_requests_are_refused(f: &Fixture) {
    let c = f.client();
    let buffer = Arc::new(Buffer::new(&[1; 100]));
    let write = |bulk: [BulkSegment; 2]| {
        let bulk = bulk.into_iter().collect();
        let op = Op::Write { fid: FID, bulk, checksum: None, lock: None, grant: 0, mtime: 1, sync: false };
        c.start(op, vec![buffer.clone()]).wait()
    };
    fails(write([buffer.segment(0, 50, 0), buffer.segment(50, 100, 49)]), Errno::EINVAL);
    fails(write([buffer.segment(0, 50, 100), buffer.segment(50, 100, 0)]), Errno::EINVAL);
    assert_eq!(c.getattr(FID).unwrap().size, 0);
    let nothing = [buffer.segment(0, 0, 5), buffer.segment(0, 0, 5)];
    write(nothing).unwrap();
    assert_eq!(c.getattr(FID).unwrap().size, 0, "a write of nothing moves no end");
    fails(c.create(FID), Errno::EEXIST);
}

/// Asked to be durable at once.
pub fn synchronous_writes(f: &Fixture) {
    let c = f.client();
    let buffer = Arc::new(Buffer::new(&pattern(10, 8192)));
    let bulk = Bulk::from_elem(buffer.segment(0, 8192, 1000), 1);
    let op = Op::Write { fid: FID, bulk, checksum: None, lock: None, grant: 0, mtime: 1, sync: true };
    c.start(op, vec![buffer.clone()]).wait().unwrap();
    assert_eq!(c.call(Op::Sync(FID)).unwrap(), Reply::Done);
    c.write(FID, 0, b"more").unwrap();
    assert_eq!(c.call(Op::Sync(FID)).unwrap(), Reply::Done);
    assert!(c.read(FID, 1000, 8192).unwrap().0 == buffer.content());
}
