#![expect(unsafe_code, reason = "system calls that std has no name for; each block has its proof")]
//! System calls of the directory target: vectored positional I/O on raw page memory, holes, space.

use crate::store::Space;
use clio_core::memory::MemRef;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most pieces of memory that one call takes.
pub(crate) const MAX_IOV: usize = 1024;

fn iovecs(mem: &[MemRef]) -> ([libc::iovec; 16], Vec<libc::iovec>) {
    let iov = |m: &MemRef| libc::iovec { iov_base: m.as_ptr().cast(), iov_len: m.len() };
    let mut few = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 16];
    if mem.len() <= few.len() {
        for (to, m) in few.iter_mut().zip(mem) {
            *to = iov(m);
        }
        return (few, Vec::new());
    }
    (few, mem.iter().take(MAX_IOV).map(iov).collect())
}

fn offset_of(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

fn count(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Reads into up to [`MAX_IOV`] pieces of `mem` from `offset`; returns the bytes read, 0 at the end of the file.
/// With `nowait`, fails with `EAGAIN` or `EOPNOTSUPP` where it might have to wait for the disk.
pub(crate) fn read_at(fd: BorrowedFd<'_>, mem: &[MemRef], offset: u64, nowait: bool) -> io::Result<usize> {
    let (few, many) = iovecs(mem);
    let iov = if many.is_empty() { &few[..mem.len()] } else { &many[..] };
    let flags = if nowait { libc::RWF_NOWAIT } else { 0 };
    // SAFETY: the vector lives across the call and has the length given; each entry is memory that, by MemRef's
    // contract, is mapped and writable for its length; a bad descriptor is an error, not undefined behaviour.
    let n = unsafe { libc::preadv2(fd.as_raw_fd(), iov.as_ptr(), iov.len() as i32, offset_of(offset)?, flags) };
    count(n)
}

/// Reads into `buf` from `offset`, as [`read_at`] with `nowait`.
pub(crate) fn read_now_at(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let iov = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: one entry, which is `buf`: writable for its length, and borrowed for the call.
    let n = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const iov, 1, offset_of(offset)?, libc::RWF_NOWAIT) };
    count(n)
}

/// Writes up to [`MAX_IOV`] pieces of `mem` at `offset`; returns the bytes written.
pub(crate) fn write_at(fd: BorrowedFd<'_>, mem: &[MemRef], offset: u64) -> io::Result<usize> {
    let (few, many) = iovecs(mem);
    let iov = if many.is_empty() { &few[..mem.len()] } else { &many[..] };
    // SAFETY: as in `read_at`; the memory is only read.
    let n = unsafe { libc::pwritev(fd.as_raw_fd(), iov.as_ptr(), iov.len() as i32, offset_of(offset)?) };
    count(n)
}

/// Frees the bytes `[offset, offset + len)`, which then read as zeros. The file's size stays.
pub(crate) fn punch_hole(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes no pointers.
    let r = unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset_of(offset)?, offset_of(len)?) };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The next data or hole at or after `offset`; `ENXIO` if there is none.
pub(crate) fn seek(fd: BorrowedFd<'_>, offset: u64, hole: bool) -> io::Result<u64> {
    let whence = if hole { libc::SEEK_HOLE } else { libc::SEEK_DATA };
    // SAFETY: takes no pointers. It moves the descriptor's position, which nothing here uses.
    let at = unsafe { libc::lseek(fd.as_raw_fd(), offset_of(offset)?, whence) };
    u64::try_from(at).map_err(|_| io::Error::last_os_error())
}

/// Space of the file system that `fd` is on.
pub(crate) fn space(fd: BorrowedFd<'_>) -> io::Result<Space> {
    let mut st = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `st` is writable memory of the right type for the duration of the call.
    if unsafe { libc::fstatvfs(fd.as_raw_fd(), st.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all fields are integers, for which zeros are valid, and the call has succeeded.
    let st = unsafe { st.assume_init() };
    Ok(Space { total: st.f_blocks * st.f_frsize, free: st.f_bavail * st.f_frsize })
}

/// Whether `fd` is on a file system that is memory, where no read waits for a disk. (It knows no `nowait` reads.)
pub(crate) fn is_memory(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut st = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `st` is writable memory of the right type for the duration of the call.
    if unsafe { libc::fstatfs(fd.as_raw_fd(), st.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all fields are integers, for which zeros are valid, and the call has succeeded.
    Ok(unsafe { st.assume_init() }.f_type == libc::TMPFS_MAGIC)
}

/// Writes everything of the file system that `fd` is on to its medium.
pub(crate) fn sync_fs(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointers.
    if unsafe { libc::syncfs(fd.as_raw_fd()) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many descriptors this process may have; more than that is `EMFILE`. It can change while the process runs.
pub(crate) fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable memory of the right type for the duration of the call.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if told { limit.rlim_cur } else { u64::MAX }
}
