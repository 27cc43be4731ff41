//! Finding a store's daemon, or starting it.

use super::place::socket_of;
use clio_core::{Errno, Error, Result};
use clio_node::client::{Connection, Starter};
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Names the daemon's program.
const VARIABLE: &str = "CLIO_CLIOD";
/// A connection to the daemon at `path`: a socket, where one must listen; or a store's folder, whose daemon is started
/// where none runs, now or later. A folder that doesn't exist is made. Blocks.
///
/// # Errors
/// `ENODEV` if nobody listens at a socket; `EBUSY` if another process has the store open and doesn't serve it; what the
/// daemon says when it can't start.
pub(crate) fn connect(path: &Path, targets: Option<u16>, arena_bytes: u64) -> Result<Arc<Connection>> {
    if path.exists() && !path.is_dir() {
        return Connection::open(path, arena_bytes);
    }
    fs::create_dir_all(path).map_err(|e| Error::from_io("open", e).at(path.display().to_string()))?;
    let folder = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let starter = Arc::new(OnDemand { folder, targets });
    Connection::open_or_start(&socket_of(path)?, starter, arena_bytes)
}

/// Starts a store's daemon.
struct OnDemand {
    folder: PathBuf,
    targets: Option<u16>,
}

impl Starter for OnDemand {
    fn start(&self, anyway: bool) -> Result<()> {
        // Of many clients whose daemon has died, one starts the next. The runtime folder may be gone, too.
        let turn = socket_of(&self.folder)?.with_extension("start");
        let at = |e: std::io::Error| Error::from_io("start", e).at(turn.display().to_string());
        let turn = fs::File::create(&turn).map_err(at)?;
        match turn.try_lock() {
            Err(fs::TryLockError::WouldBlock) if !anyway => {
                return Err(Error::new(Errno::EAGAIN, "start", "another process starts the daemon"));
            }
            Err(fs::TryLockError::Error(e)) => return Err(at(e)),
            _ => {}
        }
        start(&self.folder, self.targets).map_err(|e| e.at(self.folder.display().to_string()))
    }
}

/// Starts a daemon and waits until it listens.
///
/// # Errors
/// `EBUSY` if another process has the store open; `ENOENT` if there is no such program; what the daemon says.
fn start(folder: &Path, targets: Option<u16>) -> Result<()> {
    let program = program();
    let mut command = Command::new(&program);
    command.arg("--store").arg(store_uri(folder, targets)).arg("--on-demand");
    // It outlives this process: it is nobody's job, and its output is nobody's but its first line's.
    command.process_group(0).current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| {
        let why = format!("the store's daemon can't be started ({e}); install cliod, or set {VARIABLE}");
        Error::new(Errno::from_raw(e.raw_os_error().unwrap_or(0)), "start", why).at(program.display().to_string())
    })?;
    let mut said = String::new();
    let heard = child.stdout.take().map_or(Ok(0), |mut out| out.read_to_string(&mut said));
    heard.map_err(|e| Error::from_io("start", e))?;
    // It has said what it had to say: "ready", or why not, with the errno first.
    match said.trim().split_once(' ') {
        None if said.trim() == "ready" => {
            reap_later(child);
            Ok(())
        }
        said => {
            let _ = child.wait();
            let Some((errno, why)) = said else {
                // It was killed, perhaps: another one may do better.
                return Err(Error::new(Errno::EAGAIN, "start", "the store's daemon ended before it listened"));
            };
            Err(Error::new(Errno::from_raw(errno.parse().unwrap_or(0)), "start", why.to_string()))
        }
    }
}

/// The daemon must not stay as a zombie of a process that outlives it, nor may anybody wait for it.
fn reap_later(mut child: std::process::Child) {
    let thread = std::thread::Builder::new().name("clio-reap".into()).stack_size(64 << 10);
    // Without a thread, it is init's to reap when this process goes.
    let _ = thread.spawn(move || child.wait());
}

fn store_uri(folder: &Path, targets: Option<u16>) -> OsString {
    let mut uri = OsString::from("dir:");
    uri.push(folder);
    if let Some(n) = targets {
        uri.push(format!("?targets={n}"));
    }
    uri
}

/// The daemon's program: the one that `CLIO_CLIOD` names, or the one beside this program, or the one on the path.
pub fn program() -> PathBuf {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        return named.into();
    }
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("cliod")));
    beside.filter(|p| p.is_file()).unwrap_or_else(|| "cliod".into())
}
