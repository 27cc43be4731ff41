//! What is on disk: the header of a store, and the header of an object's side file. All numbers little-endian.

use clio_core::attr::Attr;
use clio_core::units::{Fid, TargetIndex};
use clio_core::{Errno, Error, Result};
use std::fmt;

/// Version of the format that this code writes, and the newest that it reads.
pub(super) const VERSION: u32 = 1;
/// Size of both headers in bytes. It divides a disk sector, so that a header is written whole or not at all.
pub(super) const HEADER_SIZE: usize = 128;

const STORE_MAGIC: [u8; 8] = *b"ClioDir\n";
const SIDE_MAGIC: [u8; 8] = *b"ClioSum\n";

/// Names a target for good, wherever its folder moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = u128::from_be_bytes(self.0);
        let (a, b, c, d, e) = (n >> 96, n >> 80 & 0xffff, n >> 64 & 0xffff, n >> 48 & 0xffff, n & 0xffff_ffff_ffff);
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the file `target` in a target's folder says. Written once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreHeader {
    /// The target's own name.
    pub uuid: Uuid,
    /// Its index in the store that it was made for.
    pub index: TargetIndex,
}

/// What the first bytes of an object's side file say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SideHeader {
    /// The object.
    pub fid: Fid,
    /// Changed since it was last closed or made durable: size and mtime are those of then.
    pub dirty: bool,
    /// A truncate to this size in bytes was under way.
    pub cut: Option<u64>,
    /// Size in bytes, times and owner.
    pub attr: Attr,
    /// The store's epoch in which the checksums were last known to be right.
    pub epoch: u64,
}

/// Writes fields one after another.
struct Writer([u8; HEADER_SIZE], usize);

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
    }

    /// The last four bytes are the crc32c of the others.
    fn seal(mut self) -> [u8; HEADER_SIZE] {
        let crc = crc32c::crc32c(&self.0[..HEADER_SIZE - 4]);
        self.0[HEADER_SIZE - 4..].copy_from_slice(&crc.to_le_bytes());
        self.0
    }
}

/// Reads fields one after another; within a header, it can't run out.
struct Reader<'a>(&'a [u8; HEADER_SIZE], usize);

impl Reader<'_> {
    fn get<const N: usize>(&mut self) -> [u8; N] {
        let bytes = std::array::from_fn(|i| self.0[self.1 + i]);
        self.1 += N;
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.get())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.get())
    }
}

fn start(magic: [u8; 8]) -> Writer {
    let mut w = Writer([0; HEADER_SIZE], 0);
    w.put(&magic);
    w.put(&VERSION.to_le_bytes());
    w
}

/// Checks magic, version and checksum: in this order, since a newer version may be summed in another way.
fn open<'a>(bytes: &'a [u8], magic: [u8; 8], what: &str) -> Result<Reader<'a>> {
    let bad = |errno, text: String| Err(Error::new(errno, "open", text));
    let Some(header) = bytes.first_chunk::<HEADER_SIZE>() else {
        return bad(Errno::EBADMSG, format!("the {what} is cut short; restore it from a copy"));
    };
    let mut r = Reader(header, 0);
    if r.get::<8>() != magic {
        return bad(Errno::EBADMSG, format!("this is not a {what} of Clio's; give another path, or move it away"));
    }
    let version = r.u32();
    if version > VERSION {
        let text = format!("the {what} has format {version}, this Clio knows {VERSION} at most; use a newer Clio");
        return bad(Errno::EPROTO, text);
    }
    let sum = crc32c::crc32c(&header[..HEADER_SIZE - 4]);
    if header[HEADER_SIZE - 4..] != sum.to_le_bytes() || version == 0 {
        return bad(Errno::EBADMSG, format!("the {what} is damaged; restore it from a copy"));
    }
    Ok(r)
}

impl StoreHeader {
    /// Bytes of the file `target`.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut w = start(STORE_MAGIC);
        w.put(&self.uuid.0);
        w.put(&self.index.0.to_le_bytes());
        w.seal()
    }

    /// The inverse of [`StoreHeader::encode`].
    ///
    /// # Errors
    /// `EBADMSG` for something else or something damaged, `EPROTO` for a newer format.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = open(bytes, STORE_MAGIC, "store header")?;
        Ok(Self { uuid: Uuid(r.get()), index: TargetIndex(u16::from_le_bytes(r.get())) })
    }
}

const DIRTY: u32 = 1;
const CUT: u32 = 2;

impl SideHeader {
    /// The first bytes of a side file.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut w = start(SIDE_MAGIC);
        let flags = if self.dirty { DIRTY } else { 0 } | if self.cut.is_some() { CUT } else { 0 };
        w.put(&flags.to_le_bytes());
        w.put(&self.fid.to_bytes());
        for n in [self.attr.size, self.attr.atime, self.attr.mtime, self.attr.ctime] {
            w.put(&n.to_le_bytes());
        }
        w.put(&self.attr.uid.to_le_bytes());
        w.put(&self.attr.gid.to_le_bytes());
        w.put(&self.epoch.to_le_bytes());
        w.put(&self.cut.unwrap_or(0).to_le_bytes());
        w.seal()
    }

    /// The inverse of [`SideHeader::encode`].
    ///
    /// # Errors
    /// `EBADMSG` for something else or something damaged, `EPROTO` for a newer format.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = open(bytes, SIDE_MAGIC, "checksum file")?;
        let flags = r.u32();
        let fid = Fid::from_bytes(r.get());
        let [size, atime, mtime, ctime] = std::array::from_fn(|_| r.u64());
        let (uid, gid) = (r.u32(), r.u32());
        let (epoch, cut) = (r.u64(), r.u64());
        let attr = Attr { size, kms: size, blocks: 0, atime, mtime, ctime, uid, gid };
        Ok(Self { fid, dirty: flags & DIRTY != 0, cut: (flags & CUT != 0).then_some(cut), attr, epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_round_trip(a: [u64; 6], ids: [u32; 3], dirty: bool, cut: Option<u64>, uuid: [u8; 16], index: u16) {
            let [seq, size, atime, mtime, ctime, epoch] = a;
            let attr = Attr { size, kms: size, blocks: 0, atime, mtime, ctime, uid: ids[0], gid: ids[1] };
            let side = SideHeader { fid: Fid::new(seq, ids[2]), dirty, cut, attr, epoch };
            prop_assert_eq!(SideHeader::decode(&side.encode()).unwrap(), side);
            let store = StoreHeader { uuid: Uuid(uuid), index: TargetIndex(index) };
            prop_assert_eq!(StoreHeader::decode(&store.encode()).unwrap(), store);
        }

        #[test]
        fn no_flipped_bit_goes_unnoticed(bit in 0usize..HEADER_SIZE * 8, uuid: [u8; 16]) {
            let mut bytes = StoreHeader { uuid: Uuid(uuid), index: TargetIndex(3) }.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(StoreHeader::decode(&bytes).is_err());
        }

        #[test]
        fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(StoreHeader::decode(&bytes).is_err());
            prop_assert!(SideHeader::decode(&bytes).is_err());
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut bytes = StoreHeader { uuid: Uuid([7; 16]), index: TargetIndex(0) }.encode();
        bytes[8] = 9;
        let e = StoreHeader::decode(&bytes).unwrap_err();
        assert_eq!(e.errno(), Errno::EPROTO);
        assert!(e.detail().contains("use a newer Clio"), "{e}");
        assert_eq!(StoreHeader::decode(b"hello").unwrap_err().errno(), Errno::EBADMSG);
    }

    #[test]
    fn uuids_look_like_uuids() {
        assert_eq!(Uuid(*b"0123456789abcdef").to_string(), "30313233-3435-3637-3839-616263646566");
    }
}
