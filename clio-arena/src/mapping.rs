#![expect(unsafe_code, reason = "system calls that map memory; each block has its proof")]
//! Address space for an arena: private and huge-paged, or a sealed memfd that other processes map too.

use crate::head;
use crate::size_class::CHUNK_BYTES;
use clio_core::memory::MemRef;
use clio_core::memory::words::SharedWords;
use clio_core::{Errno, Error, Result};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// Seals of a shared arena: its size never changes, so that no access within it can fail with SIGBUS.
const SIZE_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// Memory mapped at one place for as long as this lives, a whole number of chunks.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// The memfd, if shared.
    fd: Option<OwnedFd>,
}

// SAFETY: an address range of the process and a descriptor; both may be used from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; the memory is accessed only through MemRefs.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Address space for `chunks` chunks of private memory. Nothing is accessible before [`Mapping::populate`].
    ///
    /// # Errors
    /// What mmap gives: ENOMEM if the address space or its limit (RLIMIT_AS) is used up.
    pub(crate) fn reserve_private(chunks: usize) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Self::map(chunks, libc::PROT_NONE, flags, None)?;
        // Without huge pages all works, more slowly: so a kernel that has none is no error.
        // SAFETY: the range is this mapping's own.
        unsafe { libc::madvise(mapping.base.as_ptr().cast(), mapping.len, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// A sealed memfd with room for `bytes` of page memory, mapped. It costs memory only as it is used.
    ///
    /// # Errors
    /// EINVAL if that exceeds the address space; EMFILE, ENFILE for want of descriptors; ENOMEM; EFBIG if RLIMIT_FSIZE is
    /// less.
    pub fn for_arena(bytes: usize) -> Result<Self> {
        Self::create_shared(head::all_chunks(bytes.div_ceil(CHUNK_BYTES)))
    }

    /// The staging records of whoever uses the arena that this is; `None` if it keeps none.
    pub fn records(self: &Arc<Self>) -> Option<SharedWords> {
        head::records(self)
    }

    /// A sealed memfd of `chunks` chunks, mapped. It costs memory only as chunks are populated.
    ///
    /// # Errors
    /// EMFILE, ENFILE for want of descriptors; ENOMEM; EFBIG if RLIMIT_FSIZE is less.
    pub(crate) fn create_shared(chunks: usize) -> Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"clio-arena".as_ptr(), flags) };
        if fd < 0 {
            return Err(Error::from_io("create arena", io::Error::last_os_error()));
        }
        // SAFETY: a descriptor just made, owned by no one else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let len = len_of(chunks)? as libc::off_t;
        // SAFETY: system calls on a descriptor of our own.
        let failed = unsafe {
            libc::ftruncate(fd.as_raw_fd(), len) != 0
                || libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SIZE_SEALS | libc::F_SEAL_SEAL) != 0
        };
        if failed {
            return Err(Error::from_io("size arena", io::Error::last_os_error()));
        }
        Self::attach(fd)
    }

    /// Maps an arena that another process made, checked to be one that can't shrink.
    ///
    /// # Errors
    /// EINVAL if the descriptor isn't a memfd sealed against shrinking and growing, or its size isn't a whole number
    /// of chunks; else what fstat or mmap give.
    pub fn attach(fd: OwnedFd) -> Result<Self> {
        let not_an_arena = |why: &'static str| Error::new(Errno::EINVAL, "attach arena", why);
        // SAFETY: a system call on a descriptor of our own.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SIZE_SEALS != SIZE_SEALS {
            return Err(not_an_arena("the descriptor is not a memfd whose size is sealed"));
        }
        // SAFETY: all zeros is a valid `stat`, a plain structure of numbers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is writable for the call.
        if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } != 0 {
            return Err(Error::from_io("attach arena", io::Error::last_os_error()));
        }
        let len = usize::try_from(stat.st_size).unwrap_or(0);
        if len == 0 || !len.is_multiple_of(CHUNK_BYTES) {
            return Err(not_an_arena("the size of the memfd is not a multiple of 2 MiB"));
        }
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let mapping = Self::map(len / CHUNK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, Some(fd))?;
        // A forked child is another client: it must not act on this one's arena.
        // SAFETY: the range is this mapping's own.
        unsafe { libc::madvise(mapping.base.as_ptr().cast(), mapping.len, libc::MADV_DONTFORK) };
        Ok(mapping)
    }

    /// Maps `chunks` chunks from a chunk boundary on: reserves one chunk more, maps into it, cuts the rest off.
    fn map(chunks: usize, prot: libc::c_int, flags: libc::c_int, fd: Option<OwnedFd>) -> Result<Self> {
        let len = len_of(chunks)?;
        let reserve_flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let raw_fd = fd.as_ref().map_or(-1, |f| f.as_raw_fd());
        // SAFETY: the kernel picks a free range; the second call replaces only pages of it; what is unmapped lies in
        // it and outside the mapping returned.
        unsafe {
            let reserved = libc::mmap(std::ptr::null_mut(), len + CHUNK_BYTES, libc::PROT_NONE, reserve_flags, -1, 0);
            if reserved == libc::MAP_FAILED {
                return Err(no_address_space());
            }
            let head = reserved.cast::<u8>().align_offset(CHUNK_BYTES);
            let base = reserved.cast::<u8>().add(head);
            if head > 0 {
                libc::munmap(reserved, head);
            }
            if head < CHUNK_BYTES {
                libc::munmap(base.add(len).cast(), CHUNK_BYTES - head);
            }
            let mapped = libc::mmap(base.cast(), len, prot, flags | libc::MAP_FIXED, raw_fd, 0);
            match NonNull::new(mapped.cast::<u8>()).filter(|_| mapped != libc::MAP_FAILED) {
                Some(base) => Ok(Self { base, len, fd }),
                None => {
                    let error = no_address_space();
                    libc::munmap(base.cast(), len);
                    Err(error)
                }
            }
        }
    }

    /// Makes chunk `chunk` accessible and its pages present, so that no first touch costs a fault later. Blocks while
    /// the kernel clears 2 MiB. False if there is no memory.
    pub(crate) fn populate(&self, chunk: usize) -> bool {
        assert!(chunk < self.len / CHUNK_BYTES, "chunk {chunk} of {}", self.len / CHUNK_BYTES);
        // SAFETY: within the mapping, by the assertion; the calls change access and presence, never content.
        unsafe {
            let start: *mut libc::c_void = self.base.as_ptr().add(chunk * CHUNK_BYTES).cast();
            let allowed = match &self.fd {
                None => libc::mprotect(start, CHUNK_BYTES, libc::PROT_READ | libc::PROT_WRITE) == 0,
                // Reserves the memory: to find out at the first touch would be too late.
                Some(fd) => {
                    let (at, len) = ((chunk * CHUNK_BYTES) as libc::off_t, CHUNK_BYTES as libc::off_t);
                    libc::fallocate(fd.as_raw_fd(), 0, at, len) == 0
                }
            };
            // Kernels before 5.14 lack it, and then fault pages in one by one.
            let populated = allowed
                && (libc::madvise(start, CHUNK_BYTES, libc::MADV_POPULATE_WRITE) == 0
                    || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL));
            if !populated {
                tracing::warn!(target: "clio::page", chunk, error = %io::Error::last_os_error(), "no memory for the arena");
            }
            populated
        }
    }

    /// Bytes mapped.
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The memfd to hand to another process; `None` if private.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The bytes `[offset, offset + len)` of a *shared* mapping, all of which can be accessed at any time; `None` if
    /// they aren't all in it, or it is private. `offset` and `len` may come from a peer.
    pub fn at(&self, offset: u64, len: usize) -> Option<MemRef> {
        self.fd.as_ref()?;
        self.within(offset, len, self.len)
    }

    /// `count` atomic words from `offset` on, of a *shared* mapping; they keep it mapped. `None` if they aren't all in
    /// it, `offset` isn't a multiple of eight, or it is private. Both may come from a peer.
    pub fn words(self: &Arc<Self>, offset: u64, count: usize) -> Option<SharedWords> {
        let mem = self.at(offset, count.checked_mul(size_of::<u64>())?)?;
        // SAFETY: mapped as long as the `Mapping`, which the words hold; page memory is accessed only by the
        // race-tolerant copies, and as atomic words.
        offset.is_multiple_of(8).then(|| unsafe { SharedWords::in_memory(mem, self.clone()) })
    }

    /// The bytes `[offset, offset + len)`, if they lie below `end`, which is how far the memory is accessible.
    pub(crate) fn within(&self, offset: u64, len: usize, end: usize) -> Option<MemRef> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > end.min(self.len) {
            return None;
        }
        // SAFETY: within the mapping, and accessible by the caller's `end`; it stays mapped while `self` lives, and
        // Rust references to it are never made.
        unsafe { Some(MemRef::from_raw(self.base.add(offset), len)) }
    }

    /// The offset of `mem` in this mapping; `None` if it isn't (wholly) from here.
    pub fn offset_of(&self, mem: MemRef) -> Option<u64> {
        let offset = (mem.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        (offset.checked_add(mem.len())? <= self.len).then_some(offset as u64)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own. An arena with memory in use keeps it instead.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn len_of(chunks: usize) -> Result<usize> {
    let len = chunks.max(1).checked_mul(CHUNK_BYTES).filter(|len| *len <= isize::MAX as usize / 2);
    len.ok_or_else(|| Error::new(Errno::EINVAL, "create arena", "the limit exceeds the address space; lower it"))
}

fn no_address_space() -> Error {
    let error = io::Error::last_os_error();
    Error::new(
        Errno::from_raw(error.raw_os_error().unwrap_or(0)),
        "map arena",
        "no address space for the memory limit; lower the limit, or raise RLIMIT_AS",
    )
    .with_cause(error)
}
