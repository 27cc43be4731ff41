//! Numbers that follow from a seed.

/// Splitmix64.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to `limit`, without it.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The seed that the environment names by `TEST_SEED`, so that a failure can be looked for again; else `otherwise`.
pub fn seed(otherwise: u64) -> u64 {
    match std::env::var("TEST_SEED") {
        Ok(seed) => seed.parse().expect("TEST_SEED is a number"),
        Err(_) => otherwise,
    }
}
