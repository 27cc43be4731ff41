//! Records in ordered maps, for stores that live as long as the process.

use super::{Batch, Kv, Space, Value, View, Visit};
use clio_core::Result;
use clio_core::sync::RwLock;
use std::collections::BTreeMap;
use std::ops::{Bound, Deref};

type Maps = [BTreeMap<Vec<u8>, Value>; Space::ALL.len()];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryKv(RwLock<Maps>);

/// Holds the maps locked for reading: that makes it consistent.
struct MemoryView<G>(G);

impl<G: Deref<Target = Maps>> View for MemoryView<G> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.0[space as usize].get(key).cloned())
    }

    fn scan(&self, space: Space, from: &[u8], to: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        if to.is_some_and(|to| to <= from) {
            return Ok(()); // the map panics on a range that ends before it starts
        }
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, value) in self.0[space as usize].range::<[u8], _>((Bound::Included(from), to)) {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Kv for MemoryKv {
    fn view(&self) -> Box<dyn View + '_> {
        Box::new(MemoryView(self.0.read()))
    }

    fn commit(&self, batch: Batch) -> Result<()> {
        let mut maps = self.0.write();
        for change in batch.into_changes() {
            let map = &mut maps[change.space as usize];
            match change.value {
                Some(value) => drop(map.insert(change.key, Value::from(value))),
                None => drop(map.remove(&change.key)),
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
