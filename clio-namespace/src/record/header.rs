//! The store header: says that this is a namespace, and of which format.

use clio_core::{Errno, Error, Result};

/// The format that this release writes, and the newest that it reads.
pub const FORMAT_VERSION: u16 = 1;

const MAGIC: [u8; 6] = *b"CLIONS";

/// First record read when a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreHeader {
    /// Format of everything else in the store.
    pub format: u16,
}

impl StoreHeader {
    /// Magic bytes, then the format as two bytes, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], &self.format.to_le_bytes()].concat()
    }

    /// The inverse of [`StoreHeader::encode`]. Bytes after the first eight belong to newer formats.
    ///
    /// # Errors
    /// `EINVAL`: not a Clio namespace. `EOPNOTSUPP`: a newer format. `EBADMSG`: damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((magic, rest)) = bytes.split_first_chunk::<{ MAGIC.len() }>() else {
            return Err(Self::damaged());
        };
        if *magic != MAGIC {
            return Err(Error::new(Errno::EINVAL, "open", "this is not a Clio namespace: its header is foreign"));
        }
        let (format, rest) = rest.split_first_chunk().ok_or_else(Self::damaged)?;
        match u16::from_le_bytes(*format) {
            format @ FORMAT_VERSION if rest.is_empty() => Ok(Self { format }),
            0 | FORMAT_VERSION => Err(Self::damaged()),
            newer => Err(Error::new(
                Errno::EOPNOTSUPP,
                "open",
                format!(
                    "the store has format {newer}, newer than {FORMAT_VERSION}, the newest that this release knows; \
                     use the Clio release that made it, or a later one"
                ),
            )),
        }
    }

    fn damaged() -> Error {
        Error::new(Errno::EBADMSG, "open", "the namespace's header is damaged; restore the store from a copy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong() {
        let ok = StoreHeader { format: FORMAT_VERSION };
        assert_eq!(StoreHeader::decode(&ok.encode()).unwrap(), ok);
        let e = StoreHeader::decode(&StoreHeader { format: 7 }.encode()).unwrap_err();
        assert_eq!(e.errno(), Errno::EOPNOTSUPP);
        assert!(e.to_string().contains("format 7, newer than 1"), "{e}");
        let errno = |b: &[u8]| StoreHeader::decode(b).unwrap_err().errno();
        assert_eq!(errno(b"SQLite format 3"), Errno::EINVAL);
        assert_eq!(errno(b""), Errno::EBADMSG);
        assert_eq!(errno(b"CLIONS\x01"), Errno::EBADMSG);
        assert_eq!(errno(b"CLIONS\x00\x00"), Errno::EBADMSG);
        assert_eq!(errno(b"CLIONS\x01\x00x"), Errno::EBADMSG);
    }
}
