//! LazyIO of open files.

use super::File;
use crate::lazy::{self, Lazy};
use clio_core::Result;
use clio_core::io::LockDemand;
use clio_vvp::{FileFlags, VvpFile};
use std::ops::Range;

impl File {
    /// Turns LazyIO on or off, for all clones. With it, writes may be seen by others only once they are propagated, and
    /// reads may see what they saw before, until the file is synchronized: the program sees to coherence. Turned off, it
    /// propagates what was written. Appends, and all of a `direct` file, are as ever. Blocks.
    ///
    /// What was written is propagated as well by [`File::sync_all`] and its like, [`File::close`], [`File::metadata`],
    /// [`File::set_len`], [`File::punch_hole`], and when there is much of it.
    ///
    /// # Errors
    /// Turning it on: what a target says when it is asked for the size. Turning it off: as [`File::lazyio_propagate`], and
    /// the file stays lazy.
    pub fn set_lazyio(&self, on: bool) -> Result<()> {
        self.check_process()?;
        if self.inner.vvp.flags().direct {
            return Ok(());
        }
        match (on, self.inner.lazy.get()) {
            (true, _) => self.lazy_state()?.turn_on(),
            (false, Some(lazy)) => lazy.turn_off(),
            (false, None) => Ok(()),
        }
    }

    /// Has others see what was written lazily of `len` bytes from `offset` on; of the whole file, if both are 0. What
    /// wasn't written there stays as others have it, to the byte. Blocks. A file that isn't lazy has nothing to propagate.
    ///
    /// # Errors
    /// What a target says: `ENOSPC`… What could not be written stays, and can be propagated again.
    pub fn lazyio_propagate(&self, offset: u64, len: u64) -> Result<()> {
        self.propagate(lazy::range(offset, len))
    }

    /// Has later reads of `len` bytes from `offset` on see what others have propagated by now; of the whole file, if both
    /// are 0. What was written lazily there is propagated first; the size of the file is as it is now. Blocks. Reads of a
    /// file that isn't lazy see that anyway.
    ///
    /// # Errors
    /// As [`File::lazyio_propagate`]; what a target says when it is asked for the size.
    pub fn lazyio_synchronize(&self, offset: u64, len: u64) -> Result<()> {
        self.check_process()?;
        match self.lazy() {
            Some(lazy) => lazy.synchronize(lazy::range(offset, len)).map_err(|e| e.on(self.fid())),
            None => Ok(()),
        }
    }

    /// What is kept lazily, if anything is.
    #[inline]
    pub(super) fn lazy(&self) -> Option<&Lazy> {
        self.inner.lazy.get().filter(|lazy| lazy.is_on())
    }

    /// All that was written can be seen by others.
    pub(super) fn propagate_all(&self) -> Result<()> {
        self.propagate(lazy::WHOLE)
    }

    /// The file was changed by this handle, past what it keeps lazily.
    pub(super) fn changed(&self, range: Range<u64>) -> Result<()> {
        self.lazy().map_or(Ok(()), |lazy| lazy.changed(range))
    }

    fn propagate(&self, range: Range<u64>) -> Result<()> {
        self.check_process()?;
        match self.lazy() {
            Some(lazy) => lazy.propagate(range).map_err(|e| e.on(self.fid())),
            None => Ok(()),
        }
    }

    fn lazy_state(&self) -> Result<&Lazy> {
        if let Some(lazy) = self.inner.lazy.get() {
            return Ok(lazy);
        }
        let flags = FileFlags { append: false, demand: LockDemand::Never, ..self.inner.vvp.flags() };
        let raw = VvpFile::open(self.inner.vvp.object().clone(), flags)?;
        Ok(self.inner.lazy.get_or_init(|| Lazy::new(raw)))
    }
}
