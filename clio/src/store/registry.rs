//! Stores that this process has open: two clients of one store share it.

use super::{Store, check_targets};
use crate::config::Config;
use crate::uri::StoreUri;
use clio_arena::Origin;
use clio_core::sync::Mutex;
use clio_core::{Errno, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Mem(String),
    Dir(PathBuf),
    Node(PathBuf),
}

/// A store that this process, not one that it was forked from, has open, had, or is about to. Its mutex is held while the
/// store is opened: a second opener of the same store waits and gets the same; openers of others don't meet it.
type Entry = Arc<Mutex<Option<Weak<Store>>>>;

static OPEN: OnceLock<Mutex<HashMap<(Origin, Key), Entry>>> = OnceLock::new();

/// How long to wait for a store that this process is just closing, in steps of [`CLOSING_STEP`].
const CLOSING_STEPS: usize = 500;
const CLOSING_STEP: Duration = Duration::from_millis(10);

/// The store at `uri` if it is open, else what `make` makes. Stores without a name are never shared.
///
/// # Errors
/// What `make` says; `EINVAL` if the store is open, and has not as many targets as `uri` wants, or other settings of its own
/// than `config` asks for.
pub(super) fn shared(uri: &StoreUri, config: &Config, make: impl Fn() -> Result<Store>) -> Result<Arc<Store>> {
    let (key, wanted) = match uri {
        StoreUri::Mem { name, .. } if name.is_empty() => return make().map(Arc::new),
        StoreUri::Mem { name, targets } => (Key::Mem(name.clone()), *targets),
        StoreUri::Dir { path, targets } => (Key::Dir(resolved(path)), *targets),
        StoreUri::Node { path, targets } => (Key::Node(resolved(path)), *targets),
    };
    let entry = entry(key);
    let mut store = entry.lock();
    let closing = match store.as_ref().map(Weak::upgrade) {
        Some(Some(open)) => {
            if let Some(n) = wanted {
                check_targets(open.targets().len() as u16, n).map_err(|e| e.at(uri.to_string()))?;
            }
            open.settings.check(config).map_err(|e| e.at(uri.to_string()))?;
            return Ok(open);
        }
        Some(None) => true,
        None => false,
    };
    let mut made = make();
    for _ in 0..CLOSING_STEPS {
        match &made {
            Err(e) if closing && e.errno() == Errno::EBUSY => {
                std::thread::sleep(CLOSING_STEP);
                made = make();
            }
            _ => break,
        }
    }
    let made = Arc::new(made?);
    *store = Some(Arc::downgrade(&made));
    Ok(made)
}

/// The entry for `key`. It stays for good: of a store that closes, it is what tells that this process still has it.
fn entry(key: Key) -> Entry {
    OPEN.get_or_init(|| Mutex::new(HashMap::new())).lock().entry((Origin::here(), key)).or_default().clone()
}

/// One name for one folder, whatever links lead to it, and whether or not it exists yet.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut missing = Vec::new();
    for parent in path.ancestors() {
        if let Ok(real) = parent.canonicalize() {
            return missing.into_iter().rev().fold(real, |at: PathBuf, name| at.join(name));
        }
        missing.extend(parent.file_name());
    }
    path
}
