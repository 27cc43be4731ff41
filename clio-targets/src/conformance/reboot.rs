//! A reboot of the machine, as a folder target sees it.

use std::fs;
use std::io;
use std::path::Path;

/// As if all that the folder target at `root`, which is not open, holds had been written under another boot.
///
/// # Errors
/// Those of its file `state`.
pub fn pretend_reboot(root: &Path) -> io::Result<()> {
    let path = root.join("state");
    let mut state = fs::read(&path)?;
    state[32..48].fill(0xaa);
    let crc = crc32c::crc32c(&state[..60]);
    state[60..].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, state)
}
