//! Inodes.

use super::{RECORD_VERSION, Reader, put_bytes};
use crate::limits::{MAX_LAYOUT_BYTES, MAX_SYMLINK_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTRS_BYTES};
use clio_core::Result;
use clio_core::units::Fid;

/// What an inode is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A regular file: its data lies in objects that its layout names.
    File = 1,
    /// A directory.
    Dir = 2,
    /// A symbolic link.
    Symlink = 3,
}

impl Kind {
    /// The kind that records and messages number so.
    pub fn from_u8(v: u8) -> Option<Self> {
        [Kind::File, Kind::Dir, Kind::Symlink].into_iter().find(|k| *k as u8 == v)
    }
}

/// A file, directory or symbolic link, whole.
///
/// Invariants (decoding refuses what breaks them): `size_hint` and `layout` are a file's, `parent`, `entries` and
/// `default_layout` a directory's, `target` a symbolic link's; `xattrs` is sorted by name, without doubles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Its name for good: never used again, not even after a crash.
    pub fid: Fid,
    /// What it is.
    pub kind: Kind,
    /// Permission bits (07777); the type is in `kind`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that it has; for a directory 2 and one for each subdirectory; 0 once unlinked.
    pub nlink: u32,
    /// Unlinked, and kept only because it was open.
    pub orphan: bool,
    /// Size in bytes at the last close, if known: the true size is the objects'.
    pub size_hint: Option<u64>,
    /// Last read, nanoseconds since 1970.
    pub atime: u64,
    /// Last change of data or entries, nanoseconds since 1970.
    pub mtime: u64,
    /// Last change of the inode, nanoseconds since 1970.
    pub ctime: u64,
    /// A directory's parent: what ".." is. The root is its own parent.
    pub parent: Fid,
    /// Entries in a directory.
    pub entries: u64,
    /// A file's layout as the layout layer encodes it; empty while there is none.
    pub layout: Vec<u8>,
    /// The layout that files made in this directory get, and directories made in it inherit; empty for none.
    pub default_layout: Vec<u8>,
    /// What a symbolic link points at: a path.
    pub target: Vec<u8>,
    /// Extended attributes: name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

const FLAG_ORPHAN: u16 = 1;
const FLAG_SIZE_HINT: u16 = 2;
/// Bytes before the variable part: what an inode without any occupies.
const FIXED_BYTES: usize = 1 + 1 + 2 + 16 + 4 * 4 + 8 * 4 + 16 + 8 + 3 * 4 + 2;

impl Inode {
    /// The record of this inode, version byte first.
    pub fn encode(&self) -> Vec<u8> {
        let xattrs: usize = self.xattrs.iter().map(|(n, v)| 8 + n.len() + v.len()).sum();
        let variable = self.layout.len() + self.default_layout.len() + self.target.len() + xattrs;
        let mut out = Vec::with_capacity(FIXED_BYTES + variable);
        let flags = if self.orphan { FLAG_ORPHAN } else { 0 } | self.size_hint.map_or(0, |_| FLAG_SIZE_HINT);
        out.extend_from_slice(&[RECORD_VERSION, self.kind as u8]);
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.fid.to_bytes());
        for v in [self.mode, self.uid, self.gid, self.nlink] {
            out.extend_from_slice(&v.to_le_bytes());
        }
        for v in [self.size_hint.unwrap_or(0), self.atime, self.mtime, self.ctime] {
            out.extend_from_slice(&v.to_le_bytes());
        }
        out.extend_from_slice(&self.parent.to_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        put_bytes(&mut out, &self.layout);
        put_bytes(&mut out, &self.default_layout);
        put_bytes(&mut out, &self.target);
        out.extend_from_slice(&(self.xattrs.len() as u16).to_le_bytes());
        for (name, value) in &self.xattrs {
            put_bytes(&mut out, name);
            put_bytes(&mut out, value);
        }
        out
    }

    /// The inverse of [`Inode::encode`]. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// `EBADMSG`: damaged. `EOPNOTSUPP`: written by a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("inode", bytes)?;
        let kind = r.u8()?;
        let kind = Kind::from_u8(kind).ok_or_else(|| r.damaged(format!("kind {kind}")))?;
        let flags = r.u16()?;
        if flags & !(FLAG_ORPHAN | FLAG_SIZE_HINT) != 0 {
            return Err(r.damaged(format!("flags {flags:#x}")));
        }
        let fid = r.fid()?;
        let [mode, uid, gid, nlink] = [r.u32()?, r.u32()?, r.u32()?, r.u32()?];
        let [size, atime, mtime, ctime] = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
        let inode = Self {
            fid,
            kind,
            mode,
            uid,
            gid,
            nlink,
            orphan: flags & FLAG_ORPHAN != 0,
            size_hint: (flags & FLAG_SIZE_HINT != 0).then_some(size),
            atime,
            mtime,
            ctime,
            parent: r.fid()?,
            entries: r.u64()?,
            layout: r.bytes(MAX_LAYOUT_BYTES)?,
            default_layout: r.bytes(MAX_LAYOUT_BYTES)?,
            target: r.bytes(MAX_SYMLINK_BYTES)?,
            xattrs: decode_xattrs(&mut r)?,
        };
        if inode.size_hint.is_none() && size != 0 {
            return Err(r.damaged("a size that is not there"));
        }
        if let Some(why) = inode.misfit() {
            return Err(r.damaged(why));
        }
        r.finish()?;
        Ok(inode)
    }

    /// Which invariant of the type is broken, if any.
    fn misfit(&self) -> Option<&'static str> {
        let dir = self.kind == Kind::Dir;
        let file = self.kind == Kind::File;
        if self.mode & !0o7777 != 0 {
            Some("mode")
        } else if !file && (self.size_hint.is_some() || !self.layout.is_empty()) {
            Some("a file's fields in something else")
        } else if !dir && (self.parent != Fid::default() || self.entries != 0 || !self.default_layout.is_empty()) {
            Some("a directory's fields in something else")
        } else if (self.kind == Kind::Symlink) == self.target.is_empty() {
            Some("symbolic link and target don't go together")
        } else {
            None
        }
    }

    /// Bytes of all attributes' names and values: bounded by [`MAX_XATTRS_BYTES`].
    pub(crate) fn xattr_bytes(&self) -> usize {
        self.xattrs.iter().map(|(n, v)| n.len() + v.len()).sum()
    }
}

fn decode_xattrs(r: &mut Reader<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut total = 0;
    for _ in 0..r.u16()? {
        let (name, value) = (r.bytes(MAX_XATTR_NAME_BYTES)?, r.bytes(MAX_XATTRS_BYTES)?);
        total += name.len() + value.len();
        if name.is_empty() || total > MAX_XATTRS_BYTES || all.last().is_some_and(|(last, _)| *last >= name) {
            return Err(r.damaged("extended attributes"));
        }
        all.push((name, value));
    }
    Ok(all)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clio_core::Errno;
    use proptest::prelude::*;

    pub(crate) fn any_inode() -> impl Strategy<Value = Inode> {
        let fid = || (any::<u64>(), any::<u32>()).prop_map(|(s, o)| Fid::new(s, o));
        let bytes = |n| prop::collection::vec(any::<u8>(), 0..n);
        let xattrs = prop::collection::btree_map(prop::collection::vec(any::<u8>(), 1..8), bytes(20), 0..4);
        let target = prop::collection::vec(any::<u8>(), 1..30);
        (
            (0..3usize, 0..0o10000u32, any::<[u32; 3]>(), any::<bool>(), any::<Option<u64>>(), any::<[u64; 4]>()),
            (fid(), fid(), bytes(40), bytes(40), target, xattrs),
        )
            .prop_map(
                |((kind, mode, ids, orphan, size, times), (fid, parent, layout, default_layout, target, xattrs))| {
                    let kind = [Kind::File, Kind::Dir, Kind::Symlink][kind];
                    let (file, dir) = (kind == Kind::File, kind == Kind::Dir);
                    Inode {
                        fid,
                        kind,
                        mode,
                        uid: ids[0],
                        gid: ids[1],
                        nlink: ids[2],
                        orphan,
                        size_hint: size.filter(|_| file),
                        atime: times[0],
                        mtime: times[1],
                        ctime: times[2],
                        parent: if dir { parent } else { Fid::default() },
                        entries: if dir { times[3] } else { 0 },
                        layout: if file { layout } else { vec![] },
                        default_layout: if dir { default_layout } else { vec![] },
                        target: if kind == Kind::Symlink { target } else { vec![] },
                        xattrs: xattrs.into_iter().collect(),
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn round_trip(inode in any_inode()) {
            prop_assert_eq!(Inode::decode(&inode.encode()).unwrap(), inode);
        }

        #[test]
        fn what_decodes_is_canonical(inode in any_inode(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = inode.encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(i) = Inode::decode(&bytes) {
                prop_assert_eq!(i.encode(), bytes);
            }
        }

        #[test]
        fn every_cut_is_noticed(inode in any_inode()) {
            let bytes = inode.encode();
            for n in 0..bytes.len() {
                prop_assert_eq!(Inode::decode(&bytes[..n]).unwrap_err().errno(), Errno::EBADMSG);
            }
        }

        #[test]
        fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Inode::decode(&bytes);
        }
    }

    #[test]
    fn a_newer_record_says_so() {
        let e = Inode::decode(&[9, 1, 0]).unwrap_err();
        assert_eq!(e.errno(), Errno::EOPNOTSUPP);
        assert!(e.to_string().contains("version 9"), "{e}");
    }
}
