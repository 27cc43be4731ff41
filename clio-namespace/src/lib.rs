//! Names, directories, attributes and layouts: the metadata of a store, without its data.
//!
//! A [`Namespace`] maps paths to [`Inode`]s and keeps for every file the layout that says where its data lies; the
//! data itself, and the true size of a file, are the objects' business. It lives in a folder (a fjall database) or
//! in memory.
//!
//! # Guarantees
//! - Every operation is one atomic batch. When it has returned, a kill of the process cannot undo it; after
//!   [`Namespace::sync`] a crash of the machine cannot.
//! - Names go first, objects after: what an unlink leaves to be destroyed is remembered
//!   ([`Namespace::to_destroy`]) until the caller says that it is done ([`Namespace::destroyed`]). A crash leaves
//!   objects without a name, never a name without its objects.
//! - FIDs are never used twice.
//! - An operation that carries an [`OpId`] runs once, however often it is sent.
//! - What a [`Caller`] may not do by modes, owners and groups is refused, as by Linux. An operation without a caller is the
//!   superuser's.
//!
//! # What is deliberately absent
//! - A clock: each operation is told the time, so that a run can be repeated exactly.
//! - "." and ".." as entries: they exist in paths only.

mod by_path;
mod caller;
mod check;
mod fids;
mod kv;
mod limits;
mod names;
mod namespace;
mod opened;
mod ops;
mod path;
mod record;
mod records;
mod repair;
mod replies;
pub mod rules;
mod txn;
mod user_names;

pub use by_path::PathAt;
pub use caller::{Access, Caller};
pub use check::{Finding, Report};
pub use limits::*;
pub use names::Names;
pub use namespace::{Namespace, OpCtx, OpId};
pub use opened::Opened;
pub use ops::attr::SetAttr;
pub use ops::create::{IfExists, NewNode};
pub use ops::read::DirEntry;
pub use ops::rename::RenameMode;
pub use ops::xattr::XattrMode;
pub use path::{Last, Parent};
pub use record::{Doomed, Entry, FORMAT_VERSION, Inode, Kind, Removed};
#[doc(hidden)]
pub use record::{Reply, StoreHeader, Unlinked};
pub use user_names::UserNames;
