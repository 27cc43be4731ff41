//! The file that makes a folder a store.

use clio_core::{Errno, Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the header file in a store's folder.
pub const HEADER_FILE: &str = "clio-store.json";
/// The newest format that this version reads, and the one that it writes.
pub const FORMAT: u32 = 1;
const MAGIC: &str = "clio store";

/// Header of a `dir:` store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreHeader {
    magic: String,
    format: u32,
    /// Number of targets.
    pub targets: u16,
}

impl StoreHeader {
    /// Header of a new store.
    pub fn new(targets: u16) -> Self {
        Self { magic: MAGIC.into(), format: FORMAT, targets }
    }

    /// Reads a header's text.
    ///
    /// # Errors
    /// `EBADMSG` for something else, `EPROTO` for a newer format.
    pub fn parse(text: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            magic: String,
            format: u32,
        }
        let foreign = || Error::new(Errno::EBADMSG, "open", "the store's header is damaged, or none of Clio's");
        let version: Version = serde_json::from_slice(text).map_err(|_| foreign())?;
        if version.magic != MAGIC {
            return Err(foreign());
        }
        if version.format > FORMAT {
            let v = version.format;
            let why = format!("the store has format {v}; this Clio reads up to {FORMAT}: use a newer Clio");
            return Err(Error::new(Errno::EPROTO, "open", why));
        }
        let header: Self = serde_json::from_slice(text).map_err(|_| foreign())?;
        if !(1..=crate::uri::MAX_TARGETS).contains(&header.targets) {
            return Err(foreign());
        }
        Ok(header)
    }

    /// Reads the header in folder `path`; `None` if there is none.
    ///
    /// # Errors
    /// As [`StoreHeader::parse`], and the system's.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let file = header_path(path);
        match fs::read(&file) {
            Ok(text) => Self::parse(&text).map(Some).map_err(|e| e.at(file.display().to_string())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::from_io("open", e).at(file.display().to_string())),
        }
    }

    /// Writes the header durably, last of all that makes a store: a store without one was never finished.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let place = header_path(path);
        let fresh = path.join(format!("{HEADER_FILE}.new"));
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::new(Errno::EIO, "format", e.to_string()))?;
        let write = || -> std::io::Result<()> {
            let mut file = fs::File::create(&fresh)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&fresh, &place)?;
            fs::File::open(path)?.sync_all()
        };
        write().map_err(|e| Error::from_io("format", e).at(place.display().to_string()))
    }
}

fn header_path(path: &Path) -> PathBuf {
    path.join(HEADER_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_foreign_and_damaged_headers_are_told_apart() {
        let text = serde_json::to_vec(&StoreHeader::new(4)).unwrap();
        assert_eq!(StoreHeader::parse(&text).unwrap(), StoreHeader::new(4));
        let errno = |t: &[u8]| StoreHeader::parse(t).unwrap_err().errno();
        assert_eq!(errno(br#"{"magic":"clio store","format":99,"future":true}"#), Errno::EPROTO);
        assert_eq!(errno(br#"{"magic":"other","format":1}"#), Errno::EBADMSG);
        assert_eq!(errno(b"\x00\x01"), Errno::EBADMSG);
        assert_eq!(errno(br#"{"magic":"clio store","format":1,"targets":0}"#), Errno::EBADMSG);
    }
}
