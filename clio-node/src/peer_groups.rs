#![expect(unsafe_code, reason = "a system call that rustix has no name for; the block has its proof")]
//! The supplementary groups of whoever is at the other end of a socket.

use clio_core::{Error, Result};
use rustix::fd::AsFd;
use std::os::fd::AsRawFd;

/// Most groups that a process can have (NGROUPS_MAX).
const MAX_GROUPS: usize = 65_536;
/// Room for these is tried first.
const FEW: usize = 64;

/// The supplementary groups that the peer of `socket` had when it connected, as the system knows them.
///
/// # Errors
/// What the system says.
pub(crate) fn peer_groups(socket: &impl AsFd) -> Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; FEW];
    loop {
        let mut bytes = size_of_val(groups.as_slice()) as libc::socklen_t;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the vector has room for as many bytes as are given, of which the call writes some and tells how many;
        // any bytes are group ids. The descriptor is open for the length of the call.
        let failed = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, groups.as_mut_ptr().cast(), &raw mut bytes) != 0
        };
        if !failed {
            groups.truncate(bytes as usize / size_of::<libc::gid_t>());
            return Ok(groups);
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || groups.len() >= MAX_GROUPS {
            return Err(Error::from_io("peer", error));
        }
        groups.resize(MAX_GROUPS, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::Gid;
    use std::os::unix::net::UnixStream;

    fn groups_of_a_thread_with(groups: &[u32]) -> Vec<u32> {
        let set: Vec<Gid> = groups.iter().map(|g| Gid::from_raw(*g)).collect();
        let made = std::thread::spawn(move || {
            // Of this thread alone.
            rustix::thread::set_thread_groups(&set).unwrap();
            UnixStream::pair().unwrap()
        });
        let (a, _b) = made.join().unwrap();
        peer_groups(&a).unwrap()
    }

    #[test]
    fn as_many_as_there_are() {
        if !rustix::process::geteuid().is_root() {
            let (a, _b) = UnixStream::pair().unwrap();
            let mut own: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
            own.sort_unstable();
            let mut told = peer_groups(&a).unwrap();
            told.sort_unstable();
            assert_eq!(told, own);
            return;
        }
        assert_eq!(groups_of_a_thread_with(&[]), [0; 0]);
        assert_eq!(groups_of_a_thread_with(&[7, 12]), [7, 12]);
        let many: Vec<u32> = (1000..1500).collect();
        assert_eq!(groups_of_a_thread_with(&many), many);
    }
}
