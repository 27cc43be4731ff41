//! LazyIO: a handle whose program sees to coherence itself.
//!
//! A lazy handle keeps to itself what it writes, until it *propagates* it, and may go on reading what it has read, whatever
//! others do to the file, until it *synchronizes*. It takes no locks that others would have to wait for: what goes to and
//! comes from the targets passes the cache by, without locks of the client. So its buffer is its own: other handles never
//! see what it has filled lazily, nor are they kept from caching. Ranges are honoured to the byte: what it didn't write it
//! doesn't touch.

mod dirty;
mod snapshot;

#[cfg(test)]
mod tests;

use clio_core::sync::Mutex;
use clio_core::sync::atomic::{AtomicBool, Ordering};
use clio_core::units::MAX_FILE_SIZE;
use clio_core::{Errno, Error, Result};
use clio_vvp::VvpFile;
use dirty::Dirty;
use snapshot::Snapshot;
use std::ops::Range;

/// Bytes written that a handle keeps at most; then they are propagated, as those of a handle that isn't lazy might be.
const DIRTY_MAX: usize = 32 << 20;
/// Bytes read that a handle keeps at most.
const SNAPSHOT_MAX: usize = 32 << 20;
/// Bytes that are read from the targets at a time.
const READ_MAX: u64 = 4 << 20;

/// What a lazy handle keeps to itself. Its mutex is held while targets are asked: threads that share a handle wait for each
/// other.
#[derive(Debug)]
pub(crate) struct Lazy {
    /// The file, past the cache and without locks.
    raw: VvpFile,
    /// Writes are durable when they return: none is kept.
    writes_through: bool,
    /// As in the state, for whoever only looks.
    is_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_on: bool,
    dirty: Dirty,
    snapshot: Snapshot,
    /// The file's size as it was last asked for, or made by this handle.
    size: u64,
}

impl Lazy {
    /// Of a file that is open as `raw`: past the cache, without locks.
    pub(crate) fn new(raw: VvpFile) -> Lazy {
        let writes_through = raw.flags().dsync;
        Lazy { raw, writes_through, is_on: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Whether the handle is lazy now.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Lazy from now on.
    ///
    /// # Errors
    /// What a target says when it is asked for the size.
    pub(crate) fn turn_on(&self) -> Result<()> {
        let mut state = self.state.lock();
        if !state.is_on {
            *state = State { is_on: true, size: self.raw.attr()?.size, ..State::default() };
            self.is_on.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// No longer lazy: what was written is propagated.
    ///
    /// # Errors
    /// As [`Lazy::propagate`]; then the handle stays as it is.
    pub(crate) fn turn_off(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.send(&mut state, WHOLE)?;
        *state = State::default();
        self.is_on.store(false, Ordering::Release);
        Ok(())
    }

    /// As [`VvpFile::read_at`]. `None` if the handle isn't lazy any more.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> Option<Result<usize>> {
        let mut state = self.state.lock();
        if !state.is_on {
            return None;
        } else if offset > MAX_FILE_SIZE {
            return Some(self.raw.read_at(buf, offset));
        }
        let len = (buf.len() as u64).min(state.size.saturating_sub(offset)) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let part = &mut buf[done..len.min(done + READ_MAX as usize)];
            let end = at + part.len() as u64;
            if let Err(e) = self.fetch(&mut state, at..end) {
                return Some(if done == 0 { Err(e) } else { Ok(done) });
            }
            state.snapshot.read(at, part);
            state.dirty.read(at, part);
            done += part.len();
        }
        Some(Ok(len))
    }

    /// As [`VvpFile::write_at`]. `None` if the handle isn't lazy any more.
    pub(crate) fn write_at(&self, buf: &[u8], offset: u64) -> Option<Result<usize>> {
        let mut state = self.state.lock();
        state.is_on.then(|| self.write(&mut state, buf, offset))
    }

    fn write(&self, state: &mut State, buf: &[u8], offset: u64) -> Result<usize> {
        if buf.is_empty() {
            // Its place doesn't count, unless it can't be.
            return self.raw.write_at(buf, offset);
        }
        let end = offset.saturating_add(buf.len() as u64);
        let is_too_much = state.dirty.bytes() + buf.len() > DIRTY_MAX;
        let passes = self.writes_through || buf.len() > DIRTY_MAX || end > MAX_FILE_SIZE;
        if passes || is_too_much {
            self.send(state, WHOLE)?;
        }
        let n = if passes { self.raw.write_at(buf, offset)? } else { buf.len() };
        if !passes {
            state.dirty.write(offset, buf);
        }
        state.note_written(offset, &buf[..n]);
        Ok(n)
    }

    /// What could not be propagated is given up.
    pub(crate) fn drop_dirty(&self) {
        self.state.lock().dirty = Dirty::default();
    }

    /// Others can see what this handle has written of `range`.
    ///
    /// # Errors
    /// What a target says; what could not be written stays, to be propagated again.
    pub(crate) fn propagate(&self, range: Range<u64>) -> Result<()> {
        self.send(&mut self.state.lock(), range)
    }

    /// Reads of `range` see what others have propagated before, and the file's size is as it is now. What this handle has
    /// written of `range` is propagated first.
    ///
    /// # Errors
    /// As [`Lazy::propagate`]; what a target says when it is asked for the size.
    pub(crate) fn synchronize(&self, range: Range<u64>) -> Result<()> {
        let mut state = self.state.lock();
        if !state.is_on {
            return Ok(());
        }
        self.send(&mut state, range.clone())?;
        state.snapshot.forget(range);
        self.look_at_size(&mut state)
    }

    /// The file was changed through this handle, past its buffer: what it keeps of `range` is old, the size too.
    ///
    /// # Errors
    /// What a target says when it is asked for the size.
    pub(crate) fn changed(&self, range: Range<u64>) -> Result<()> {
        let mut state = self.state.lock();
        if !state.is_on {
            return Ok(());
        }
        state.snapshot.forget(range);
        self.look_at_size(&mut state)
    }

    fn look_at_size(&self, state: &mut State) -> Result<()> {
        let size = self.raw.attr()?.size;
        state.snapshot.forget(size..u64::MAX);
        state.size = size.max(state.dirty.end());
        Ok(())
    }

    /// Reads what is missing of `range` into the snapshot.
    fn fetch(&self, state: &mut State, range: Range<u64>) -> Result<()> {
        if state.snapshot.bytes() + (range.end - range.start) as usize > SNAPSHOT_MAX {
            state.snapshot = Snapshot::default();
        }
        while let Some(missing) = state.snapshot.missing(&range) {
            let mut data = vec![0; (missing.end - missing.start) as usize];
            let mut done = 0;
            while done < data.len() {
                match self.raw.read_at(&mut data[done..], missing.start + done as u64)? {
                    0 => break,
                    n => done += n,
                }
            }
            state.snapshot.insert(missing.start, &data);
            // The targets know less than this handle has written.
            for (offset, bytes) in state.dirty.within(missing) {
                state.snapshot.write(offset, bytes);
            }
        }
        Ok(())
    }

    /// Writes what is dirty in `range`. What can't be written stays, and the rest is tried all the same.
    fn send(&self, state: &mut State, range: Range<u64>) -> Result<()> {
        let (mut outcome, mut kept) = (Ok(()), Vec::new());
        while let Some((offset, run)) = state.dirty.take(&range) {
            let mut done = 0;
            while done < run.len() {
                match self.raw.write_at(&run[done..], offset + done as u64) {
                    Ok(n) if n > 0 => done += n,
                    failed => {
                        let none = || Error::new(Errno::EIO, "propagate", "nothing could be written");
                        outcome = outcome.and(Err(failed.err().unwrap_or_else(none)));
                        kept.push((offset + done as u64, run[done..].to_vec()));
                        break;
                    }
                }
            }
        }
        kept.iter().for_each(|(offset, bytes)| state.dirty.write(*offset, bytes));
        outcome
    }
}

impl State {
    fn note_written(&mut self, offset: u64, bytes: &[u8]) {
        self.snapshot.write(offset, bytes);
        self.size = self.size.max(offset + bytes.len() as u64);
    }
}

/// All of a file.
pub(crate) const WHOLE: Range<u64> = 0..u64::MAX;

/// What `lazyio_propagate` and `lazyio_synchronize` mean by their arguments: nothing and nothing is all.
pub(crate) fn range(offset: u64, len: u64) -> Range<u64> {
    if (offset, len) == (0, 0) { WHOLE } else { offset..offset.saturating_add(len) }
}
