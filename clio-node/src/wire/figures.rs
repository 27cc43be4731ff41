//! What a daemon counts.

use super::Status;
use serde::{Deserialize, Serialize};

/// A daemon's figures: since it started, where they don't say "now".
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// How it is.
    pub status: Status,
    /// Files that are open now, by whichever client.
    pub open_files: u64,
    /// Requests taken, by kind.
    pub requests: Vec<(String, u64)>,
    /// Each target's, in order of their indices.
    pub targets: Vec<TargetFigures>,
}

/// A target's figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TargetFigures {
    /// Its index.
    pub target: u16,
    /// Bytes that clients asked to read.
    pub read_bytes: u64,
    /// Bytes that clients asked to write.
    pub written_bytes: u64,
    /// Locks held now.
    pub locks_granted: u64,
    /// Requests that wait for a lock now.
    pub locks_waiting: u64,
    /// Space promised to clients for what they have yet to write out, now, in bytes.
    pub promised_bytes: u64,
    /// Its size, in bytes.
    pub total_bytes: u64,
    /// What is free of it now, in bytes.
    pub free_bytes: u64,
}
