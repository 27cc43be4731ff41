//! The daemon's side and the client's side together, over a real socket, in one process.

mod hostile;
mod names;
mod sessions;

use clio_core::sync::Mutex;
use clio_core::target::Target;
use clio_core::{Error, Result};
use clio_namespace::{Doomed, Namespace, NewNode};
use clio_node::client::{Connection, NodeTarget};
use clio_node::server::{Served, Server, Stop};
use clio_targets::conformance::Fixture;
use clio_targets::{MemOptions, MemTarget};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const ARENA: u64 = 64 << 20;

/// A store in memory, and what was done to it.
struct Store {
    targets: Vec<Arc<dyn Target>>,
    namespace: Namespace,
    destroyed: Mutex<Vec<Doomed>>,
    syncs: Syncs,
}

/// How often the store was made durable.
#[derive(Default)]
struct Syncs {
    /// Counted by those who ask for it, before they do.
    asked: AtomicUsize,
    /// How many had asked when the last one began, of those that are done.
    covered: AtomicUsize,
    /// What the next one says.
    error: Mutex<Option<Error>>,
}

impl Served for Store {
    fn targets(&self) -> &[Arc<dyn Target>] {
        &self.targets
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn destroy(&self, doomed: &Doomed) {
        self.destroyed.lock().push(doomed.clone());
        self.namespace.destroyed(doomed.fid).unwrap();
    }

    fn sync(&self) -> Result<()> {
        let asked = self.syncs.asked.load(Ordering::SeqCst);
        // Others ask meanwhile.
        std::thread::yield_now();
        self.syncs.covered.fetch_max(asked, Ordering::SeqCst);
        self.syncs.error.lock().take().map_or(Ok(()), Err)
    }
}

/// A service that runs until this goes.
struct Daemon {
    store: Arc<Store>,
    path: PathBuf,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Daemon {
        let target = Arc::new(MemTarget::in_memory(MemOptions::default()));
        Self::over(vec![target])
    }

    fn over(targets: Vec<Arc<dyn Target>>) -> Daemon {
        Self::next(targets, tempfile::tempdir().unwrap(), None)
    }

    /// Ends, and the next one serves the same targets in its place, with `patience` for the clients that hold locks.
    fn succeeded(mut self, patience: Duration) -> Daemon {
        self.end();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Self::next(self.store.targets.clone(), folder, Some(patience))
    }

    fn next(targets: Vec<Arc<dyn Target>>, folder: tempfile::TempDir, patience: Option<Duration>) -> Daemon {
        let path = folder.path().join("socket");
        // As whoever starts daemons does.
        let _ = std::fs::remove_file(&path);
        let namespace = Namespace::in_memory(&NewNode::new(0o755, 0, 0), 1).unwrap();
        let store = Arc::new(Store { targets, namespace, destroyed: Mutex::default(), syncs: Syncs::default() });
        let server = Server::bind(&path, store.clone()).unwrap();
        let server = match patience {
            Some(patience) => server.with_patience(patience),
            None => server,
        };
        let stop = server.stop();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Daemon { store, path, stop, thread, folder }
    }

    fn connect(&self) -> Arc<Connection> {
        Connection::open(&self.path, ARENA).unwrap()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

mod target {
    use super::*;

    fn fixture() -> Fixture {
        let target = Arc::new(MemTarget::in_memory(MemOptions::default()));
        let stats = target.clone();
        let daemon = Daemon::over(vec![target]);
        let target = NodeTarget::all(&daemon.connect()).pop().unwrap();
        Fixture { target, grants: Some(Box::new(move || stats.grants())), keep: Box::new(daemon) }
    }

    clio_targets::conformance_tests!(fixture);
}
