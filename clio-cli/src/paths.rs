//! Paths in the store, as arguments.

use clap::builder::{PathBufValueParser, TypedValueParser};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Reads a path in the store. There is no working directory in a store: a path starts at its root.
pub(crate) fn stored() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|p| Path::new("/").join(p))
}

/// Whether a path ends in a slash, which asks for a folder.
pub(crate) fn wants_folder(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// Whether a path is `-`: standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}
