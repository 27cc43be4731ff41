//! A store shared by the processes of a machine: its daemon, and how clients find or start it.

mod place;
mod serve;
mod start;

pub use clio_node::wire::{Figures, Status, TargetFigures};
pub use place::socket_of;
pub use serve::{Service, ServiceOptions, Stop};
pub(crate) use start::connect;
pub use start::program;

use crate::client::check_origin;
use clio_arena::Origin;
use clio_core::Result;
use clio_node::client::Connection;
use std::path::Path;
use std::sync::Arc;

/// A daemon that runs, to ask it about itself. It isn't started for that. A child of fork gets `ESTALE` from its parent's.
#[derive(Debug)]
pub struct Daemon {
    connection: Arc<Connection>,
    origin: Origin,
}

impl Daemon {
    /// The daemon that listens at the socket `path`, or serves the store in the folder `path`.
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV` if none runs; `EACCES` if it is another user's.
    pub fn at(path: &Path) -> Result<Daemon> {
        let socket = if path.is_dir() { socket_of(path)? } else { path.to_path_buf() };
        let connection = Connection::open(&socket, 0)?;
        Ok(Daemon { connection, origin: Origin::here() })
    }

    /// How it is. Blocks.
    ///
    /// # Errors
    /// `EIO` if it is gone.
    pub fn status(&self) -> Result<Status> {
        self.connection()?.status()
    }

    /// What it has counted. Blocks.
    ///
    /// # Errors
    /// As [`Daemon::status`].
    pub fn figures(&self) -> Result<Figures> {
        self.connection()?.figures()
    }

    /// Ends it, for all its clients. Blocks until it has said that it will.
    ///
    /// # Errors
    /// `EIO` if it is gone.
    pub fn shut_down(&self) -> Result<()> {
        self.connection()?.shut_down()
    }

    fn connection(&self) -> Result<&Connection> {
        check_origin(self.origin)?;
        Ok(&self.connection)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // The parent's connection, which goes on.
            std::mem::forget(self.connection.clone());
        }
    }
}
