//! System calls that the standard library has no function for.
#![expect(unsafe_code, reason = "libc calls")]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Takes and gives back an open-file-description lock on the first 4 KiB of `file`.
pub fn ofd_lock_pair(file: &File) -> std::io::Result<()> {
    for kind in [libc::F_WRLCK, libc::F_UNLCK] {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 4096,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and `lock` lives across the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}
