//! The daemon's half: an open store, served.

use super::place::socket_of;
use crate::config::Config;
use crate::store::Store;
use crate::uri::StoreUri;
use clio_core::target::Target;
use clio_core::{Errno, Error, Result};
use clio_namespace::{Doomed, Namespace};
use clio_node::server::{Served, Server};
use clio_node::wire::TargetFigures;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use clio_node::server::Stop;

/// How a store is served.
#[derive(Clone, Debug, Default)]
pub struct ServiceOptions {
    /// Where to listen; the store's own place in the runtime folder, where none is given.
    pub socket: Option<PathBuf>,
    /// Ends the service once it has had no client for this long.
    pub idle_exit: Option<Duration>,
}

/// A store that this process serves. It listens from [`Service::open`] on, and serves in [`Service::run`].
#[derive(Debug)]
pub struct Service {
    server: Server,
    socket: PathBuf,
}

impl Service {
    /// Opens the store, which is made if it doesn't exist, and listens. Only one process has a store open, so that of
    /// several that try at once one serves.
    ///
    /// # Errors
    /// `EBUSY` if another process has the store open; what else opening it gives; what the socket's place gives.
    pub fn open(store: &str, config: &Config, options: &ServiceOptions) -> Result<Service> {
        let (path, targets) = match store.parse()? {
            StoreUri::Dir { path, targets } => (path, targets),
            StoreUri::Node { path, targets } if !is_socket(&path) => (path, targets),
            _ => {
                let why = "a daemon serves a store in a folder; name that";
                return Err(Error::new(Errno::EINVAL, "serve", why).at(store));
            }
        };
        let store = Store::open_to_serve(&StoreUri::Dir { path: path.clone(), targets }, config)?;
        let socket = options.socket.clone().map_or_else(|| socket_of(&path), Ok)?;
        // The store's lock is held: a socket that is there is what an earlier daemon left.
        if is_socket(&socket) {
            fs::remove_file(&socket).map_err(|e| Error::from_io("serve", e).at(socket.display().to_string()))?;
        }
        let namespace = store.local()?.namespace.clone();
        if let Some(lock) = &store.local()?.lock {
            lock.is_served(options.socket.as_deref());
        }
        let mut server = Server::bind(&socket, Arc::new(ServedStore { store, namespace }))?;
        let private = fs::set_permissions(&socket, fs::Permissions::from_mode(0o600));
        private.map_err(|e| Error::from_io("serve", e).at(socket.display().to_string()))?;
        if let Some(after) = options.idle_exit {
            server = server.with_idle_exit(after);
        }
        tracing::info!(target: "clio::node", socket = %socket.display(), "serving");
        Ok(Service { server, socket })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What ends [`Service::run`].
    pub fn stop(&self) -> Stop {
        self.server.stop()
    }

    /// Serves until told to stop, or idle for long enough; then the store is closed. Blocks.
    ///
    /// # Errors
    /// What keeps the service from going on.
    pub fn run(self) -> Result<()> {
        let Service { server, socket } = self;
        let served = server.run();
        // The store is still open, so that no other daemon can have put its own there. Where it can't be removed, the next
        // daemon does.
        let _ = fs::remove_file(&socket);
        served
    }
}

struct ServedStore {
    store: Arc<Store>,
    namespace: Arc<Namespace>,
}

impl Served for ServedStore {
    fn targets(&self) -> &[Arc<dyn Target>] {
        self.store.targets()
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn destroy(&self, doomed: &Doomed) {
        self.store.destroy(doomed);
    }

    fn sync(&self) -> Result<()> {
        self.store.sync()
    }

    fn tick(&self) {
        if let Err(e) = self.store.sync_names() {
            tracing::error!(target: "clio::node", error = %e, "names could not be made durable");
        }
    }

    fn figures(&self) -> Vec<TargetFigures> {
        let held = self.store.local().map(|local| local.held()).unwrap_or_default();
        let spaces = self.store.target_space();
        let figures = held.into_iter().zip(spaces.all()).map(|((locks, promised_bytes), space)| TargetFigures {
            target: locks.target,
            locks_granted: locks.granted,
            locks_waiting: locks.waiting,
            promised_bytes,
            total_bytes: space.total,
            free_bytes: space.free,
            ..TargetFigures::default()
        });
        figures.collect()
    }

    fn recovered(&self) {
        if let Err(e) = self.store.reclaim() {
            tracing::error!(target: "clio::node", error = %e, "files that nobody has open any more stay");
        }
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|m| m.file_type().is_socket())
}
