//! A store to do damage to, and checks of what is said about it.

use crate::{narrow, pattern, read_write};
use clio::{Client, Errno, Result};
use clio_targets::conformance::pretend_reboot;
use std::fs;
use std::path::PathBuf;

/// Checks the errno, and that the message has all of `words`.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T>, errno: Errno, words: &[&str]) {
    let e = result.expect_err("an error");
    let text = e.to_string();
    assert_eq!(e.errno(), errno, "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is missing in: {text}");
    }
}

/// A store of two targets with one file of two stripes, and places to copy it to.
pub struct Stored {
    /// The store is the folder `store` in it.
    pub dir: tempfile::TempDir,
}

/// Bytes of the file `/f`, which is `pattern(1, 0, LEN)`.
pub const LEN: usize = 300_000;

impl Stored {
    /// Made, and closed.
    #[expect(clippy::new_without_default, reason = "it does I/O")]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("tempdir");
        let client = Client::open(&format!("dir:{}?targets=2", dir.path().join("store").display())).expect("open");
        let file = client.open_with("/f", read_write().layout(narrow(2))).expect("create");
        file.write_all_at(&pattern(1, 0, LEN), 0).expect("write");
        file.sync_all().expect("sync");
        drop(file);
        drop(client);
        Self { dir }
    }

    /// Its folder.
    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The files of objects on the first target: data, or checksums.
    pub fn objects(&self, sums: bool) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.store().join("target-0000/objects")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).expect("read_dir") {
                let path = entry.expect("entry").path();
                match path.is_dir() {
                    true => dirs.push(path),
                    false if path.extension().is_some() == sums => found.push(path),
                    false => {}
                }
            }
        }
        assert!(!found.is_empty());
        found
    }

    /// As if all that the store holds had been written under another boot of the machine.
    pub fn pretend_reboot(&self) {
        for n in 0..2 {
            pretend_reboot(&self.store().join(format!("target-{n:04}"))).expect("state");
        }
    }
}
