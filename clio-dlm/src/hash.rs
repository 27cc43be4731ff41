//! Hashes for the maps on the way of every request.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// Map keyed by handles or client ids. Nobody outside chooses these, so a strong hash would be wasted on them.
pub(crate) type IdMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<IdHasher>>;
/// Set of client ids.
pub(crate) type IdSet<K> = std::collections::HashSet<K, BuildHasherDefault<IdHasher>>;

/// Multiplicative hash of one `u64`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    fn write_u64(&mut self, n: u64) {
        // The table takes its bits from both ends of the hash; the product mixes upwards only, so fold it.
        let product = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Keys of [`KeyedHasher`]: clients choose FIDs, so they must not be able to choose colliding ones.
#[derive(Clone, Debug)]
pub(crate) struct KeyedState([u64; 2]);

impl Default for KeyedState {
    fn default() -> Self {
        let random = RandomState::new();
        Self([random.hash_one(0u8), random.hash_one(1u8) | 1])
    }
}

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { state: self.0[0], key: self.0[1] }
    }
}

/// Folded multiplication with secret keys: a few nanoseconds for a FID, where the standard hash takes twenty.
#[derive(Debug)]
pub(crate) struct KeyedHasher {
    state: u64,
    key: u64,
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        let product = u128::from(self.state ^ n) * u128::from(self.key);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        // The last word was mixed once; once more spreads it over the bits at either end.
        let product = u128::from(self.state) * u128::from(self.key.rotate_left(32) | 1);
        (product as u64) ^ ((product >> 64) as u64)
    }
}
