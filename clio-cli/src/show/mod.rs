//! How things are shown to people and programs.

pub(crate) mod figures;
mod name;
mod owner;
mod record;
mod size;
mod time;

pub(crate) use name::{JsonName, escaped};
pub(crate) use owner::Owners;
pub(crate) use record::{FileRecord, mode_text};
pub(crate) use size::{Human, exact, human};
pub(crate) use time::{full, short};
