//! The records of the namespace.

use super::{Verdict, refused};
use clio_core::units::Fid;
use clio_core::{Errno, Result};
use clio_namespace::{Entry, FORMAT_VERSION, Inode, Kind, Reply, StoreHeader, Unlinked};
use clio_namespace::{MAX_LAYOUT_BYTES, MAX_SYMLINK_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTRS_BYTES};

/// First byte of an input: the kind of the record that follows.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Tag {
    Inode,
    Entry,
    Reply,
    Header,
    Unlinked,
}

/// A byte for the kind of record, then a record.
pub fn namespace_records(input: &[u8]) -> Verdict {
    const TAGS: [Tag; 5] = [Tag::Inode, Tag::Entry, Tag::Reply, Tag::Header, Tag::Unlinked];
    let Some((tag, record)) = input.split_first() else { return Verdict::Refused };
    match TAGS[usize::from(*tag) % TAGS.len()] {
        Tag::Inode => canonical(record, Inode::decode(record), Inode::encode, inode),
        Tag::Entry => canonical(record, Entry::decode(record), Entry::encode, |_| ()),
        Tag::Reply => canonical(record, Reply::decode(record), Reply::encode, reply),
        Tag::Header => canonical(record, StoreHeader::decode(record), StoreHeader::encode, |h| {
            assert_eq!(h.format, FORMAT_VERSION);
        }),
        Tag::Unlinked => canonical(record, Unlinked::decode(record), Unlinked::encode, |u| match u {
            Unlinked::Orphan => {}
            Unlinked::Doomed { layout } => assert!(layout.len() <= MAX_LAYOUT_BYTES),
        }),
    }
}

/// What decodes encodes to the same bytes, and keeps the invariants of its type.
fn canonical<T>(record: &[u8], decoded: Result<T>, encode: fn(&T) -> Vec<u8>, invariants: fn(&T)) -> Verdict {
    match decoded {
        Ok(value) => {
            assert_eq!(encode(&value), record, "the encoding is canonical");
            invariants(&value);
            Verdict::Accepted
        }
        Err(e) => refused(&e, &[Errno::EBADMSG, Errno::EOPNOTSUPP, Errno::EINVAL]),
    }
}

fn inode(i: &Inode) {
    let (file, dir) = (i.kind == Kind::File, i.kind == Kind::Dir);
    assert_eq!(i.mode & !0o7777, 0);
    assert!(file || (i.size_hint.is_none() && i.layout.is_empty()));
    assert!(dir || (i.parent == Fid::default() && i.entries == 0 && i.default_layout.is_empty()));
    assert_eq!(i.kind == Kind::Symlink, !i.target.is_empty());
    assert!(i.layout.len().max(i.default_layout.len()) <= MAX_LAYOUT_BYTES && i.target.len() <= MAX_SYMLINK_BYTES);
    assert!(i.xattrs.is_sorted_by(|a, b| a.0 < b.0), "sorted, without doubles");
    assert!(i.xattrs.iter().all(|(name, _)| (1..=MAX_XATTR_NAME_BYTES).contains(&name.len())));
    assert!(i.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= MAX_XATTRS_BYTES);
}

fn reply(r: &Reply) {
    match r {
        Reply::Node { inode: i, .. } => inode(i),
        Reply::Removed(Some(removed)) => assert!(removed.destroy.as_ref().is_none_or(|d| d.fid == removed.fid)),
        Reply::Removed(None) | Reply::Done => {}
    }
}
