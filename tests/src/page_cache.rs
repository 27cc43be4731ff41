#![expect(unsafe_code, reason = "a system call that nothing has a name for yet")]
//! What of a file is in the system's page cache only, and would be lost with the machine.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The number of cachestat(2), the same on all architectures.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
#[derive(Default)]
struct Range {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Number of pages of the file that are not on disk yet.
///
/// # Errors
/// `ENOSYS` before Linux 6.5.
pub fn dirty_pages(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let (range, mut stat) = (Range::default(), Stat::default());
    // SAFETY: both structures have the layout that cachestat(2) names and live across the call, which writes to the second
    // one only; the descriptor is open.
    let done = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0) };
    if done == 0 { Ok(stat.dirty + stat.writeback) } else { Err(io::Error::last_os_error()) }
}

/// All files below `path` of which not all is on disk.
///
/// # Errors
/// As [`dirty_pages`].
pub fn not_on_disk(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(not_on_disk(&path)?);
        } else if dirty_pages(&path)? > 0 {
            found.push(path);
        }
    }
    Ok(found)
}

/// Whether files below `path` can be judged: the system tells of them, and they are not in memory for good.
pub fn can_be_judged(path: &Path) -> bool {
    let probe = path.join("probe");
    let judged = fs::write(&probe, [1; 5000]).is_ok()
        && dirty_pages(&probe).is_ok_and(|n| n > 0)
        && File::open(&probe).and_then(|f| f.sync_all()).is_ok()
        && dirty_pages(&probe).is_ok_and(|n| n == 0);
    let _ = fs::remove_file(&probe);
    judged
}
