//! Standard output, buffered; names that would play tricks on a terminal are escaped there.

use crate::report::Stop;
use crate::show;
use std::ffi::OsStr;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::unix::ffi::OsStrExt;

/// Standard output. What was written counts only after [`Output::finish`].
pub(crate) struct Output {
    to: BufWriter<Stdout>,
    terminal: bool,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { to: BufWriter::with_capacity(64 << 10, stdout), terminal }
    }

    /// Writes text and a newline.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Stop> {
        self.to.write_all(text.as_ref().as_bytes())?;
        Ok(self.to.write_all(b"\n")?)
    }

    /// Writes text without a newline.
    pub(crate) fn text(&mut self, text: impl AsRef<str>) -> Result<(), Stop> {
        Ok(self.to.write_all(text.as_ref().as_bytes())?)
    }

    /// Writes a name or path: as it is, or on a terminal with control characters escaped.
    pub(crate) fn name(&mut self, name: impl AsRef<OsStr>) -> Result<(), Stop> {
        match self.terminal {
            true => self.text(show::escaped(name.as_ref())),
            false => Ok(self.to.write_all(name.as_ref().as_bytes())?),
        }
    }

    /// Writes out what is buffered.
    pub(crate) fn finish(mut self) -> Result<(), Stop> {
        Ok(self.to.flush()?)
    }
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.to.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
