//! Clio: a coherent, striped, write-behind file store to embed.
//!
//! ```
//! let client = clio::Client::open("mem:?targets=4")?;
//! client.mkdir("/run")?;
//! let layout = clio::Layout::raid0().stripe_count(4).stripe_size(1 << 20);
//! let options = clio::OpenOptions::new().read(true).write(true).create(true).layout(layout);
//! let file = client.open_with("/run/ckpt.0", options)?;
//! file.write_all_at(b"state", 0)?;
//! file.sync_all()?;
//! let mut buf = [0; 5];
//! file.read_exact_at(&mut buf, 0)?;
//! assert_eq!(&buf, b"state");
//! # Ok::<(), clio::Error>(())
//! ```
//!
//! Everything here blocks the calling thread until it is done; [`Client`] and [`File`] may be shared by any number of
//! threads.

#![forbid(unsafe_code)]

mod access;
mod check;
mod client;
pub mod config;
mod file;
mod layout_source;
mod lazy;
mod metadata;
pub mod node;
mod options;
mod owner;
mod stack;
mod stats;
mod store;
mod uri;

pub use check::CheckReport;
pub use client::{Client, ClientBuilder, MakeLayer};
pub use clio_core::io::LockDemand;
pub use clio_core::units::Fid;
pub use clio_core::{Errno, Error, Result};
pub use clio_lov::layout::{Component, ComponentDescription, Description, FileLayout, Layout};
pub use clio_namespace::{Access, RenameMode, XattrMode};
pub use config::Config;
pub use file::File;
pub use metadata::{DirEntry, FileType, Metadata};
pub use options::OpenOptions;
pub use stats::{Cache, LockCounts, Stats, TargetStats};
pub use uri::StoreUri;

#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz {
    //! Decoders of what is stored, for fuzz targets.
    pub use crate::store::{StoreHeader, StoreParts};
}
