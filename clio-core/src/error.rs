//! The one error type: an errno, the operation, the object and the cause.

use crate::units::Fid;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Result of any fallible Clio operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error numbers that Clio gives, each with the value that the system uses for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
#[expect(missing_docs, reason = "each is the errno of that name")]
pub enum Errno {
    EPERM = 1,
    ENOENT = 2,
    EINTR = 4,
    EIO = 5,
    ENXIO = 6,
    E2BIG = 7,
    EBADF = 9,
    EAGAIN = 11,
    ENOMEM = 12,
    EACCES = 13,
    EFAULT = 14,
    EBUSY = 16,
    EEXIST = 17,
    EXDEV = 18,
    ENODEV = 19,
    ENOTDIR = 20,
    EISDIR = 21,
    EINVAL = 22,
    ENFILE = 23,
    EMFILE = 24,
    EFBIG = 27,
    ENOSPC = 28,
    EROFS = 30,
    EMLINK = 31,
    ERANGE = 34,
    EDEADLK = 35,
    ENAMETOOLONG = 36,
    ENOTEMPTY = 39,
    ELOOP = 40,
    ENODATA = 61,
    EPROTO = 71,
    EBADMSG = 74,
    EOVERFLOW = 75,
    EUSERS = 87,
    EOPNOTSUPP = 95,
    ETIMEDOUT = 110,
    EALREADY = 114,
    ESTALE = 116,
    EDQUOT = 122,
    ECANCELED = 125,
    ESHUTDOWN = 108,
}

impl Errno {
    const ALL: &'static [Errno] = {
        use Errno::*;
        &[
            EPERM,
            ENOENT,
            EINTR,
            EIO,
            ENXIO,
            E2BIG,
            EBADF,
            EAGAIN,
            ENOMEM,
            EACCES,
            EFAULT,
            EBUSY,
            EEXIST,
            EXDEV,
            ENODEV,
            ENOTDIR,
            EISDIR,
            EINVAL,
            ENFILE,
            EMFILE,
            EFBIG,
            ENOSPC,
            EROFS,
            EMLINK,
            ERANGE,
            EDEADLK,
            ENAMETOOLONG,
            ENOTEMPTY,
            ELOOP,
            ENODATA,
            EPROTO,
            EBADMSG,
            EOVERFLOW,
            EUSERS,
            EOPNOTSUPP,
            ETIMEDOUT,
            EALREADY,
            ESTALE,
            EDQUOT,
            ECANCELED,
            ESHUTDOWN,
        ]
    };

    /// The errno with this value; `EIO` for one that Clio has no name for.
    pub fn from_raw(raw: i32) -> Errno {
        Self::ALL.iter().copied().find(|e| *e as i32 == raw).unwrap_or(Errno::EIO)
    }

    /// The value that `errno` would hold.
    pub fn raw(self) -> i32 {
        self as i32
    }
}

/// What an error is about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Subject {
    /// Nothing in particular.
    #[default]
    None,
    /// An object or file by its FID.
    Fid(Fid),
    /// A path, as the caller gave it.
    Path(String),
}

/// An error: what failed, on what, why, and what to do about it.
///
/// It is one pointer wide and can be cloned, since a latched write error is reported to every open file.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    errno: Errno,
    op: &'static str,
    subject: Subject,
    detail: Cow<'static, str>,
    cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of operation `op`; `detail` is a sentence that says why and, where it helps, what to do.
    pub fn new(errno: Errno, op: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner { errno, op, subject: Subject::None, detail: detail.into(), cause: None }))
    }

    /// An error of the operating system, met while doing `op`.
    pub fn from_io(op: &'static str, e: std::io::Error) -> Self {
        let errno = e.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        let detail = e.to_string();
        Self::new(errno, op, detail).with_cause(e)
    }

    /// The same error, about the object `fid`, unless it already has a subject.
    pub fn on(mut self, fid: Fid) -> Self {
        if self.0.subject == Subject::None {
            Arc::make_mut(&mut self.0).subject = Subject::Fid(fid);
        }
        self
    }

    /// The same error, about `path`. A path replaces a FID: it is what the caller knows.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        if !matches!(self.0.subject, Subject::Path(_)) {
            Arc::make_mut(&mut self.0).subject = Subject::Path(path.into());
        }
        self
    }

    /// The same error with the error that caused it.
    pub fn with_cause(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.0).cause = Some(Arc::new(cause));
        self
    }

    /// The errno that a POSIX caller sees.
    pub fn errno(&self) -> Errno {
        self.0.errno
    }

    /// The operation that failed.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// What the error is about.
    pub fn subject(&self) -> &Subject {
        &self.0.subject
    }

    /// Why, and what to do.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The kind that `std::io` has for this errno, or that of the `std::io::Error` that caused it.
    pub fn kind(&self) -> std::io::ErrorKind {
        match self.0.cause.as_ref().and_then(|c| c.downcast_ref::<std::io::Error>()) {
            Some(cause) => cause.kind(),
            None => std::io::Error::from_raw_os_error(self.errno().raw()).kind(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.op)?;
        match &self.0.subject {
            Subject::None => {}
            Subject::Fid(fid) => write!(f, " {fid}")?,
            Subject::Path(p) => write!(f, " '{p}'")?,
        }
        write!(f, ": {} ({:?})", self.0.detail, self.0.errno)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|c| c as _)
    }
}

impl From<Error> for std::io::Error {
    /// Keeps the message; `raw_os_error` is lost by `std::io::Error`'s design, so use [`Error::errno`] first.
    fn from(e: Error) -> Self {
        std::io::Error::new(e.kind(), e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_on_what_and_why() {
        let e = Error::new(Errno::ENOSPC, "write", "target 2 is full; free space or add a target").on(Fid::new(1, 2));
        assert_eq!(e.to_string(), "write [0x1:0x2:0x0]: target 2 is full; free space or add a target (ENOSPC)");
        let e = e.at("/run/ckpt");
        assert_eq!(e.to_string(), "write '/run/ckpt': target 2 is full; free space or add a target (ENOSPC)");
        assert_eq!(e.kind(), std::io::ErrorKind::StorageFull);
    }

    #[test]
    fn errnos_have_the_systems_values() {
        for e in Errno::ALL {
            assert_eq!(Errno::from_raw(e.raw()), *e);
        }
        assert_eq!(Errno::from_raw(9999), Errno::EIO);
        let io = Error::from_io("open", std::io::Error::from_raw_os_error(13));
        assert_eq!(io.errno(), Errno::EACCES);
    }
}
