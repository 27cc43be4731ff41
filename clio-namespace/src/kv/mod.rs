//! The few things the namespace asks of a store: point reads, ordered scans, one consistent view, atomic batches.
//!
//! Two implementations: fjall for stores on disk, ordered maps for stores in memory. All namespace logic is above
//! this line, so that what the tests show for the one holds for the other.

mod disk;
mod memory;

use clio_core::Result;
pub(crate) use disk::DiskKv;
pub(crate) use memory::MemoryKv;
use smallvec::SmallVec;
use std::fmt::Debug;
use std::ops::ControlFlow;

/// A value as the store holds it: shared, not copied.
pub(crate) type Value = fjall::Slice;

/// The key spaces of a namespace. The numbers index arrays and are no part of the format; the names are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// Store header, FID allocation, quarantined records.
    Meta,
    /// FID → inode.
    Inodes,
    /// Directory FID and name → entry.
    Entries,
    /// FID → orphan (unlinked but open) or doomed (objects to destroy).
    Unlinked,
    /// Client and xid → reply.
    Replies,
}

impl Space {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Space; 5] = [Space::Meta, Space::Inodes, Space::Entries, Space::Unlinked, Space::Replies];

    /// The name in the store.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Meta => "meta",
            Space::Inodes => "inodes",
            Space::Entries => "entries",
            Space::Unlinked => "unlinked",
            Space::Replies => "replies",
        }
    }
}

/// One change of a batch; `None` removes the key.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) space: Space,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// Changes that become visible together, and survive a crash together or not at all. Each key at most once.
#[derive(Debug, Default)]
pub(crate) struct Batch(SmallVec<[Change; 6]>);

impl Batch {
    pub(crate) fn put(&mut self, space: Space, key: impl Into<Vec<u8>>, value: Vec<u8>) {
        self.push(Change { space, key: key.into(), value: Some(value) });
    }

    pub(crate) fn remove(&mut self, space: Space, key: impl Into<Vec<u8>>) {
        self.push(Change { space, key: key.into(), value: None });
    }

    /// A later change of a key replaces the earlier one.
    fn push(&mut self, change: Change) {
        match self.0.iter_mut().find(|c| c.space == change.space && c.key == change.key) {
            Some(c) => *c = change,
            None => self.0.push(change),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_changes(self) -> impl Iterator<Item = Change> {
        self.0.into_iter()
    }
}

/// What a scan calls for each record: key and value, in ascending order of keys.
pub(crate) type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'v;

/// One consistent state of the store. Kept short: the memory store lets nobody write while one exists.
pub(crate) trait View {
    /// The value of `key`.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>>;

    /// Visits the records with `from <= key < to` (`None`: no upper end) until `visit` breaks.
    fn scan(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()>;
}

/// A store of records.
pub(crate) trait Kv: Send + Sync + Debug {
    /// The state as of now. A thread must drop its view before it commits or takes another.
    fn view(&self) -> Box<dyn View + '_>;

    /// Applies `batch`; when it returns, a kill of the process cannot undo it.
    fn commit(&self, batch: Batch) -> Result<()>;

    /// When it returns, a crash of the machine cannot undo what was committed before.
    fn sync(&self) -> Result<()>;
}

/// The first key after all keys that start with `prefix`; `None` if there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ends() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(prefix_end(&[255, 255]), None);
    }

    fn conforms(kv: &dyn Kv) {
        let mut batch = Batch::default();
        for name in ["b", "a", "c", "a"] {
            batch.put(Space::Entries, name, name.as_bytes().to_vec());
        }
        batch.put(Space::Meta, "a", b"meta".to_vec());
        kv.commit(batch).unwrap();
        let mut batch = Batch::default();
        batch.remove(Space::Entries, "b");
        kv.commit(batch).unwrap();
        kv.sync().unwrap();

        let view = kv.view();
        assert_eq!(view.get(Space::Meta, b"a").unwrap().as_deref(), Some(&b"meta"[..]));
        assert_eq!(view.get(Space::Entries, b"b").unwrap(), None);
        let seen = |from: &[u8], to: Option<&[u8]>, stop: usize| {
            let mut keys = Vec::new();
            view.scan(Space::Entries, from, to, &mut |k, v| {
                assert_eq!(k, v);
                keys.push(String::from_utf8_lossy(k).into_owned());
                Ok(if keys.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
            .unwrap();
            keys.concat()
        };
        assert_eq!(seen(b"", None, 9), "ac");
        assert_eq!(seen(b"", None, 1), "a");
        assert_eq!(seen(b"b", None, 9), "c");
        assert_eq!(seen(b"a", Some(b"c"), 9), "a");
        assert_eq!(seen(b"d", Some(b"c"), 9), "");
    }

    #[test]
    fn both_stores_conform() {
        conforms(&MemoryKv::default());
        let dir = tempfile::tempdir().unwrap();
        conforms(&DiskKv::open(dir.path()).unwrap());
    }
}
