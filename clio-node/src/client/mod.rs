//! The client's side: a connection to the daemon, and the daemon's targets and names as if they were here.

mod bounce;
mod connection;
mod dial;
mod line;
mod link;
mod names;
mod recovery;
mod target;
mod xids;

pub use connection::Connection;
pub use dial::Starter;
pub use names::NodeNames;
pub use target::NodeTarget;
