//! Stores that this process has open: two clients of one store share it.

use super::Store;
use crate::uri::StoreUri;
use clio_core::sync::Mutex;
use clio_core::{Errno, Result};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Mem(String),
    Dir(PathBuf),
}

static OPEN: OnceLock<Mutex<HashMap<Key, Weak<Store>>>> = OnceLock::new();

/// How long to wait for a store that this process is just closing, in steps of [`CLOSING_STEP`].
const CLOSING_STEPS: usize = 500;
const CLOSING_STEP: Duration = Duration::from_millis(10);

/// The store at `uri` if it is open, else what `make` makes. Stores without a name are never shared.
pub(super) fn shared(uri: &StoreUri, make: impl Fn() -> Result<Store>) -> Result<Arc<Store>> {
    let key = match uri {
        StoreUri::Mem { name, .. } if name.is_empty() => return make().map(Arc::new),
        StoreUri::Mem { name, .. } => Key::Mem(name.clone()),
        StoreUri::Dir { path, .. } => Key::Dir(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
    };
    // Held while the store is made: a second opener waits, and gets the same.
    let mut open = OPEN.get_or_init(|| Mutex::new(HashMap::new())).lock();
    let closing = match open.get(&key).map(Weak::upgrade) {
        Some(Some(store)) => return Ok(store),
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
    let store = Arc::new(made?);
    open.insert(key, Arc::downgrade(&store));
    Ok(store)
}
