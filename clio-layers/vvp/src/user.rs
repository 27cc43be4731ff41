#![expect(
    unsafe_code,
    reason = "buffers of the caller in an IO slice, which has no lifetime; each block has its proof"
)]
//! The caller's buffers, as an IO slice can carry them.
//!
//! # Proof
//! A [`UserMem`] comes into being only in [`lend`] and [`lend_mut`], which keep the borrow of the buffers until the
//! closure returns. Copies of it are kept by [`crate::io::VvpIo`] alone, and die with the IO: the loop finishes every
//! IO that it runs before it returns (`fini` forgets the copy), and an IO that unwinds is dropped with its slices.
//! Transfers to and from the buffers ([`UserMem::segments`]) are waited for by a guard in `io::direct`, on unwinding
//! too. So no access outlives the borrow.

use clio_core::memory::MemRef;
use smallvec::SmallVec;
use std::io::{IoSlice, IoSliceMut};
use std::ptr::NonNull;

#[derive(Clone, Copy, Debug)]
struct Part {
    at: NonNull<u8>,
    len: usize,
    /// Position of its first byte in the whole.
    start: u64,
}

/// The caller's buffers: bytes by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserMem {
    parts: SmallVec<[Part; 4]>,
    len: u64,
    writable: bool,
}

// SAFETY: the borrow that `lend` keeps is as good on any thread: `[u8]` is Send and Sync.
unsafe impl Send for UserMem {}

/// Lends `bufs`, to be read from.
pub(crate) fn lend<R>(bufs: &[IoSlice<'_>], run: impl FnOnce(&UserMem) -> R) -> R {
    let mut mem = UserMem::default();
    for buf in bufs {
        mem.add(NonNull::from(&**buf).cast(), buf.len());
    }
    run(&mem)
}

/// Lends `bufs`, to be written to.
pub(crate) fn lend_mut<R>(bufs: &mut [IoSliceMut<'_>], run: impl FnOnce(&UserMem) -> R) -> R {
    let mut mem = UserMem { writable: true, ..UserMem::default() };
    for buf in bufs.iter_mut() {
        mem.add(NonNull::from(&mut **buf).cast(), buf.len());
    }
    run(&mem)
}

impl UserMem {
    fn add(&mut self, at: NonNull<u8>, len: usize) {
        if len > 0 {
            self.parts.push(Part { at, len, start: self.len });
            self.len += len as u64;
        }
    }

    /// How many buffers there are that hold anything.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Bytes in all.
    #[cfg(test)]
    fn len(&self) -> u64 {
        self.len
    }

    /// The piece at `at`: from there to the end of its buffer, at most `max` bytes.
    fn piece(&self, at: u64, max: u64) -> Option<(NonNull<u8>, usize)> {
        let i = self.parts.partition_point(|p| p.start + p.len as u64 <= at);
        let part = self.parts.get(i)?;
        let skip = (at - part.start) as usize;
        let len = (part.len - skip).min(usize::try_from(max).unwrap_or(usize::MAX));
        // SAFETY: `skip` is within the buffer, since its end is beyond `at`.
        Some((unsafe { part.at.add(skip) }, len))
    }

    /// Up to `max` contiguous bytes at `at`; empty at the end.
    pub(crate) fn get(&self, at: u64, max: u64) -> &[u8] {
        match self.piece(at, max) {
            // SAFETY: within a buffer that is borrowed as long as this lives (module proof), and no piece of it is
            // borrowed mutably, since that takes `&mut self`.
            Some((at, len)) => unsafe { std::slice::from_raw_parts(at.as_ptr(), len) },
            None => &[],
        }
    }

    /// Up to `max` contiguous bytes at `at`; empty at the end, and for buffers that were lent to be read from.
    pub(crate) fn get_mut(&mut self, at: u64, max: u64) -> &mut [u8] {
        match self.piece(at, max) {
            // SAFETY: as in `get`; the buffer was lent by `lend_mut`; of the copies of this, one IO at a time uses one.
            Some((at, len)) if self.writable => unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) },
            _ => &mut [],
        }
    }

    /// The bytes `[at, at + len)` for a transfer, in order. The transfer is over before this IO ends, and nothing else
    /// touches the bytes meanwhile.
    pub(crate) fn segments(&self, at: u64, len: u64) -> impl Iterator<Item = MemRef> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let (start, n) = self.piece(at + done, len - done).filter(|(_, n)| *n > 0)?;
            done += n as u64;
            // SAFETY: borrowed until the transfer is over (module proof); only read if lent to be read from, as a
            // transfer from memory does.
            Some(unsafe { MemRef::from_raw(start, n) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_by_position() {
        let bufs = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defgh")];
        lend(&bufs, |mem| {
            assert_eq!((mem.len(), mem.parts()), (8, 2));
            let mut seen = Vec::new();
            while seen.len() < 8 {
                seen.extend_from_slice(mem.get(seen.len() as u64, 2));
            }
            assert_eq!(seen, b"abcdefgh");
            assert!(mem.get(8, 9).is_empty());
            for at in 0..=8 {
                let total: usize = mem.segments(at, 8 - at).map(|m| m.len()).sum();
                assert_eq!(total as u64, 8 - at);
            }
        });
        let (mut a, mut b) = ([0; 3], [0; 2]);
        lend_mut(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)], |mem| {
            let mut mem = mem.clone();
            mem.get_mut(1, 9).fill(1);
            mem.get_mut(3, 1).fill(2);
        });
        assert_eq!((a, b), ([0, 1, 1], [2, 0]));
    }
}
