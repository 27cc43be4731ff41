//! Seeds that are stored or shared records.

use super::super::namespace_records::Tag;
use super::{Seed, composite, instantiated};
use clio_core::attr::Attr;
use clio_core::memory::staging::RECORD_WORDS;
use clio_core::units::{Extent, Fid, TargetIndex};
use clio_namespace::{Doomed, Entry, Inode, Kind, Removed, Reply, Unlinked};
use clio_targets::{SideHeader, StoreHeader, Uuid};

const FILE: Fid = Fid::new(0x200, 7);

fn inode(kind: Kind) -> Inode {
    let (file, dir) = (kind == Kind::File, kind == Kind::Dir);
    Inode {
        fid: FILE,
        kind,
        mode: 0o640,
        uid: 1000,
        gid: 100,
        nlink: 2,
        orphan: false,
        size_hint: file.then_some(12_345),
        atime: 1,
        mtime: 2,
        ctime: 3,
        parent: if dir { Fid::new(0x200, 1) } else { Fid::default() },
        entries: if dir { 5 } else { 0 },
        layout: if file { instantiated(&composite(), Extent::new(0, 1)).encode() } else { Vec::new() },
        default_layout: if dir { composite().encode() } else { Vec::new() },
        target: if kind == Kind::Symlink { b"../x".to_vec() } else { Vec::new() },
        xattrs: vec![(b"user.a".to_vec(), b"1".to_vec()), (b"user.b".to_vec(), Vec::new())],
    }
}

pub(super) fn namespace_records() -> Vec<Seed> {
    const TARGET: &str = "namespace_records";
    let seed = |name, tag: Tag, record: Vec<u8>| Seed::accepted(TARGET, name, [&[tag as u8], &record[..]].concat());
    let layout = inode(Kind::File).layout;
    let doomed = Doomed { fid: FILE, layout: layout.clone() };
    let removed = Removed { fid: FILE, kind: Kind::File, nlink: 0, destroy: Some(doomed) };
    let created = Reply::Node { inode: inode(Kind::File), created: true };
    let header = clio_namespace::StoreHeader { format: clio_namespace::FORMAT_VERSION };
    vec![
        seed("inode-file", Tag::Inode, inode(Kind::File).encode()),
        seed("inode-dir", Tag::Inode, inode(Kind::Dir).encode()),
        seed("inode-symlink", Tag::Inode, inode(Kind::Symlink).encode()),
        seed("entry", Tag::Entry, Entry { fid: FILE, kind: Kind::Dir }.encode()),
        seed("reply-done", Tag::Reply, Reply::Done.encode()),
        seed("reply-node", Tag::Reply, created.encode()),
        seed("reply-removed", Tag::Reply, Reply::Removed(Some(removed)).encode()),
        seed("header", Tag::Header, header.encode()),
        seed("unlinked-orphan", Tag::Unlinked, Unlinked::Orphan.encode()),
        seed("unlinked-doomed", Tag::Unlinked, Unlinked::Doomed { layout }.encode()),
        Seed::refused(TARGET, "newer", [Tag::Entry as u8, 2]),
        Seed::refused(TARGET, "empty", []),
    ]
}

pub(super) fn staging_records() -> Vec<Seed> {
    const TARGET: &str = "staging_records";
    let fid = FILE.sub_object(1, 2);
    // In use, of this object, at 3 MiB; sixteen blocks of memory from 1 MiB on.
    let head = [1, fid.seq, u64::from(fid.oid) << 32 | u64::from(fid.ver), 3 << 20];
    let piece = ((1 << 20) / 4096 + 1) << 8 | 2 << 4;
    let record = |dirty: u64, in_parts: u64, ranges: &[u64]| {
        let mut words = vec![0; RECORD_WORDS];
        words[..4].copy_from_slice(&head);
        (words[4], words[8], words[12]) = (dirty, in_parts, piece);
        words[28..28 + ranges.len()].copy_from_slice(ranges);
        words
    };
    let input = |memory: u64, record: Vec<u64>| -> Vec<u8> {
        std::iter::once(memory).chain(record).flat_map(u64::to_le_bytes).collect()
    };
    let parts = record(0b1011, 0b1000, &[3 << 32 | 100 << 16 | 200, 3 << 32 | 150 << 16 | 4096]);
    vec![
        Seed::accepted(TARGET, "blocks", input(8 << 20, record(0xff0f, 0, &[]))),
        Seed::accepted(TARGET, "parts", input(8 << 20, parts)),
        Seed::accepted(TARGET, "empty", []),
        Seed::refused(TARGET, "outside-the-arena", input(1 << 20, record(1, 0, &[]))),
        Seed::refused(TARGET, "block-without-memory", input(8 << 20, record(1 << 16, 0, &[]))),
    ]
}

pub(super) fn store_headers() -> Vec<Seed> {
    const TARGET: &str = "store_headers";
    let target = StoreHeader { uuid: Uuid(*b"0123456789abcdef"), index: TargetIndex(3) };
    let attr = Attr { size: 70_000, kms: 70_000, atime: 1, mtime: 2, ctime: 3, uid: 4, gid: 5, ..Attr::default() };
    let side = SideHeader { fid: FILE.sub_object(0, 1), dirty: true, cut: Some(9), attr, epoch: 4 };
    let store = serde_json::to_vec(&clio::fuzz::StoreHeader::new(4)).expect("it can be written");
    // As a store writes it; nothing else can make one.
    let parts = br#"{"targets":[{"uuid":"30313233-3435-3637-3839-616263646566","epoch":3}],"names":7}"#;
    let mut damaged = target.encode();
    damaged[8] = 9;
    vec![
        Seed::accepted(TARGET, "target", target.encode()),
        Seed::accepted(TARGET, "side", side.encode()),
        Seed::accepted(TARGET, "store", store),
        Seed::accepted(TARGET, "parts", parts.to_vec()),
        Seed::refused(TARGET, "parts-negative", br#"{"targets":[],"names":-1}"#.to_vec()),
        Seed::refused(TARGET, "parts-cut", parts[..40].to_vec()),
        Seed::refused(TARGET, "newer-store", br#"{"magic":"clio store","format":99,"future":true}"#.to_vec()),
        Seed::refused(TARGET, "newer-target", damaged),
        Seed::refused(TARGET, "foreign", b"SQLite format 3\0".to_vec()),
    ]
}
