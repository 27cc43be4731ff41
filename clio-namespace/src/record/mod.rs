//! The records of the store: fixed headers with a version byte, lengths checked before anything is read.
//!
//! Decoding accepts exactly what encoding produces: a record that decodes encodes to the same bytes. Anything else
//! is an error with errno `EBADMSG` (damaged) or `EOPNOTSUPP` (written by a newer release), never a panic.

mod entry;
mod header;
mod inode;
mod reply;
mod unlinked;

use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
pub use entry::Entry;
pub(crate) use entry::{entry_key, split_entry_key};
pub use header::{FORMAT_VERSION, StoreHeader};
pub use inode::{Inode, Kind};
pub use reply::Reply;
pub use unlinked::{Doomed, Removed, Unlinked};

/// Version byte of every record that this release writes.
const RECORD_VERSION: u8 = 1;

/// Reads a record front to back. No method panics.
struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Starts on `bytes`, a record of kind `what`, by checking its version byte.
    fn new(what: &'static str, bytes: &'a [u8]) -> Result<Self> {
        let mut r = Self { rest: bytes, what };
        match r.u8()? {
            RECORD_VERSION => Ok(r),
            v if v > RECORD_VERSION => Err(Error::new(
                Errno::EOPNOTSUPP,
                "decode",
                format!("{what} record of version {v}, this release knows {RECORD_VERSION}; use a newer Clio release"),
            )),
            v => Err(r.damaged(format!("version {v}"))),
        }
    }

    fn damaged(&self, why: impl std::fmt::Display) -> Error {
        let detail = format!("damaged {} record ({why}); run `clio check --repair`", self.what);
        Error::new(Errno::EBADMSG, "decode", detail)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or_else(|| self.damaged("cut short"))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(|| self.damaged("cut short"))?;
        self.rest = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn fid(&mut self) -> Result<Fid> {
        Ok(Fid::from_bytes(self.array()?))
    }

    /// A length and as many bytes, at most `max`.
    fn bytes(&mut self, max: usize) -> Result<Vec<u8>> {
        let n = self.u32()? as usize;
        if n > max {
            return Err(self.damaged(format!("{n} bytes where {max} are allowed")));
        }
        Ok(self.take(n)?.to_vec())
    }

    /// The record must end here.
    fn finish(self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(self.damaged(format!("{n} bytes too many"))),
        }
    }
}

/// Appends a length and `bytes`. All callers bound `bytes` far below 4 GiB.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}
