//! What the parts of a store were when it was last open: so that one that was set back to an older copy, or taken from
//! another store, is not taken for this one's.
//!
//! The file is a help, not a part of the store: without it, everything is accepted as it is. It is written without waiting
//! for the disk, after what it tells of was made durable, and so never tells of more than there is.

use clio_core::{Errno, Error, Result};
use clio_namespace::Namespace;
use clio_targets::{DirStore, DirTarget, Uuid};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file in a store's folder.
pub(super) const PARTS_FILE: &str = "clio-parts.json";

/// One target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Part {
    uuid: String,
    /// Of its last opening.
    epoch: u64,
}

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Content {
    targets: Vec<Part>,
    /// The epoch of the names that were last made durable.
    names: u64,
}

impl Content {
    /// Reads the file's text; `None` if it is damaged.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Parts {
    path: PathBuf,
    content: Content,
}

impl Parts {
    /// What is known of the parts of the store in folder `path`: nothing if the file is missing or can't be read.
    pub(super) fn read(path: &Path) -> Self {
        let unknown = Self::unknown(path);
        let content = fs::read(&unknown.path).ok().and_then(|text| Content::parse(&text));
        Self { content: content.unwrap_or_default(), ..unknown }
    }

    /// Of a new store.
    pub(super) fn unknown(path: &Path) -> Self {
        Self { path: path.join(PARTS_FILE), content: Content::default() }
    }

    /// Refuses the target `i` in the folder `path`, which is not open yet, if it is older than it was.
    ///
    /// # Errors
    /// `EBADMSG`.
    pub(super) fn check_age(&self, i: u16, path: &Path) -> Result<()> {
        let Some(part) = self.content.targets.get(usize::from(i)) else { return Ok(()) };
        match DirStore::last_epoch(path) {
            Some(epoch) if epoch < part.epoch => {
                Err(changed(&format!("target {i} is older than when it was last open: a copy of before")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a target that is another than it was.
    ///
    /// # Errors
    /// `EBADMSG`.
    pub(super) fn check_target(&self, i: u16, uuid: Uuid) -> Result<()> {
        match self.content.targets.get(usize::from(i)) {
            Some(part) if part.uuid != uuid.to_string() => {
                let was = &part.uuid;
                Err(changed(&format!("target {i} is {uuid}, and was {was} before: a folder of another store")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses names that are older than they were.
    ///
    /// # Errors
    /// `EBADMSG`.
    pub(super) fn check_names(&self, names: &Namespace) -> Result<()> {
        match names.epoch() < self.content.names {
            true => Err(changed(
                "the store's names are older than when it was last open: a copy of before, or their journal is damaged",
            )),
            false => Ok(()),
        }
    }

    /// Notes the targets as they are now.
    pub(super) fn targets_are(&mut self, dirs: &[Arc<DirTarget>]) {
        let part = |dir: &Arc<DirTarget>| {
            let store = dir.store();
            Part { uuid: store.uuid().to_string(), epoch: store.epoch() }
        };
        self.content.targets = dirs.iter().map(part).collect();
        self.write();
    }

    /// Notes that the names of `epoch` are durable.
    pub(super) fn names_are(&mut self, epoch: u64) {
        if self.content.names != epoch {
            self.content.names = epoch;
            self.write();
        }
    }

    /// On failure, the file stays as it was: it tells less.
    fn write(&self) {
        let fresh = self.path.with_extension("new");
        let write = || -> std::io::Result<()> {
            fs::write(&fresh, serde_json::to_vec_pretty(&self.content)?)?;
            fs::rename(&fresh, &self.path)
        };
        if let Err(e) = write() {
            tracing::warn!(error = %e, path = %self.path.display(), "the state of the store's parts could not be noted");
            let _ = fs::remove_file(&fresh);
        }
    }
}

/// A part that can't be trusted: `what`.
fn changed(what: &str) -> Error {
    let why = format!(
        "{what}; bring back the one that belongs here, or, to go on with it (files may have lost data, `clio check` tells \
         which), remove the file '{PARTS_FILE}'"
    );
    Error::new(Errno::EBADMSG, "open", why)
}
