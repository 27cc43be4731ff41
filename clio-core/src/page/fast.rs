//! Reads and writes of the cache alone: what a layer does before it starts an I/O.

use super::WriteRefusal;
use crate::object::{AttrCell, Object};
use crate::units::BlockSet;

/// Reads from the cache alone, without a mutex or a reference count: true if all of `buf` was valid, within one
/// folio. The caller has made sure that the bytes lie below the known size.
#[inline]
pub fn fast_read(object: &Object, offset: u64, buf: &mut [u8]) -> bool {
    let index = object.folio_of(offset);
    let at = (offset & (object.folio_size() - 1)) as usize;
    if buf.is_empty() || at + buf.len() > object.folio_size() as usize {
        return false;
    }
    match object.pages().peek(index) {
        Some(id) => object.slab().cell(id.index).read(id.generation, at, buf),
        None => false,
    }
}

/// Writes into the cache alone, under one mutex: applies where the transfer layer has opened a window for all blocks
/// touched, within one folio, nobody owns the folio, and no block is in transfer. Raises the size and time of
/// the sub-object and of `object`.
///
/// # Errors
/// [`WriteRefusal::NotNow`] if the slow path has to be taken; nothing is changed then.
#[inline]
pub fn fast_write(object: &Object, offset: u64, buf: &[u8], mtime: u64) -> Result<(), WriteRefusal> {
    let index = object.folio_of(offset);
    let at = (offset & (object.folio_size() - 1)) as usize;
    if buf.is_empty() || at + buf.len() > object.folio_size() as usize {
        return Err(WriteRefusal::NotNow);
    }
    let Some(id) = object.pages().peek(index) else { return Err(WriteRefusal::NotNow) };
    let cell = object.slab().cell(id.index);
    let mut state = cell.lock();
    let touched = BlockSet::touching(at as u64, (at + buf.len()) as u64);
    let applies = cell.id(id.index) == id
        && !state.is_owned()
        && !state.is_freeing()
        && state.window.covers(touched)
        && state.in_flight().and(touched).is_empty();
    if !applies {
        return Err(WriteRefusal::NotNow);
    }
    let end = offset + buf.len() as u64;
    let eof = object.attrs().kms().saturating_sub(offset - at as u64);
    cell.write(&mut state, object.slab().backing(), at, buf, eof).map_err(|_| WriteRefusal::NotNow)?;
    // Raised under the folio's mutex: whoever revokes the lock comes after, and sees the size.
    // The sub-object first: whoever sees the file's new size finds it at the stripe too.
    match &state.sub {
        Some(sub) => {
            AttrCell::raise_both(&sub.attrs, sub.offset + (at + buf.len()) as u64, object.attrs(), end, mtime);
        }
        None => object.attrs().raise(end, mtime),
    }
    Ok(())
}
