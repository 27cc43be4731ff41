//! Failures: what is said about them on stderr, and what ends a command early.

use crate::show;
use clio::{Errno, Error};
use clio_core::error::Subject;
use std::ffi::OsStr;
use std::io;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The arguments make no sense together: exit code 2.
    Usage(String),
    /// Something failed that everything else depends on: exit code 1.
    Failed {
        /// What it is about.
        item: String,
        /// Why.
        error: Error,
    },
    /// All has been said already: exit code 1.
    Said,
    /// Nobody reads standard output any more: nothing to say. What has failed by then still counts; a command whose
    /// outcome is more than that uses [`ended`].
    Pipe,
}

impl Stop {
    /// Something about `item` failed.
    pub(crate) fn on(item: impl AsRef<OsStr>, error: Error) -> Self {
        Stop::Failed { item: show::escaped(item.as_ref()), error }
    }
}

/// How a command ends whose outcome was known before it was `printed`: a closed pipe ends the output, and changes nothing
/// about the outcome.
pub(crate) fn ended(printed: Result<(), Stop>, good: bool) -> Result<(), Stop> {
    match printed {
        Ok(()) | Err(Stop::Pipe) if good => Ok(()),
        Ok(()) | Err(Stop::Pipe) => Err(Stop::Said),
        failed => failed,
    }
}

impl From<io::Error> for Stop {
    /// An error of writing to standard output.
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Stop::Pipe,
            _ => Stop::on("standard output", Error::from_io("write", e)),
        }
    }
}

/// The line about a failure: `clio: put 'x': why; what to do (ERRNO)`.
pub(crate) fn message(command: &str, item: &str, error: &Error) -> String {
    let mut why = error.detail().to_string();
    // An error about something else than the item, such as a target's folder, names it.
    if let Subject::Path(subject) = error.subject()
        && !names(item, subject)
    {
        why = format!("{} '{}': {why}", error.op(), show::escaped(OsStr::new(subject)));
    }
    if let Some(hint) = hint(error) {
        why = format!("{why}; {hint}");
    }
    format!("clio: {command} '{item}': {why} ({:?})", error.errno())
}

/// Whether `item`, a path or a store's URI, is the path `subject`.
fn names(item: &str, subject: &str) -> bool {
    let bare = item.strip_prefix("dir:").unwrap_or(item);
    [item, bare, bare.split('?').next().unwrap_or(bare)].contains(&subject)
}

/// What to do about an error whose own text doesn't say.
fn hint(error: &Error) -> Option<&'static str> {
    if error.detail().contains([';', ':']) {
        return None;
    }
    Some(match error.errno() {
        Errno::ENOENT => "check the path",
        Errno::EEXIST => "choose another name, or remove it first",
        Errno::EACCES | Errno::EPERM => "check the owner and permissions",
        Errno::EROFS => "remount it for writing, or choose a folder that can be written",
        Errno::ENOSPC | Errno::EDQUOT => "free space, or use a store with more",
        Errno::EISDIR => "name a file, or use -r",
        Errno::ENOTDIR => "a folder is needed there",
        Errno::ENOTEMPTY => "empty it first, or use -r",
        Errno::ENAMETOOLONG => "use a shorter path, with names of up to 255 bytes",
        Errno::ELOOP => "look for a symbolic link that leads back to itself",
        Errno::EIO | Errno::EBADMSG => "run 'clio check'",
        Errno::EMFILE | Errno::ENFILE => "raise the limit on open files (ulimit -n)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_failed_on_what_why_and_what_to_do() {
        let e = Error::new(Errno::ENOENT, "open", "no such file").at("/x");
        assert_eq!(message("cat", "/x", &e), "clio: cat '/x': no such file; check the path (ENOENT)");
        let e = Error::new(Errno::EROFS, "open target", "cannot be written").at("/s/target-0001");
        let expected = "clio: put '/x': open target '/s/target-0001': cannot be written; \
                        remount it for writing, or choose a folder that can be written (EROFS)";
        assert_eq!(message("put", "/x", &e), expected);
        let e = Error::new(Errno::EBUSY, "open", "in use: serve it").at("/s");
        assert_eq!(message("ls", "dir:/s", &e), "clio: ls 'dir:/s': in use: serve it (EBUSY)");
        assert_eq!(message("ls", "dir:/s?targets=2", &e), "clio: ls 'dir:/s?targets=2': in use: serve it (EBUSY)");
        assert_eq!(message("put", "a/s", &e), "clio: put 'a/s': open '/s': in use: serve it (EBUSY)");
    }

    #[test]
    fn a_broken_pipe_is_quiet() {
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::BrokenPipe)), Stop::Pipe));
        assert!(matches!(Stop::from(io::Error::from_raw_os_error(28)), Stop::Failed { .. }));
    }
}
