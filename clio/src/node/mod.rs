//! A store shared by the processes of a machine: its daemon, and how clients find or start it.

mod place;
mod serve;
mod start;

pub use clio_node::wire::{Figures, Status, TargetFigures};
pub use place::socket_of;
pub use serve::{Service, ServiceOptions, Stop};
pub(crate) use start::connect;
pub use start::program;

use clio_core::Result;
use clio_node::client::Connection;
use std::path::Path;
use std::sync::Arc;

/// A daemon that runs, to ask it about itself. It isn't started for that.
#[derive(Debug)]
pub struct Daemon(Arc<Connection>);

impl Daemon {
    /// The daemon that listens at the socket `path`, or serves the store in the folder `path`.
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV` if none runs; `EACCES` if it is another user's.
    pub fn at(path: &Path) -> Result<Daemon> {
        let socket = if path.is_dir() { socket_of(path)? } else { path.to_path_buf() };
        Connection::open(&socket, 0).map(Daemon)
    }

    /// How it is. Blocks.
    ///
    /// # Errors
    /// `EIO` if it is gone.
    pub fn status(&self) -> Result<Status> {
        self.0.status()
    }

    /// What it has counted. Blocks.
    ///
    /// # Errors
    /// As [`Daemon::status`].
    pub fn figures(&self) -> Result<Figures> {
        self.0.figures()
    }

    /// Ends it, for all its clients. Blocks until it has said that it will.
    ///
    /// # Errors
    /// `EIO` if it is gone.
    pub fn shut_down(&self) -> Result<()> {
        self.0.shut_down()
    }
}
