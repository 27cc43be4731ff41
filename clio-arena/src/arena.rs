use crate::buddy::BlockNo;
use crate::head;
use crate::mapping::Mapping;
use crate::pool::{Pool, Take};
use crate::size_class::{CHUNK_BYTES, SizeClass};
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::memory::staging::StagingTable;
use clio_core::memory::{MemRef, PageMemory};
use clio_core::sync::Mutex;
use clio_core::sync::atomic::{AtomicUsize, Ordering};
use clio_core::units::BLOCK_SIZE;
use clio_core::{Errno, Error, Result};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Page memory in size classes, up to a limit. It grows by chunks of 2 MiB and never shrinks: memory freed is warm,
/// and given out again first.
///
/// Dropping an arena while memory is given out leaves its memory mapped for good: a late reader reads, and doesn't
/// fault. The limit is on what is given out; what is mapped can exceed it by less than a chunk.
#[derive(Debug)]
pub struct Arena {
    mapping: Arc<Mapping>,
    /// Chunks before the first one with page memory.
    head_chunks: usize,
    staging: Option<Arc<StagingTable>>,
    pool: RankedMutex<Pool>,
    /// Held while a chunk is made, taken before `pool`: the others go on with what there is.
    growing: Mutex<()>,
    used_bytes: AtomicUsize,
}

impl Arena {
    /// Memory for this process, in huge pages where the system has them.
    ///
    /// # Errors
    /// EINVAL if `limit_bytes` exceeds 16 TiB; ENOMEM for want of address space.
    pub fn private(limit_bytes: usize) -> Result<Self> {
        let chunks = checked_chunks(limit_bytes)?;
        Ok(Self::over(Arc::new(Mapping::reserve_private(chunks)?), limit_bytes, 0, None))
    }

    /// Memory in a sealed memfd ([`Arena::fd`]) that another process can map too.
    ///
    /// # Errors
    /// EINVAL if `limit_bytes` exceeds 16 TiB; EMFILE, ENFILE, ENOMEM.
    pub fn shared(limit_bytes: usize) -> Result<Self> {
        checked_chunks(limit_bytes)?;
        Self::over_shared(Arc::new(Mapping::for_arena(limit_bytes)?), limit_bytes)
    }

    /// As [`Arena::shared`], over a memfd that another process made ([`Mapping::for_arena`]); its room is the limit. Only one
    /// process allocates from it: the other goes by offsets ([`Mapping::attach`]).
    ///
    /// # Errors
    /// As [`Mapping::attach`]; EINVAL if there is no room for page memory.
    pub fn attach(fd: OwnedFd) -> Result<Self> {
        let mapping = Arc::new(Mapping::attach(fd)?);
        let chunks = mapping.len() / CHUNK_BYTES;
        let limit_bytes = (chunks - head::head_chunks(chunks)) * CHUNK_BYTES;
        if limit_bytes == 0 {
            return Err(Error::new(Errno::EINVAL, "attach arena", "it has no room for page memory"));
        }
        checked_chunks(limit_bytes)?;
        Self::over_shared(mapping, limit_bytes)
    }

    fn over_shared(mapping: Arc<Mapping>, limit_bytes: usize) -> Result<Self> {
        let head_chunks = head::head_chunks(mapping.len() / CHUNK_BYTES);
        let whole = mapping.at(0, mapping.len());
        let (Some(words), Some(whole)) = (head::mark(&mapping), whole) else {
            return Err(Error::new(Errno::EINVAL, "attach arena", "its head can't be used"));
        };
        let staging = Some(Arc::new(StagingTable::new(words, whole)));
        Ok(Self::over(mapping, limit_bytes, head_chunks, staging))
    }

    fn over(mapping: Arc<Mapping>, limit_bytes: usize, head_chunks: usize, staging: Option<Arc<StagingTable>>) -> Self {
        let pool = RankedMutex::new(LockRank::Leaf, Pool::new(limit_bytes));
        let (growing, used_bytes) = (Mutex::new(()), AtomicUsize::new(0));
        Self { mapping, head_chunks, staging, pool, growing, used_bytes }
    }

    /// Bytes before the first page memory.
    fn head_bytes(&self) -> usize {
        self.head_chunks * CHUNK_BYTES
    }

    /// The memfd to hand to another process; `None` if private.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.fd()
    }

    /// Bytes that the arena has taken from the system; freed memory included.
    pub fn mapped(&self) -> usize {
        self.pool.lock().chunks() * CHUNK_BYTES
    }

    /// The offset of `mem` from the arena's start: its name in other processes. `None` if it isn't from here.
    #[inline]
    pub fn offset_of(&self, mem: MemRef) -> Option<u64> {
        self.mapping.offset_of(mem)
    }

    /// The bytes `[offset, offset + len)`, given out or not; `None` if they aren't all in chunks that exist.
    pub fn at(&self, offset: u64, len: usize) -> Option<MemRef> {
        self.mapping.within(offset, len, self.head_bytes() + self.mapped())
    }

    #[cold]
    fn alloc_growing(&self, class: SizeClass) -> Option<MemRef> {
        let _growing = self.growing.lock();
        let mut pool = self.pool.lock();
        loop {
            // Another thread may have made a chunk, or freed memory, meanwhile.
            match pool.take(class) {
                Take::Block(block) => return Some(self.give_out(&pool, block, class)),
                Take::Full => return None,
                Take::Grow => {}
            }
            let chunk = pool.chunks();
            drop(pool);
            if !self.mapping.populate(self.head_chunks + chunk) {
                return None;
            }
            pool = self.pool.lock();
            pool.add_chunk();
        }
    }

    #[inline]
    fn give_out(&self, pool: &Pool, block: BlockNo, class: SizeClass) -> MemRef {
        self.used_bytes.store(pool.used_bytes(), Ordering::Relaxed);
        let offset = self.head_bytes() as u64 + u64::from(block) * BLOCK_SIZE;
        self.mapping.within(offset, class.bytes(), usize::MAX).expect("the pool has only blocks of existing chunks")
    }
}

impl PageMemory for Arena {
    /// Blocks on a short mutex, and while the kernel clears memory if the arena has to grow.
    ///
    /// # Panics
    /// If `len` isn't the size of a class: a mistake in the caller.
    #[inline]
    #[track_caller]
    fn alloc(&self, len: usize) -> Option<MemRef> {
        let Some(class) = SizeClass::of(len) else { panic!("{len} bytes are no size class of page memory") };
        let mut pool = self.pool.lock();
        match pool.take(class) {
            Take::Block(block) => Some(self.give_out(&pool, block, class)),
            Take::Full => None,
            Take::Grow => {
                drop(pool);
                self.alloc_growing(class)
            }
        }
    }

    /// # Panics
    /// If `mem` isn't what [`Arena::alloc`] gave, whole, or was freed before.
    #[inline]
    #[track_caller]
    fn free(&self, mem: MemRef) {
        let place = self.mapping.offset_of(mem).and_then(|offset| offset.checked_sub(self.head_bytes() as u64));
        let place = place.filter(|offset| offset.is_multiple_of(BLOCK_SIZE));
        let (Some(offset), Some(class)) = (place, SizeClass::of(mem.len())) else {
            panic!("{mem:?} is freed to an arena that it isn't from, or in part")
        };
        let mut pool = self.pool.lock();
        pool.give((offset / BLOCK_SIZE) as BlockNo, class);
        self.used_bytes.store(pool.used_bytes(), Ordering::Relaxed);
    }

    fn used(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// A shared arena's.
    fn staging(&self) -> Option<Arc<StagingTable>> {
        self.staging.clone()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.pool.get_mut().used_bytes() > 0 {
            std::mem::forget(self.mapping.clone());
        }
    }
}

fn checked_chunks(limit_bytes: usize) -> Result<usize> {
    if limit_bytes as u64 > BLOCK_SIZE << 32 {
        return Err(Error::new(Errno::EINVAL, "create arena", "the limit exceeds 16 TiB; lower it"));
    }
    Ok(Pool::max_chunks(limit_bytes))
}

#[cfg(all(test, not(clio_loom), not(miri)))]
mod tests;
