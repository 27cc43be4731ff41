//! Directory entries.

use super::{Kind, RECORD_VERSION, Reader};
use clio_core::Result;
use clio_core::units::Fid;

/// What a name in a directory stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The inode.
    pub fid: Fid,
    /// Its kind, so that listing a directory need not read the inodes.
    pub kind: Kind,
}

impl Entry {
    /// The record of this entry, version byte first.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(18);
        out.extend_from_slice(&[RECORD_VERSION, self.kind as u8]);
        out.extend_from_slice(&self.fid.to_bytes());
        out
    }

    /// The inverse of [`Entry::encode`]. Never panics.
    ///
    /// # Errors
    /// `EBADMSG`: damaged. `EOPNOTSUPP`: written by a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("directory entry", bytes)?;
        let kind = r.u8()?;
        let kind = Kind::from_u8(kind).ok_or_else(|| r.damaged(format!("kind {kind}")))?;
        let entry = Self { fid: r.fid()?, kind };
        r.finish()?;
        Ok(entry)
    }
}

/// The key of entry `name` of `dir`: the order of keys is the order of names in a directory.
pub(crate) fn entry_key(dir: Fid, name: &[u8]) -> Vec<u8> {
    [&dir.to_bytes(), name].concat()
}

/// Directory and name of an entry's key; `None` for a key that is none.
pub(crate) fn split_entry_key(key: &[u8]) -> Option<(Fid, &[u8])> {
    let (dir, name) = key.split_first_chunk::<16>()?;
    (!name.is_empty()).then_some((Fid::from_bytes(*dir), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio_core::Errno;

    #[test]
    fn round_trip_and_damage() {
        let e = Entry { fid: Fid::new(3, 4), kind: Kind::Symlink };
        let bytes = e.encode();
        assert_eq!(Entry::decode(&bytes).unwrap(), e);
        for n in 0..bytes.len() {
            assert_eq!(Entry::decode(&bytes[..n]).unwrap_err().errno(), Errno::EBADMSG);
        }
        assert_eq!(Entry::decode(&[bytes, vec![0]].concat()).unwrap_err().errno(), Errno::EBADMSG);
        assert_eq!(Entry::decode(&[1, 9]).unwrap_err().errno(), Errno::EBADMSG);
        assert_eq!(Entry::decode(&[2]).unwrap_err().errno(), Errno::EOPNOTSUPP);
    }

    #[test]
    fn keys() {
        let key = entry_key(Fid::new(3, 4), b"x");
        assert_eq!(split_entry_key(&key), Some((Fid::new(3, 4), &b"x"[..])));
        assert_eq!(split_entry_key(&key[..16]), None);
    }
}
