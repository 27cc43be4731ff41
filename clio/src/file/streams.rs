//! The standard library's traits, at the file position that all clones share.

use super::File;
use clio_core::units::MAX_FILE_SIZE;
use clio_core::{Errno, Error, Result};
use std::io::{self, Read, Seek, SeekFrom, Write};

impl File {
    fn seek_to(&self, to: SeekFrom) -> Result<u64> {
        // First: another thread may have held the mutex at a fork.
        self.check_process()?;
        let mut position = self.inner.position.lock();
        let base = match to {
            SeekFrom::Start(at) => i128::from(at),
            SeekFrom::Current(by) => i128::from(*position) + i128::from(by),
            SeekFrom::End(by) => i128::from(self.metadata()?.len()) + i128::from(by),
        };
        let at = u64::try_from(base).ok().filter(|at| *at <= MAX_FILE_SIZE);
        let bad = || {
            let why = format!("position {base} is before the start or beyond 2^63 - 1; give one between");
            Error::new(Errno::EINVAL, "seek", why).on(self.fid())
        };
        let at = at.ok_or_else(bad)?;
        *position = at;
        Ok(at)
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // First: another thread may have held the mutex at a fork.
        self.check_process()?;
        let mut position = self.inner.position.lock();
        let n = self.read_at(buf, *position)?;
        *position += n as u64;
        Ok(n)
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        // First: another thread may have held the mutex at a fork.
        self.check_process()?;
        let mut position = self.inner.position.lock();
        if self.inner.append {
            let (n, at) = self.append_some(buf)?;
            *position = at + n as u64;
            return Ok(n);
        }
        let n = self.write_at(buf, *position)?;
        *position += n as u64;
        Ok(n)
    }

    /// Does nothing: data is visible to all clients once written. See [`File::sync_data`] for durability.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        Ok(self.seek_to(to)?)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
