//! How a file is opened.

use clio_core::io::LockDemand;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::Layout;
use clio_namespace::Access;

/// Options of [`Client::open_with`](crate::Client::open_with): those of `std::fs::OpenOptions`, and Clio's own.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) direct: bool,
    pub(crate) dsync: bool,
    pub(crate) lazyio: bool,
    pub(crate) mode: u32,
    pub(crate) lock_demand: LockDemand,
    pub(crate) layout: Option<Layout>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! switch {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, on: bool) -> Self {
            self.$name = on;
            self
        }
    )*};
}

impl OpenOptions {
    /// Nothing set: at least one of read, write and append has to be.
    pub fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            direct: false,
            dsync: false,
            lazyio: false,
            mode: 0o666,
            lock_demand: LockDemand::Maybe,
            layout: None,
        }
    }

    switch! {
        /// For reading.
        read
        /// For writing.
        write
        /// Every write goes to the end of file, atomically among all clients.
        append
        /// Cut to nothing; needs write.
        truncate
        /// Make the file if it doesn't exist.
        create
        /// Make the file, and fail with `EEXIST` if it exists.
        create_new
        /// Bypass the cache. Any offset, length and buffer will do.
        direct
        /// A write returns when its data is durable (O_DSYNC).
        dsync
        /// The program sees to coherence itself: see [`File::set_lazyio`](crate::File::set_lazyio).
        lazyio
    }

    /// Permission bits of a file that is made; the default is 0o666. There is no umask in Clio.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// How much coherence with other clients this file's IO asks for.
    pub fn lock_demand(mut self, demand: LockDemand) -> Self {
        self.lock_demand = demand;
        self
    }

    /// Layout of a file that is made; the default is that of its directory, or of the client.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    pub(crate) fn writes(&self) -> bool {
        self.write || self.append
    }

    /// What the caller must have a right to, of a file that is there.
    pub(crate) fn access(&self) -> Access {
        let read = if self.read { Access::READ } else { Access::NONE };
        if self.writes() { read | Access::WRITE } else { read }
    }

    pub(crate) fn makes(&self) -> bool {
        self.create || self.create_new
    }

    /// The rules of `std::fs::OpenOptions`.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |why| Err(Error::new(Errno::EINVAL, "open", why));
        if !self.read && !self.writes() {
            return bad("none of read, write and append is set");
        }
        if self.truncate && (!self.write || self.append) {
            return bad("truncate needs write, and excludes append");
        }
        if self.makes() && !self.writes() {
            return bad("create needs write or append");
        }
        Ok(())
    }
}
