//! Copying the data of one file.

use super::place::{Sink, Source};
use super::progress::Progress;
use clio::{Error, Result};
use std::io::{self, Read};

/// Bytes moved at a time: a few stripe units, so that several targets have work at once.
const CHUNK: usize = 4 << 20;

/// The memory that one thread copies through.
pub(super) struct Buffer(Box<[u8]>);

impl Buffer {
    pub(super) fn new() -> Self {
        Self(vec![0; CHUNK].into_boxed_slice())
    }
}

/// Copies all data of `from` to the empty file `to`, which is closed then. Holes stay holes.
pub(super) fn copy_file(from: &dyn Source, to: Box<dyn Sink>, buffer: &mut Buffer, progress: &Progress) -> Result<()> {
    match copy_data(from, to.as_ref(), &mut buffer.0, progress) {
        Ok(size) => to.finish(size),
        Err(e) => {
            to.abandon();
            Err(e)
        }
    }
}

/// Returns the size that the copy shall have.
fn copy_data(from: &dyn Source, to: &dyn Sink, buf: &mut [u8], progress: &Progress) -> Result<u64> {
    let size = from.size()?;
    let mut at = 0;
    while let Some(range) = from.data_after(at)? {
        progress.add(range.start - at);
        at = range.start;
        while at < range.end {
            let want = usize::try_from(range.end - at).map_or(buf.len(), |n| n.min(buf.len()));
            let n = from.read_at(&mut buf[..want], at)?;
            if n == 0 {
                // The file ends here: it has become shorter, or never had a known size.
                return Ok(at);
            }
            to.write_all_at(&buf[..n], at)?;
            progress.add(n as u64);
            at += n as u64;
        }
    }
    progress.add(size.saturating_sub(at));
    Ok(size.max(at))
}

/// Copies what comes out of `from`, until it ends, to the empty file `to`, which is closed then.
pub(crate) fn copy_stream(from: &mut dyn Read, to: Box<dyn Sink>, progress: &Progress) -> Result<()> {
    let mut buffer = Buffer::new();
    match stream_data(from, to.as_ref(), &mut buffer.0, progress) {
        Ok(size) => to.finish(size),
        Err(e) => {
            to.abandon();
            Err(e)
        }
    }
}

fn stream_data(from: &mut dyn Read, to: &dyn Sink, buf: &mut [u8], progress: &Progress) -> Result<u64> {
    let mut at = 0;
    loop {
        let n = match from.read(buf) {
            Ok(0) => return Ok(at),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::from_io("read", e)),
        };
        to.write_all_at(&buf[..n], at)?;
        progress.add(n as u64);
        at += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio::Errno;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::ops::Range;
    use std::rc::Rc;

    /// A file in memory with holes where `data` doesn't say otherwise.
    struct Sparse {
        bytes: Vec<u8>,
        data: Vec<Range<u64>>,
    }

    impl Source for Sparse {
        fn size(&self) -> Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>> {
            Ok(self.data.iter().find(|r| r.end > offset).map(|r| r.start.max(offset)..r.end))
        }

        fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
            let rest = self.bytes.get(offset as usize..).unwrap_or_default();
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }
    }

    #[derive(Default)]
    struct Log {
        bytes: Vec<u8>,
        written: u64,
        finished: Option<u64>,
        abandoned: bool,
    }

    struct Recorder(Rc<RefCell<Log>>, bool);

    impl Sink for Recorder {
        fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
            if self.1 {
                return Err(Error::new(Errno::ENOSPC, "write", "full"));
            }
            let mut log = self.0.borrow_mut();
            let end = offset as usize + buf.len();
            let size = log.bytes.len().max(end);
            log.bytes.resize(size, 0);
            log.bytes[offset as usize..end].copy_from_slice(buf);
            log.written += buf.len() as u64;
            Ok(())
        }

        fn finish(self: Box<Self>, size: u64) -> Result<()> {
            let mut log = self.0.borrow_mut();
            log.bytes.resize(size as usize, 0);
            log.finished = Some(size);
            Ok(())
        }

        fn abandon(self: Box<Self>) {
            self.0.borrow_mut().abandoned = true;
        }
    }

    proptest! {
        #[test]
        fn a_copy_is_equal_and_writes_only_data(
            pieces in proptest::collection::vec((0u64..5000, 1u64..5000), 0..6),
            tail in 0u64..5000,
        ) {
            let (mut data, mut at) = (Vec::new(), 0);
            for (gap, len) in pieces {
                data.push(at + gap..at + gap + len);
                at += gap + len;
            }
            let mut bytes = vec![0; (at + tail) as usize];
            for r in &data {
                (r.start..r.end).for_each(|i| bytes[i as usize] = (i % 251 + 1) as u8);
            }
            let from = Sparse { bytes: bytes.clone(), data: data.clone() };
            let log = Rc::new(RefCell::new(Log::default()));
            let mut buffer = Buffer(vec![0; 777].into_boxed_slice());
            copy_file(&from, Box::new(Recorder(log.clone(), false)), &mut buffer, &Progress::new(0)).unwrap();
            let log = log.borrow();
            prop_assert_eq!(&log.bytes, &bytes);
            prop_assert_eq!(log.finished, Some(bytes.len() as u64));
            prop_assert_eq!(log.written, data.iter().map(|r| r.end - r.start).sum::<u64>());
        }
    }

    #[test]
    fn a_failed_copy_is_abandoned_not_finished() {
        let log = Rc::new(RefCell::new(Log::default()));
        let sink = Box::new(Recorder(log.clone(), true));
        let e = copy_stream(&mut &b"data"[..], sink, &Progress::new(0)).unwrap_err();
        assert_eq!(e.errno(), Errno::ENOSPC);
        assert!(log.borrow().abandoned && log.borrow().finished.is_none());
    }
}
