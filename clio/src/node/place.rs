//! Where a store's daemon listens.

use clio_core::{Errno, Error, Result};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Names another runtime folder.
const VARIABLE: &str = "CLIO_RUNTIME_DIR";

/// The socket of the store in `folder`, which must exist: a store has one, by whatever path its folder is reached.
///
/// # Errors
/// What the system says of the folder; `EACCES` if the runtime folder is not this user's alone.
pub fn socket_of(folder: &Path) -> Result<PathBuf> {
    let meta = fs::metadata(folder).map_err(|e| Error::from_io("open", e).at(folder.display().to_string()))?;
    Ok(runtime_folder()?.join(format!("{:x}-{:x}.socket", meta.dev(), meta.ino())))
}

/// The folder for sockets, made if need be: nobody but this user may enter it.
fn runtime_folder() -> Result<PathBuf> {
    let named = |variable| std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = named(VARIABLE).unwrap_or_else(|| match named("XDG_RUNTIME_DIR") {
        Some(folder) => folder.join("clio"),
        None => std::env::temp_dir().join(format!("clio-{}", crate::owner::uid())),
    });
    let at = |e: std::io::Error| Error::from_io("open", e).at(folder.display().to_string());
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(at(e)),
        _ => {}
    }
    let meta = fs::symlink_metadata(&folder).map_err(at)?;
    if !meta.is_dir() || meta.uid() != crate::owner::uid() || meta.mode() & 0o077 != 0 {
        let why = format!("the runtime folder must be this user's alone (mode 0700); set {VARIABLE} to one that is");
        return Err(Error::new(Errno::EACCES, "open", why).at(folder.display().to_string()));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_socket_by_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert_eq!(socket_of(folder.path()).unwrap(), socket_of(&link).unwrap());
        let other = tempfile::tempdir().unwrap();
        assert_ne!(socket_of(folder.path()).unwrap(), socket_of(other.path()).unwrap());
        assert_eq!(socket_of(&folder.path().join("none")).unwrap_err().errno(), Errno::ENOENT);
    }
}
