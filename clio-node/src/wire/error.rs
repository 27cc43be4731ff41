//! Errors on their way to a client.

use clio_core::units::Fid;
use clio_core::{Errno, Error, error::Subject};
use serde::{Deserialize, Serialize};

/// Longest reason that is sent, in bytes.
const MAX_REASON_BYTES: usize = 1024;

/// An error: what it is to the caller, on what, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WireError {
    /// The errno's value.
    pub errno: i32,
    /// A sentence.
    pub detail: String,
    /// The object, if it is about one.
    pub fid: Option<[u8; 16]>,
    /// The path, if it is about one.
    pub path: Option<String>,
}

impl WireError {
    /// The error as the caller of operation `op` sees it.
    pub fn into_error(self, op: &'static str) -> Error {
        let error = Error::new(Errno::from_raw(self.errno), op, self.detail);
        match (self.path, self.fid) {
            (Some(path), _) => error.at(path),
            (None, Some(fid)) => error.on(Fid::from_bytes(fid)),
            (None, None) => error,
        }
    }
}

impl From<&Error> for WireError {
    fn from(e: &Error) -> Self {
        let (fid, path) = match e.subject() {
            Subject::None => (None, None),
            Subject::Fid(fid) => (Some(fid.to_bytes()), None),
            Subject::Path(path) => (None, Some(path.clone())),
        };
        let mut detail = e.detail().to_string();
        if let Some((cut, _)) = detail.char_indices().take_while(|(at, _)| *at <= MAX_REASON_BYTES).last()
            && detail.len() > MAX_REASON_BYTES
        {
            detail.truncate(cut);
        }
        Self { errno: e.errno().raw(), detail, fid, path }
    }
}
