//! The commands, one in each file.

pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod df;
pub(crate) mod du;
pub(crate) mod format;
pub(crate) mod get;
pub(crate) mod getstripe;
pub(crate) mod ln;
pub(crate) mod ls;
pub(crate) mod mkdir;
pub(crate) mod mv;
pub(crate) mod params;
pub(crate) mod put;
pub(crate) mod rm;
pub(crate) mod serve;
pub(crate) mod setstripe;
pub(crate) mod shutdown;
pub(crate) mod stat;
pub(crate) mod stats;
pub(crate) mod status;
mod striping;
pub(crate) mod top;
