//! System calls that the standard library has no function for.
#![expect(unsafe_code, reason = "libc calls")]

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;

/// Takes and gives back an open-file-description lock on the first 4 KiB of `file`.
pub fn ofd_lock_pair(file: &File) -> Result<()> {
    ofd_locked(file, || Ok(()))
}

/// Does `step` under an open-file-description lock on the first 4 KiB of `file`, which nobody else must hold.
pub fn ofd_locked(file: &File, step: impl FnOnce() -> Result<()>) -> Result<()> {
    set_lock(file, libc::F_WRLCK)?;
    let done = step();
    set_lock(file, libc::F_UNLCK)?;
    done
}

fn set_lock(file: &File, kind: libc::c_int) -> Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 4096,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and `lock` lives across the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}
