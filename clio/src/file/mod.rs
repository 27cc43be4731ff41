//! Open files.

mod lazy;
mod streams;

use crate::client::{Client, check_origin};
use crate::lazy::Lazy;
use crate::metadata::Metadata;
use crate::options::OpenOptions;
use clio_arena::Origin;
use clio_core::object::ObjectRef;
use clio_core::sync::Mutex;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::FileLayout;
use clio_vvp::{FileFlags, VvpFile};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, OnceLock};

/// An open file. Cheap to clone; clones share the file position, as dup(2) does.
///
/// Reads and writes go through the client's cache unless the file was opened `direct`. A write that returned is seen
/// by every later read, of any client. Data is durable after [`File::sync_all`] or [`File::sync_data`]; an error
/// of a write that had already returned is reported once, by the next of these or by [`File::close`].
#[derive(Clone)]
pub struct File {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped in this order: the handle, then the reference to the name, then the client.
    vvp: VvpFile,
    open: OpenRef,
    /// Of all clones. Held while one of them reads or writes at it, so that each gets a part of its own.
    position: Mutex<u64>,
    origin: Origin,
    read: bool,
    write: bool,
    append: bool,
    /// There from the first time on that the file is lazy.
    lazy: OnceLock<Lazy>,
    /// With O_DSYNC: the store's layout changes at the time of the last write that made names durable.
    names_synced: Option<AtomicU64>,
}

/// Keeps an unlinked file's objects alive.
struct OpenRef {
    client: Client,
    fid: Fid,
}

impl Drop for OpenRef {
    fn drop(&mut self) {
        self.client.inner().close_ref(self.fid);
    }
}

impl File {
    /// The caller has taken an open reference on the file's name, which is given back when the file goes, unless
    /// this fails.
    pub(crate) fn new(client: Client, object: ObjectRef, options: &OpenOptions) -> Result<File> {
        let fid = object.fid();
        let flags = FileFlags {
            append: options.append,
            direct: options.direct,
            dsync: options.dsync,
            demand: options.lock_demand,
        };
        let store = client.inner().store().clone();
        let vvp = VvpFile::open(object, flags)?.on_access(move |changed| crate::access::note(&store, fid, changed));
        let inner = Inner {
            vvp,
            open: OpenRef { client, fid },
            position: Mutex::new(0),
            origin: Origin::here(),
            read: options.read,
            write: options.writes(),
            append: options.append,
            lazy: OnceLock::new(),
            names_synced: options.dsync.then(|| AtomicU64::new(u64::MAX)),
        };
        let file = File { inner: Arc::new(inner) };
        if options.lazyio || file.inner.open.client.inner().forces_lazyio() {
            file.set_lazyio(true)?;
        }
        Ok(file)
    }

    /// Identity.
    pub fn fid(&self) -> Fid {
        self.inner.open.fid
    }

    /// Reads at `offset`; fewer bytes than asked for only at the end of file.
    ///
    /// # Errors
    /// `EBADF` if not open for reading, `EINVAL` beyond 2^63-1, what a target says.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.readable()?;
        match self.lazy().and_then(|lazy| lazy.read_at(buf, offset)) {
            Some(read) => read.map_err(|e| e.on(self.fid())),
            None => self.inner.vvp.read_at(buf, offset),
        }
    }

    /// Reads into several buffers in turn.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        self.readable()?;
        if self.lazy().is_none() {
            return self.inner.vvp.read_vectored_at(bufs, offset);
        }
        let mut done = 0;
        for buf in bufs {
            match self.read_at(buf, offset.saturating_add(done as u64)) {
                Ok(n) => {
                    done += n;
                    if n < buf.len() {
                        break;
                    }
                }
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Reads exactly `buf.len()` bytes.
    ///
    /// # Errors
    /// As [`File::read_at`]; `ENODATA`, of kind `UnexpectedEof`, if the file ends before.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            // A short result may come before an error, which only the next read tells.
            match self.read_at(&mut buf[done..], offset.saturating_add(done as u64))? {
                0 => {
                    let why = format!("the file ends {} bytes short", buf.len() - done);
                    let error = Error::new(Errno::ENODATA, "read", why).on(self.fid());
                    return Err(error.with_cause(io::Error::from(io::ErrorKind::UnexpectedEof)));
                }
                n => done += n,
            }
        }
        Ok(())
    }

    /// Writes at `offset` (at the end of file, if opened for append). Returns how many bytes; fewer than given only
    /// if an error came in the middle, which the next call meets again.
    ///
    /// # Errors
    /// `EBADF` if not open for writing; `EINVAL` for an offset beyond 2^63-1; `EFBIG` at 2^63-1, where files end, or at the
    /// end of the layout's last component; `ENOSPC`, what a target says.
    #[inline]
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        self.writable()?;
        if self.inner.append {
            return self.append_some(buf).map(|(n, _)| n);
        }
        match self.lazy().and_then(|lazy| lazy.write_at(buf, offset)) {
            Some(written) => self.durable(written.map_err(|e| e.on(self.fid()))),
            None => self.durable(self.inner.vvp.write_at(buf, offset)),
        }
    }

    /// Writes several buffers in turn, as one write.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<usize> {
        self.writable()?;
        if self.inner.append {
            let appended = self.durable(self.inner.vvp.append_vectored(bufs))?;
            self.changed(appended.1..appended.1 + appended.0 as u64)?;
            return Ok(appended.0);
        }
        if self.lazy().is_some() {
            // One write, which may be propagated in the middle as any may.
            let all: Vec<u8> = bufs.iter().flat_map(|b| b.iter().copied()).collect();
            return self.write_at(&all, offset);
        }
        self.durable(self.inner.vvp.write_vectored_at(bufs, offset))
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, mut buf: &[u8], mut offset: u64) -> Result<()> {
        while !buf.is_empty() {
            let n = self.write_at(buf, offset)?;
            if n == 0 {
                return Err(Error::new(Errno::EIO, "write", "nothing could be written").on(self.fid()));
            }
            buf = &buf[n..];
            offset += n as u64;
        }
        Ok(())
    }

    /// Writes at the end of file, atomically among all clients; returns the offset where the data went.
    ///
    /// # Errors
    /// As [`File::write_at`], also if only the first part could be appended: the message says how much of it stays.
    pub fn append(&self, buf: &[u8]) -> Result<u64> {
        self.writable()?;
        self.propagate_all()?;
        let at = self.durable(self.inner.vvp.append_all(buf))?;
        self.changed(at..at + buf.len() as u64)?;
        Ok(at)
    }

    /// Sets the size: what lies beyond is gone, what is added reads as zeros.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` beyond 2^63-1; `EFBIG` beyond the end of the layout's last component; what a target says.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.writable()?;
        self.propagate_all()?;
        self.inner.vvp.truncate(size)?;
        self.changed(size..u64::MAX)
    }

    /// Deallocates a range, which reads as zeros then; the size stays.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` for an offset beyond 2^63-1; what a target says.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.writable()?;
        self.propagate_all()?;
        self.inner.vvp.punch(offset, len)?;
        self.changed(offset..offset.saturating_add(len))
    }

    /// Makes all that was written durable, with the file's name and attributes. Blocks.
    ///
    /// # Errors
    /// What a target says; an error of an earlier write that nobody has been told through this file.
    pub fn sync_all(&self) -> Result<()> {
        self.check_process()?;
        let data = self.propagate_all().and(self.inner.vvp.fsync());
        data.and(self.inner.open.client.inner().store().sync_names())
    }

    /// Makes all that was written durable, and what is needed to read it back: here that is all that
    /// [`File::sync_all`] does, too. Targets sync times with the data, and name and layout share a journal. Blocks.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        self.sync_all()
    }

    /// Hands all dirty data to the targets, without asking for durability. Blocks.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn flush_data(&self) -> Result<()> {
        self.propagate_all()?;
        self.inner.vvp.flush()
    }

    /// The first byte of data at or after `offset`.
    ///
    /// # Errors
    /// `ENXIO` if there is none; `EINVAL` beyond 2^63-1.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        self.propagate_all()?;
        self.inner.vvp.seek_data(offset)
    }

    /// The first byte of a hole at or after `offset`; the end of file is one.
    ///
    /// # Errors
    /// `ENXIO` beyond the end of file; `EINVAL` beyond 2^63-1.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.propagate_all()?;
        self.inner.vvp.seek_hole(offset)
    }

    /// Attributes.
    ///
    /// # Errors
    /// What a target says.
    pub fn metadata(&self) -> Result<Metadata> {
        self.propagate_all()?;
        self.inner.open.client.metadata_of(self.fid())
    }

    /// The layout.
    ///
    /// # Errors
    /// `EBADMSG` if it is damaged.
    pub fn layout(&self) -> Result<FileLayout> {
        self.check_process()?;
        let client = &self.inner.open.client;
        FileLayout::decode(&client.inner().store().names().get_layout(self.fid())?).map_err(|e| e.on(self.fid()))
    }

    /// Closes the file and reports an error of an earlier write that nobody has been told through it. If clones
    /// remain, the file stays open for them. Dropping a file closes it too, and logs such an error.
    ///
    /// # Errors
    /// The first such error.
    pub fn close(self) -> Result<()> {
        self.check_process()?;
        let propagated = self.propagate_all();
        if let (Err(_), Some(lazy)) = (&propagated, self.inner.lazy.get()) {
            // This was the telling of it.
            lazy.drop_dirty();
        }
        let closed = self.inner.vvp.close();
        propagated.and(closed)
    }

    fn append_some(&self, buf: &[u8]) -> Result<(usize, u64)> {
        self.writable()?;
        self.propagate_all()?;
        let (n, at) = self.durable(self.inner.vvp.append(buf))?;
        self.changed(at..at + n as u64)?;
        Ok((n, at))
    }

    /// Under O_DSYNC, the layers have made the data of a write durable; to find it again takes the file's name and layout.
    #[inline]
    fn durable<T>(&self, written: Result<T>) -> Result<T> {
        match &self.inner.names_synced {
            Some(synced) if written.is_ok() => self.sync_names_once(synced).and(written),
            _ => written,
        }
    }

    fn sync_names_once(&self, synced: &AtomicU64) -> Result<()> {
        let store = self.inner.open.client.inner().store();
        let now = store.layout_changes();
        if synced.load(Ordering::Acquire) != now {
            store.sync_names().map_err(|e| e.on(self.fid()))?;
            synced.store(now, Ordering::Release);
        }
        Ok(())
    }

    #[inline]
    fn check_process(&self) -> Result<()> {
        check_origin(self.inner.origin)
    }

    #[inline]
    fn readable(&self) -> Result<()> {
        self.check_process()?;
        if self.inner.read { Ok(()) } else { Err(self.bad("the file is not open for reading")) }
    }

    #[inline]
    fn writable(&self) -> Result<()> {
        self.check_process()?;
        if self.inner.write { Ok(()) } else { Err(self.bad("the file is not open for writing")) }
    }

    #[cold]
    fn bad(&self, why: &'static str) -> Error {
        Error::new(Errno::EBADF, "io", why).on(self.fid())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.inner.origin.is_here() {
            // The parent has it open, not this process.
            std::mem::forget(self.inner.clone());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(Err(e)) = self.lazy.get().map(|lazy| lazy.propagate(crate::lazy::WHOLE)) {
            tracing::error!(fid = %self.open.fid, error = %e, "what was written lazily is lost: the file was dropped without close");
        }
        // What close has told is not told again.
        if let Err(e) = self.vvp.close() {
            tracing::error!(fid = %self.open.fid, error = %e, "a write failed, and the file was dropped without close");
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("fid", &self.fid()).finish_non_exhaustive()
    }
}
