//! Copying trees between places: the local file system and the store.
//!
//! A transfer is planned first, by a walk over its sources, and carried out then: so the total is known to the
//! progress bar, and a tree that is copied into itself doesn't grow meanwhile.

mod copy;
mod local;
mod place;
mod plan;
mod progress;
mod run;
mod stored;

pub(crate) use copy::copy_stream;
pub(crate) use local::Local;
pub(crate) use place::{Kind, Place};
pub(crate) use plan::{Plan, destinations};
pub(crate) use progress::Progress;
pub(crate) use run::run;
pub(crate) use stored::Stored;
